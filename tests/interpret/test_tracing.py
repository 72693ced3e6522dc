"""jumok.trace: the trace equals the forward pass for every kind of model, which is unchanged."""

import copy
import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import jumok
from jumok.errors import InputError
from jumok.interpret import tracing
from jumok.interpret.schema import Tokens
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import NO_PARAMETERS
from jumok.interpret.tracing import trace
from jumok.models import EncoderDecoder, EncoderDecoderClassifier
from jumok.models.points import backbones_by_side
from jumok.nn.hooks import HookPoint, record
from jumok.tasks.pipeline.pipeline import Pipeline
from tests import hf_folders
from tests.combinations import singly
from tests.errors import raises
from tests.interpret.random_models import KINDS, READINGS, REVIEWS, loaded_of, texts_of
from tests.models.small_models import POSITIONS

every_kind = pytest.mark.parametrize("kind", KINDS)

FOREIGN = {
    "bert": hf_folders.bert,
    "bert classifier": lambda folder: hf_folders.bert(
        folder, "ForSequenceClassification", ("아니오", "예")
    ),
    "bert backbone": lambda folder: hf_folders.bert(folder, "Model"),
    "roberta": hf_folders.roberta,
    "modernbert": hf_folders.modernbert,
    "deberta": hf_folders.deberta,
    "deberta tokens": lambda folder: hf_folders.deberta(
        folder, "ForTokenClassification", ("O", "B-LOC", "I-LOC"), share_att_key=False
    ),
    "gpt2": hf_folders.gpt2,
    "t5": hf_folders.t5,
    "bart": hf_folders.bart,
    "marian": hf_folders.marian,
    **{
        family: partial(hf_folders.llama, family=family)
        for family in ("llama", "qwen3", "gemma3_text", "exaone4")
    },
}


def tensor(rows: tuple[Tokens, ...], name: str) -> Tensor:
    return torch.tensor([getattr(row, name) for row in rows])


def inputs_of(loaded: Pipeline, made: Trace) -> dict[str, Any]:
    """What to ask of `logits` or `hidden_states` to have the model read the same."""
    sides = made.info.sides
    if "source" not in sides:
        row = sides["target"]
        return {"input_ids": tensor(row, "ids"), "attention_mask": tensor(row, "real")}
    row = sides["source"]
    inputs = {"input_ids": tensor(row, "ids"), "attention_mask": tensor(row, "real")}
    if row[0].segments is not None:
        inputs["token_type_ids"] = tensor(row, "segments")
    if "target" in sides:
        inputs["decoder_input_ids"] = tensor(sides["target"], "ids")
    return inputs


def assert_true(loaded: Pipeline, made: Trace) -> None:
    """The trace equals the forward pass of the unmodified model, and satisfies the equations."""
    written_side = "target" if "target" in made.info.sides else "source"
    last = max(block.layers for block in made.info.blocks if block.queries == written_side)
    hidden = loaded.hidden_states(**inputs_of(loaded, made)).numpy()
    for number, tokens in enumerate(made.info.sides[written_side]):  # type: ignore[index]
        n = sum(tokens.real)
        found = made.hidden(written_side, last, number)[:n]
        # the fused kernel sums in another order
        assert np.abs(found - hidden[number, :n]).max() < 2e-5 * max(1, np.abs(hidden).max())
    with record(loaded.model) as seen:
        loaded.hidden_states(**inputs_of(loaded, made))
    for block in made.info.blocks:
        for layer in range(block.layers):
            location = {"cross": f"decoder.stack.layers.{layer}.cross_attention"}.get(
                block.name, f"{block.name}.stack.layers.{layer}.self_attention"
            )
            lone = loaded.model in backbones_by_side(loaded.model).values()
            weights = seen[location.partition(".")[2] if lone else location][0].numpy()
            for number in range(made.info.sequences):
                real = np.array(made.info.tokens(block.queries, number).real, bool)
                mine = made.weights(block.name, layer, number)
                assert np.array_equal(mine[:, real], weights[number][:, real])
                _check_equations(made, block.name, layer, number)


def _check_equations(made: Trace, block: str, layer: int, number: int) -> None:
    """softmax(q k^T scale + bias, over the visible keys) v, step by step."""
    mask = made.mask(block, number, layer)
    weights, scores = made.weights(block, layer, number), made.scores(block, layer, number)
    assert (weights[:, ~mask] == 0).all()
    sums = weights.sum(-1)
    assert np.abs(sums - 1).max() < 1e-6  # in float32
    raised = np.exp(scores - scores.max(-1, keepdims=True, where=mask, initial=-1e30)) * mask
    assert np.abs(raised / raised.sum(-1, keepdims=True) - weights).max() < 1e-6
    q, k, v = (getattr(made, name)(block, layer, number) for name in "qkv")
    described = made.info.block(block)
    k, v = (np.repeat(x, described.heads // described.key_heads, axis=0) for x in (k, v))
    again = q @ k.swapaxes(-1, -2) * np.float32(made.info.block(block).scale)
    bias = made.bias(block, layer, number)
    again = again if bias is None else again + bias
    assert np.abs(again - scores).max() < 1e-5 * max(1, np.abs(scores).max())
    mixed = made.tensor(f"{block}.{layer}.mixed")[number]
    assert np.abs(weights @ v - mixed).max() < 1e-5 * max(1, np.abs(v).max())
    side = made.info.block(block).queries
    part = "cross_attention" if block == "cross" else "self_attention"
    output = made.tensor(f"parameters.{side}.{layer}.{part}.output.weight")  # (D, H K)
    H, S, K = v.shape
    norms = made.value_norms(block, layer, number)
    for h in range(H):
        for s in range(S):
            arriving = output[:, h * K : (h + 1) * K] @ v[h, s]
            assert abs(norms[h, s] - np.linalg.norm(arriving)) < 1e-4 * max(1, norms[h, s])


@pytest.mark.parametrize(("kind", "positions"), singly(KINDS, POSITIONS))
def test_a_trace_equals_the_forward_pass(kind: str, positions: str) -> None:
    loaded = loaded_of(kind, positions)
    assert_true(loaded, trace(loaded, texts_of(kind), explain=False))


@pytest.mark.parametrize("family", FOREIGN)
def test_a_trace_of_an_imported_model_equals_its_forward_pass(family: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    FOREIGN[family](tmp_path / "model")
    loaded = jumok.load(tmp_path / "model", device="cpu")
    writes = loaded.recipe.task in ("sequence_to_sequence", "language_modeling")
    texts = ["삼 일 오", "이 영화 정말 재미있어요"]
    targets = ["3 1 5", "2"] if writes else None
    made = trace(loaded, texts, targets, explain=False)
    assert made.info.model.family == loaded.origin.config["model_type"]  # type: ignore[union-attr]
    assert_true(loaded, made)


def test_each_layer_has_the_mask_of_its_window_and_its_own_angles(tmp_path: Path) -> None:
    """The first layer of these Gemma 3 attends within 6 tokens, the second without a limit."""
    pytest.importorskip("transformers")
    hf_folders.llama(tmp_path, family="gemma3_text")
    made = trace(jumok.load(tmp_path, device="cpu"), "이 영화 정말 재미있어요", "정말 정말")
    n = len(made.info.tokens("target"))
    causal = np.tril(np.ones((n, n), dtype=bool))
    assert n > 6
    assert made.info.model.layer_kinds == "LG"
    assert made.info.model.sliding_window == 6
    assert np.array_equal(made.mask("decoder", layer=0), np.triu(causal, -5))
    assert np.array_equal(made.mask("decoder", layer=1), causal)
    assert not np.array_equal(made.tensor("decoder.0.rotary"), made.tensor("rotary"))
    with raises(InputError, "trace.layer_range"):
        made.mask("decoder", layer=2)


def test_a_trace_has_the_checksum_of_the_weights(review_run: Path, tmp_path: Path) -> None:
    loaded = jumok.load(review_run, device="cpu")
    expected = hashlib.sha256((review_run / "model.safetensors").read_bytes()).hexdigest()
    assert trace(loaded, REVIEWS[0]).info.model.weights_sha256 == expected
    assert trace(loaded_of("classifier"), REVIEWS[0]).info.model.weights_sha256 is None


def test_a_trace_does_not_change_when_the_model_does() -> None:
    loaded = copy.copy(loaded_of("pairs", "learned"))
    loaded.model = copy.deepcopy(loaded.model)
    made = trace(loaded, texts_of("pairs")[0], explain=False)
    before = made.to_bytes()
    with torch.no_grad():
        for weight in loaded.model.parameters():
            weight.add_(1.0)
    assert made.to_bytes() == before


@every_kind
def test_tracing_leaves_the_model_unchanged(kind: str) -> None:
    loaded = loaded_of(kind)
    text = texts_of(kind)[0]
    before = loaded(text)
    trace(loaded, text, mute=[("decoder" if kind == "language model" else "encoder", 0, 0)])
    assert loaded(text) == before
    points = [module for module in loaded.model.modules() if isinstance(module, HookPoint)]
    assert not any(point.has_hooks for point in points)


def test_every_step_of_the_calculation_can_be_recomputed() -> None:
    made = trace(loaded_of("first token"), REVIEWS[0])
    assert made.info.model.norm_first
    for layer in range(2):
        steps = {
            name: made.tensor(f"source.steps.{layer}.{name}")[0]
            for name in ("self_attention", "after_self_attention", "hidden", "feed_forward")
        }
        own = {
            name.partition(f"source.{layer}.")[2]: made.tensor(name)
            for name in made.names
            if name.startswith(f"parameters.source.{layer}.")
        }
        x = made.hidden("source", layer)
        mixed = made.tensor(f"encoder.{layer}.mixed")[0]  # (H, T, K)
        rows = mixed.transpose(1, 0, 2).reshape(len(x), -1)  # (T, H K)
        output = own["self_attention.output.weight"], own["self_attention.output.bias"]
        attention = rows @ output[0].T + output[1]
        assert np.abs(attention - steps["self_attention"]).max() < 1e-4
        assert np.abs(x + attention - steps["after_self_attention"]).max() < 1e-4
        narrow = steps["hidden"] @ own["feed_forward.down.weight"].T + own["feed_forward.down.bias"]
        assert np.abs(narrow - steps["feed_forward"]).max() < 1e-4
        end = made.tensor(f"source.steps.{layer}.after_feed_forward")[0]
        if layer == 0:
            assert np.array_equal(end, made.hidden("source", 1))


def test_positions_embeddings_and_segments_add_up() -> None:
    made = trace(loaded_of("pairs", "learned"), texts_of("pairs")[0])
    tokens = made.info.tokens("source")
    assert tokens.segments is not None
    assert set(tokens.segments) == {0, 1}
    summed = (
        made.tensor("source.embedding")[0]
        + made.tensor("source.positions")
        + made.tensor("source.segments")[list(tokens.segments)]
    )
    assert np.abs(summed - made.hidden("source", 0)).max() < 1e-6


def test_parameters_of_large_models_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = trace(loaded_of("classifier"), REVIEWS[0])
    assert any(name.startswith("parameters.") for name in made.names)
    assert made.info.notes == ()
    monkeypatch.setattr(
        tracing, "MAX_FLOAT32_BYTES", 4 * loaded_of("classifier").model.output.weight.numel()
    )
    made = trace(loaded_of("classifier"), REVIEWS[0])
    assert not any(name.startswith("parameters.") for name in made.names)
    assert made.info.notes == (NO_PARAMETERS,)
    made = trace(loaded_of("classifier"), REVIEWS[0], whole=True)
    assert any(name.startswith("parameters.") for name in made.names)
    assert made.info.notes == ()


def test_rotary_angles_are_recorded() -> None:
    made = trace(loaded_of("classifier", "rotary"), REVIEWS[0])
    K = made.info.block("encoder").d_head
    expected = [10_000 ** (-2 * i / K) for i in range(K // 2)]
    assert np.allclose(made.tensor("rotary"), expected, rtol=1e-6)


def test_the_bias_of_relative_positions_is_recorded() -> None:
    made = trace(loaded_of("classifier", "relative"), REVIEWS[0])
    bias = made.bias("encoder", 1)
    assert bias is not None
    assert bias.std() > 0
    assert trace(loaded_of("classifier"), REVIEWS[0]).bias("encoder", 1) is None


def test_a_batch_equals_single_texts_with_masked_padding() -> None:
    loaded = loaded_of("classifier")
    both = trace(loaded, REVIEWS, pad_to=20)
    for number, text in enumerate(REVIEWS):
        alone = trace(loaded, text)
        n = len(alone.info.tokens("source"))
        padded = both.info.tokens("source", number)
        assert sum(padded.real) == n
        assert len(padded) == 20
        assert padded.special[n:] == (1,) * (20 - n)
        assert padded.pieces[n:] == ("[PAD]",) * (20 - n)
        mine, reference = both.weights("encoder", 1, number), alone.weights("encoder", 1)
        assert np.abs(mine[:, :n, :n] - reference).max() < 1e-6
        assert (mine[:, :, n:] == 0).all()


def test_generative_models_are_traced_on_their_own_output() -> None:
    loaded = loaded_of("sequences")
    text = texts_of("sequences")[0]
    made = trace(loaded, text)
    assert made.info.decoding is not None
    assert made.info.decoding.output == loaded(text).output  # type: ignore[attr-defined]
    assert made.info.decoding.method == "greedy"
    chosen = [step.chosen.id for step in made.info.decoding.steps if step.chosen]
    read = made.info.tokens("target").ids
    assert read[0] == loaded.vocabulary.bos_id
    assert list(read[1:]) == chosen[: len(read) - 1]
    assert made.info.next is not None
    assert [best[0].id for best in made.info.next][: len(chosen)] == chosen


def test_decode_overrides_the_recipe() -> None:
    made = trace(loaded_of("sequences"), texts_of("sequences")[0], decode={"beam": 3})
    assert made.info.decoding is not None
    assert made.info.decoding.method == "beam"
    assert made.info.decoding.settings["beam"] == 3
    with raises(InputError, "config.unknown_key"):
        trace(loaded_of("sequences"), "삼", decode={"beem": 3})


def test_the_score_of_a_regression_is_in_the_trace() -> None:
    loaded, texts = loaded_of("regression"), texts_of("regression")
    scores = [answer.score for answer in loaded(texts)]
    assert trace(loaded, texts).info.regression == pytest.approx(scores, abs=1e-5)  # other kernel
    assert trace(loaded_of("classifier"), REVIEWS[0]).info.regression is None


def test_an_output_of_max_length_is_traced_without_its_last_token() -> None:
    loaded = loaded_of("sequences")
    most = loaded.recipe.model.max_length
    long = {"min_length": most, "max_length": most}
    made = trace(loaded, READINGS[0], decode=long)
    [row], recorded_decoding = made.info.sides["target"], made.info.decoding
    assert recorded_decoding is not None
    assert len(recorded_decoding.steps) == most
    assert len(row) == most
    assert row.ids[1:] == tuple(s.chosen.id for s in recorded_decoding.steps if s.chosen)[:-1]
    assert row.text == recorded_decoding.output
    [note] = [note for note in made.info.notes if "target" in note]
    assert "1 pieces of it were truncated" in note


def test_a_given_target_is_not_generated() -> None:
    loaded = loaded_of("sequences")
    made = trace(loaded, "삼 일", "3 1")
    assert made.info.decoding is not None
    assert made.info.decoding.method == "given"
    assert made.info.tokens("target").text == "3 1"
    assert made.info.tokens("target").ids[1:] == tuple(loaded.vocabulary.encode("3 1"))


def test_a_language_model_continues_its_text() -> None:
    loaded = loaded_of("language model")
    made = trace(loaded, REVIEWS[0])
    tokens, decoding = made.info.tokens("target"), made.info.decoding
    assert decoding is not None
    assert tokens.text.startswith(REVIEWS[0])
    assert decoding.prompt == 1 + len(loaded.vocabulary.encode(REVIEWS[0]))
    only = trace(loaded, REVIEWS[0], "")
    assert only.info.decoding is None
    assert len(only.info.tokens("target")) == decoding.prompt
    n = decoding.prompt  # later tokens do not change earlier ones
    mine, reference = only.weights("decoder", 1), made.weights("decoder", 1)[:, :n, :n]
    assert np.abs(mine - reference).max() < 1e-6


def test_a_language_model_generates_within_its_window() -> None:
    """Unless max_length is set: with 256 new tokens the trace would not contain the text."""
    loaded = loaded_of("language model").with_decoding(["max_length=256", "min_length=200"])
    made = trace(loaded, "이 영화\n")
    row, decoding = made.info.tokens("target"), made.info.decoding
    assert decoding is not None
    assert len(row) == loaded.recipe.model.max_length < 200
    assert row.text.startswith("이 영화")
    assert decoding.prompt == len(row) - len(decoding.steps) > 0


def test_a_language_model_that_generates_beyond_its_window() -> None:
    """The trace has the newest tokens; those of the first steps have negative indices."""
    loaded = loaded_of("language model")
    most = loaded.recipe.model.max_length
    made = trace(loaded, "이 영화\n", decode={"min_length": most + 5, "max_length": most + 5})
    row, decoding = made.info.tokens("target"), made.info.decoding
    assert decoding is not None
    assert decoding.text == "이 영화\n"
    assert (len(row), len(decoding.steps), decoding.prompt) == (most, most + 5, -5)
    chosen = [step.chosen.id for step in decoding.steps if step.chosen]
    assert row.ids == tuple(chosen[5:])


def test_a_text_beyond_max_length_is_truncated_with_a_note() -> None:
    loaded = loaded_of("classifier")
    made = trace(loaded, " ".join(REVIEWS * 5), explain=False)
    assert len(made.info.tokens("source")) == loaded.recipe.model.max_length
    assert any("were truncated" in note for note in made.info.notes)
    written = trace(loaded_of("language model"), " ".join(REVIEWS * 5))
    assert len(written.info.tokens("target")) == loaded.recipe.model.max_length
    assert any("were truncated" in note for note in written.info.notes)


def test_texts_without_words_are_traced_too() -> None:
    for kind in KINDS:
        text = "\t" if kind in ("pairs", "regression") else ""
        made = trace(loaded_of(kind), text)
        assert made.info.sequences == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"text": []}, "trace.no_text"),
        ({"text": ["가", "나"], "target": "다"}, "trace.no_text"),
        ({"text": "가", "target": "나"}, "trace.target_without_generation"),
        ({"text": "가", "decode": {"beam": 2}}, "trace.decode_without_generation"),
        (
            {"text": "가", "target": "나", "decode": {"beam": 2}},
            "trace.decode_and_target",
        ),
        ({"text": "가", "mute": [("decoder", 0, 0)]}, "trace.muted_head"),
        ({"text": "가", "mute": [("encoder", 2, 0)]}, "trace.muted_head"),
        ({"text": "가", "mute": [("encoder", 0, 2)]}, "trace.muted_head"),
        ({"text": "가\ud800나"}, "text.lone_surrogate"),
    ],
)
def test_invalid_arguments_are_rejected(call: dict[str, Any], message: str) -> None:
    with raises(InputError, message):
        trace(loaded_of("classifier"), **call)


# Muting


def without_head(model: nn.Module, block: str, layer: int, head: int) -> nn.Module:
    """A copy of the model in which W_O is zero where that head arrives."""
    other = copy.deepcopy(model)
    found = backbones_by_side(other)["source" if block == "encoder" else "target"].stack.layers[
        layer
    ]
    attention = found.cross_attention if block == "cross" else found.self_attention
    K = attention.output.in_features // attention.n_heads
    with torch.no_grad():
        attention.output.weight[:, head * K : (head + 1) * K] = 0
    return other


@pytest.mark.parametrize(
    "kind", ["classifier", "language model", "sequences", "encoder-decoder classifier"]
)
def test_a_muted_head_is_one_whose_output_is_zero(kind: str) -> None:
    loaded = loaded_of(kind)
    target = [""] if kind == "language model" else ["3 1"] if kind == "sequences" else None
    text = texts_of(kind)[:1]
    plain = trace(loaded, text, target)
    for block in plain.info.blocks:
        muted = trace(loaded, text, target, mute=[(block.name, 0, 1), (block.name, 0, 1)])
        assert muted.info.muted == ((block.name, 0, 1),)
        assert (muted.weights(block.name, 0)[1] == 0).all()
        other = copy.copy(loaded)
        other.model = without_head(loaded.model, block.name, 0, 1)
        by_hand = trace(other, text, target)
        for name in plain.names:
            if "weights" in name or "mixed" in name or name.startswith("parameters"):
                continue
            if name.startswith((f"{block.name}.0.", f"{block.name}.thumb", f"{block.name}.entr")):
                continue
            difference = np.abs(muted.tensor(name) * 1.0 - by_hand.tensor(name)).max()
            assert difference < 1e-5 * max(1.0, np.abs(by_hand.tensor(name)).max()), name
        # earlier layers and other heads are unchanged
        assert np.array_equal(muted.weights(block.name, 0)[0], plain.weights(block.name, 0)[0])
        assert not np.array_equal(
            muted.hidden(block.queries, block.layers), plain.hidden(block.queries, block.layers)
        )


def test_a_muted_model_generates_without_the_heads() -> None:
    loaded = loaded_of("sequences")
    text = texts_of("sequences")[0]
    mute = [(block, layer, 0) for block in ("decoder", "cross") for layer in (0, 1)]
    muted = trace(loaded, text, mute=mute)
    assert muted.info.next is not None
    chosen = [best[0].id for best in muted.info.next]
    assert muted.info.tokens("target").ids[1:] == tuple(chosen[: len(muted.info.next) - 1])
    assert muted.info.decoding is not None
    plain = trace(loaded, text)
    assert plain.info.decoding is not None
    assert plain.info.decoding.steps[0].before != muted.info.decoding.steps[0].before


# Side by side


def test_traced_muted_and_plain_requests_run_concurrently() -> None:
    loaded = loaded_of("classifier")
    texts = [text for text in REVIEWS for _ in range(8)]
    mute = [("encoder", 0, 0), ("encoder", 1, 1)]

    def watched(text: str) -> bytes:
        return trace(loaded, text, explain=False).to_bytes()

    def muted(text: str) -> bytes:
        return trace(loaded, text, mute=mute, explain=False).to_bytes()

    def plain(text: str) -> str:
        return repr(loaded(text))

    expected = [(watched(text), muted(text), plain(text)) for text in texts]
    with ThreadPoolExecutor(6) as pool:
        jobs = [[pool.submit(ask, text) for ask in (watched, muted, plain)] for text in texts]
        found = [tuple(job.result() for job in three) for three in jobs]
    assert found == expected
    assert all(one != other for one, other, _ in expected)


def test_other_architectures_are_recognised_by_their_blocks() -> None:
    for kind in KINDS:
        loaded = loaded_of(kind)
        names = [block.name for block in trace(loaded, texts_of(kind)[0]).info.blocks]
        both = isinstance(loaded.model, EncoderDecoder | EncoderDecoderClassifier)
        if both:
            assert names == ["encoder", "decoder", "cross"]
        else:
            assert names == ["decoder" if kind == "language model" else "encoder"]


def test_each_text_of_a_trace_has_its_own_decoding() -> None:
    model = jumok.load("note", device="cpu")
    texts = ["겨울은 추워요.", "감기 조심하세요."]
    info = jumok.trace(model, texts).info
    assert info.decoding is not None
    decodings = [info.decoding, *info.more_decodings]
    assert [each.output for each in decodings] == ["Winter is cold.", "Watch out for colds."]
    for number, each in enumerate(decodings):
        row = info.tokens("target", number)
        chosen = [step.chosen.id for step in each.steps if step.chosen]
        real = [id_ for id_, real in zip(row.ids, row.real, strict=True) if real]
        assert chosen[: len(real) - 1] == real[1:]
    given = jumok.trace(model, texts, target=["Winter is hot.", "Watch out!"]).info
    assert [each.output for each in given.more_decodings] == ["Watch out!"]
