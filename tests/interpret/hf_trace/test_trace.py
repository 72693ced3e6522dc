"""Traces of transformers models: the model is unchanged, and the weights are its own."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import jumok
from jumok.errors import InputError
from jumok.interpret.hf_trace.attention import collect_stacks, has_windows, record_attention
from jumok.interpret.hf_trace.trace import trace_transformers
from jumok.nn.hooks import shared_copy
from jumok.tasks.runs.load import load
from tests import hf_folders
from tests.errors import raises
from tests.pretrained.hf_variants import SCALES, VARIANTS, V, randomize

GROUPED = {
    "vocab_size": V,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
INVERSE = {"scale_attn_by_inverse_layer_idx": True}
LISTED = (
    "bert-bare", "bert-texts", "bert-segments", "roberta-masked", "distilbert-masked",
    "electra-discriminator", "gpt2-language", "gpt2-bare", "gpt2-unscaled", "t5-relu", "t5-gated",
    "t5-encoder", "bart-plain", "bart-bare", "marian-plain", "mbart-plain",
)  # fmt: skip
IDS = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 12, 13, 1, 1, 1]])
REAL = torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])
GIVEN = torch.tensor([[2, 4, 5, 6], [2, 7, 8, 9]])

FIELDS = {
    "encoder": ("encoder_attentions", "attentions"),
    "decoder": ("decoder_attentions", "attentions"),
    "cross": ("cross_attentions",),
}


def model_of(name: str, implementation: str = "sdpa") -> Any:
    """A tiny model with random weights and the default attention of transformers."""
    import transformers

    if name in ("llama", "qwen2", "gemma2", "gpt2-inverse"):
        settings = GROUPED if name != "gpt2-inverse" else {}
        if name == "gpt2-inverse":
            config = transformers.GPT2Config(
                vocab_size=V, n_embd=24, n_layer=3, n_head=3, bos_token_id=0, eos_token_id=2,
                **INVERSE,
            )  # fmt: skip
            made: Any = transformers.GPT2LMHeadModel(config)
        elif name == "gemma2":
            implementation = "eager"  # the only one this family has
            capped = transformers.Gemma2Config(**settings, head_dim=8, attn_logit_softcapping=3.0)
            made = transformers.Gemma2ForCausalLM(capped)
        elif name == "llama":
            made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings))
        else:
            made = transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**settings))
        made = randomize(made.eval(), 5, SCALES)
    else:
        made = next(variant for variant in VARIANTS if variant.name == name).model()
    made.set_attn_implementation(implementation)
    return made


def inputs_of(model: Any) -> dict[str, Tensor]:
    given = {"input_ids": IDS, "attention_mask": REAL}
    return given | ({"decoder_input_ids": GIVEN} if model.config.is_encoder_decoder else {})


@torch.no_grad()
def eager(name: str) -> Mapping[str, Any]:
    """The outputs with the eager attention of transformers."""
    model = model_of(name, "eager")
    answer = model(**inputs_of(model), output_attentions=True, output_hidden_states=True)
    return dict(answer)


every_family = pytest.mark.parametrize(
    "name", [*LISTED, "llama", "qwen2", "gemma2", "gpt2-inverse"]
)


@every_family
def test_outputs_do_not_change(name: str) -> None:
    model, plain = model_of(name), eager(name)
    view = shared_copy(model)
    with torch.no_grad(), record_attention(view) as seen:
        answer = view(**inputs_of(model))
    assert seen
    for key in ("logits", "last_hidden_state", "encoder_last_hidden_state"):
        if plain.get(key) is not None:
            assert torch.equal(answer[key], plain[key])


@every_family
def test_weights_and_hidden_states_equal_transformers(name: str) -> None:
    model, plain = model_of(name), eager(name)
    trace = trace_transformers(model, **inputs_of(model))
    for block in trace.info.blocks:
        reference = next(plain[field] for field in FIELDS[block.name] if field in plain)
        assert block.layers == len(reference)
        for layer, weights in enumerate(reference):
            for row in range(2):
                actual = torch.from_numpy(trace.weights(block.name, layer, row))
                assert torch.equal(actual, weights[row])
        mask = torch.from_numpy(trace.mask(block.name, 1))
        width = 3 if block.keys == "source" else trace.info.sides[block.keys][1].real.count(1)
        assert not mask[:, width:].any()
        assert block.causal == (block.name == "decoder")
    for side in trace.info.sides:
        field = "hidden_states"
        if len(trace.info.sides) > 1:
            field = {"source": "encoder_hidden_states", "target": "decoder_hidden_states"}[side]
        for layer, hidden in enumerate(plain[field]):
            assert torch.equal(torch.from_numpy(trace.hidden(side, layer, 1)), hidden[1])


@every_family
def test_the_numbers_are_consistent(name: str) -> None:
    """q, k, bias and mask give the weights; weights times values, projected, the output."""
    model = model_of(name)
    trace = trace_transformers(model, **inputs_of(model))
    assert not [note for note in trace.info.notes if "not the softmax" in note]
    for block in trace.info.blocks:
        for layer in range(block.layers):
            q, k, v = (
                torch.from_numpy(getattr(trace, part)(block.name, layer, 1)) for part in "qkv"
            )
            assert k.shape[0] == v.shape[0] == block.key_heads
            assert q.shape[0] == block.heads
            shared = block.heads // block.key_heads
            scores = (q @ k.repeat_interleave(shared, 0).mT) * block.scale
            assert (block.softcap is not None) == (name == "gemma2")
            if block.softcap is not None:
                scores = block.softcap * (scores / block.softcap).tanh()
            bias = trace.bias(block.name, layer)
            if bias is not None:
                scores = scores + torch.from_numpy(bias)
            recorded = torch.from_numpy(trace.scores(block.name, layer, 1))
            torch.testing.assert_close(recorded, scores, rtol=1e-5, atol=1e-5)
            mask = torch.from_numpy(trace.mask(block.name, 1))
            weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
            found = torch.from_numpy(trace.weights(block.name, layer, 1))
            torch.testing.assert_close(found, weights, rtol=1e-5, atol=1e-6)
            assert (found[:, ~mask] == 0).all()
            norms = trace.value_norms(block.name, layer, 1)
            assert norms.shape == (block.heads, k.shape[1])
            assert (norms > 0).all()
    relative = name.startswith("t5")
    own = trace.info.blocks[0].name
    assert (trace.bias(own, 0) is not None) == relative
    if name != "t5-encoder" and relative:
        assert trace.bias("cross", 0) is None


SMALL = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 40,
    "pad_token_id": 0,
    "sliding_window": 3,
}
NO_NORM = {"ffn_dim": 32, "word_embed_proj_dim": 16}


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [  # embedding_scale, bias, head_norm, sublayer_norm, norm_first, layer_kinds, sliding_window
        ("BertModel", {}, (1.0, True, False, False, False, "GG", None)),
        ("LlamaModel", {"mlp_bias": True}, (1.0, True, False, False, True, "GG", None)),
        ("Qwen3Model", {}, (1.0, False, True, False, True, "GG", None)),
        ("MistralModel", {}, (1.0, False, False, False, True, "LL", 3)),
        ("Gemma2Model", {}, (4.0, False, None, True, True, "LG", 3)),  # read from the modules
        ("OPTModel", NO_NORM, (None, True, None, None, True, None, None)),
        ("AlbertModel", {"sliding_window": None}, (None, True, None, None, False, "GG", None)),
        ("Olmo2Model", {"sliding_window": None}, (None, False, None, True, False, "GG", None)),
        ("Phi3Model", {}, (None, None, None, None, True, None, None)),  # has no layer_types
    ],
)  # fmt: skip
def test_what_the_lesson_states_is_known_or_none(
    name: str, settings: Mapping[str, Any], expected: tuple[object, ...]
) -> None:
    import transformers

    values = SMALL | dict(settings)
    config = getattr(transformers, name.replace("Model", "Config"))
    model = randomize(getattr(transformers, name)(config(**values)).eval(), 1)
    info = trace_transformers(model, torch.arange(4, 12)[None]).info
    found = info.model
    assert expected == (
        found.embedding_scale, found.bias, found.head_norm, found.sublayer_norm,
        found.norm_first, found.layer_kinds, found.sliding_window,
    )  # fmt: skip


def test_kinds_of_layers_are_compared_with_the_masks() -> None:
    from transformers import MistralConfig, MistralModel

    view = shared_copy(MistralModel(MistralConfig(**SMALL)).eval())
    with torch.no_grad(), record_attention(view) as calls:
        view(torch.arange(4, 12)[None])
    stacks = collect_stacks(view, calls, encoder_decoder=False)
    assert [span for span in range(1, 9) if has_windows(stacks, "LL", span)] == [3]
    for kinds in ("GG", "LG", "L", None):  # L: a layer is missing
        assert not has_windows(stacks, kinds, 3)


def test_queries_that_the_model_scales_itself_are_recorded_unscaled() -> None:
    """OPT multiplies q by 1/√d before its attention function, which gets the scale 1."""
    from transformers import OPTConfig, OPTModel

    model = OPTModel(OPTConfig(**SMALL, **NO_NORM)).eval()
    trace = trace_transformers(model, torch.arange(4, 12)[None])
    block = trace.info.block("decoder")
    assert block.scale == 8**-0.5
    layer: Any = model.get_submodule("decoder.layers.0")
    with torch.no_grad():
        x = layer.self_attn_layer_norm(torch.from_numpy(trace.hidden("target", 0)))
        q = layer.self_attn.q_proj(x)
    torch.testing.assert_close(
        torch.from_numpy(trace.q("decoder", 0)).transpose(0, 1).flatten(1), q, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["bert-texts", "llama", "bart-plain"])
def test_the_model_is_unchanged(name: str) -> None:
    model = model_of(name)
    weights = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    with torch.no_grad():
        before = model(**inputs_of(model))
    modules = [(module, len(module._forward_hooks)) for module in model.modules()]
    trace_transformers(model.train(), **inputs_of(model))
    assert model.training
    model.eval()
    assert model.config._attn_implementation == "sdpa"
    assert modules == [(module, len(module._forward_hooks)) for module in model.modules()]
    with torch.no_grad():
        after = model(**inputs_of(model))
    assert torch.equal(before[0], after[0])
    assert all(torch.equal(weights[key], tensor) for key, tensor in model.state_dict().items())


def test_the_model_is_unchanged_after_a_failure() -> None:
    model = model_of("bert-texts")
    with pytest.raises(IndexError):  # an id that the model has not
        trace_transformers(model, torch.tensor([[V + 5]]))
    assert model.config._attn_implementation == "sdpa"
    assert trace_transformers(model, IDS, REAL).info.blocks[0].layers == 2


def test_the_model_can_be_used_while_traced() -> None:
    model = model_of("gpt2-language")
    with torch.no_grad():
        plain = model(input_ids=IDS).logits
    wrong: list[str] = []

    def use() -> None:
        for _ in range(10):
            with torch.no_grad():
                if not torch.equal(model(input_ids=IDS).logits, plain):
                    wrong.append("another answer")

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    traces = [trace_transformers(model, IDS) for _ in range(5)]
    for user in users:
        user.join()
    assert not wrong
    assert {len(trace.info.blocks) for trace in traces} == {1}
    assert {trace.info.blocks[0].layers for trace in traces} == {2}  # no calls of other threads


@pytest.mark.parametrize("family", ["bert", "roberta", "gpt2", "t5", "bart", "marian"])
def test_the_imported_model_has_the_same_trace(family: str, tmp_path: Path) -> None:
    """jumok.load of the saved folder, traced, against the model of transformers, traced."""
    from transformers import AutoTokenizer

    model = getattr(hf_folders, family)(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    loaded = load(tmp_path, "cpu")
    target = "3 1 5" if model.config.is_encoder_decoder else None
    actual = jumok.trace(loaded, "이 영화 정말", target or ("삼" if family == "gpt2" else None))
    ids = {side: torch.tensor([rows[0].ids]) for side, rows in actual.info.sides.items()}
    source = ids["target" if family == "gpt2" else "source"]
    given = ids["target"] if target else None
    reference = trace_transformers(model, source, decoder_input_ids=given, tokenizer=tokenizer)
    assert [b.name for b in reference.info.blocks] == [b.name for b in actual.info.blocks]
    for block in actual.info.blocks:
        for layer in range(block.layers):
            for part in ("weights", "scores", "q", "k", "v", "value_norms"):
                a = getattr(actual, part)(block.name, layer)
                b = getattr(reference, part)(block.name, layer)
                torch.testing.assert_close(
                    torch.from_numpy(b), torch.from_numpy(a), rtol=1e-4, atol=1e-5
                )
    for name in ("positions", "norm", "norm_first", "gated", "activation", "d_model", "d_ff"):
        assert getattr(reference.info.model, name) == getattr(actual.info.model, name)


def test_texts_and_pairs_with_the_tokenizer(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = hf_folders.bert(tmp_path, "ForSequenceClassification", ["나쁨", "좋음"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "이 영화 정말\t재미있어요"
    trace = jumok.trace(model, text, tokenizer=tokenizer)
    tokens = trace.info.tokens("source")
    pair = tokenizer("이 영화 정말", "재미있어요")
    assert list(tokens.ids) == pair["input_ids"]
    assert list(tokens.segments or ()) == pair["token_type_ids"]
    assert tokens.text == text
    assert tokens.pieces[0] == "[CLS]"
    assert tokens.special[0] == tokens.special[-1] == 1
    shown = [text[b:e] for (b, e), special in zip(tokens.spans, tokens.special, strict=True)
             if not special]  # fmt: skip
    assert "".join(shown) == "이영화정말재미있어요"
    assert trace.info.classification is not None
    assert trace.info.classification.labels == ("나쁨", "좋음")
    with torch.no_grad():
        answer = model(**tokenizer("이 영화 정말", "재미있어요", return_tensors="pt")).logits
    found = trace.info.classification.sequences[0].probabilities
    assert found == pytest.approx(answer.softmax(-1)[0].tolist(), abs=1e-6)


def test_mask_and_unknown_tokens_have_text(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = hf_folders.bert(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "이 [MASK] 精"
    tokens = jumok.trace(model, text, tokenizer=tokenizer).info.tokens("source")
    assert (tokens.pieces[0], tokens.pieces[-1]) == ("[CLS]", "[SEP]")
    assert {"[MASK]", "[UNK]"} < set(tokens.pieces)
    assert tokens.special == (1, *[0] * (len(tokens) - 2), 1)
    location = tokens.pieces.index("[MASK]")
    assert (tokens.spans[location], tokens.words[location]) == ((2, 8), 1)
    assert tokens.words[tokens.pieces.index("[UNK]")] == 2
    ids = torch.tensor([tokens.ids])
    alone = trace_transformers(model, ids, tokenizer=tokenizer).info.tokens("source")
    assert alone.text == "이 [MASK] [UNK]"
    assert alone.special == tokens.special


def test_an_unknown_token_that_is_also_eos_is_special(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = hf_folders.gpt2(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.unk_token_id == tokenizer.eos_token_id
    ids = torch.tensor([[tokenizer.eos_token_id, *tokenizer("삼")["input_ids"]]])
    tokens = trace_transformers(model, ids, tokenizer=tokenizer).info.tokens("target")
    assert tokens.special == (1, *[0] * (len(tokens) - 1))


@pytest.mark.parametrize("family", ["gpt2", "t5", "marian", "bart"])
def test_spans_of_every_kind_of_tokenizer(family: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = getattr(hf_folders, family)(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = "삼 일 오 육"
    targets = ["3 1"] if model.config.is_encoder_decoder else None
    trace = jumok.trace(model, [text], targets, tokenizer=tokenizer)
    side = "source" if targets else "target"
    tokens = trace.info.tokens(side)
    assert tokens.text == text
    covered = "".join(sorted({text[b:e] for b, e in tokens.spans if e > b}))
    assert set("삼일오육") <= set(covered)
    for location, (begin, end) in enumerate(tokens.spans):
        assert 0 <= begin <= end <= len(text)
        assert tokens.special[location] or tokens.words[location] in (-1, 0, 1, 2, 3)
    assert max(tokens.words) == 3
    if targets:
        begun = trace.info.tokens("target")
        assert begun.ids[0] == model.config.decoder_start_token_id
        assert len(trace.info.next or ()) == len(begun)


def test_a_batch_of_texts_is_padded_on_the_right(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = hf_folders.t5(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    several = jumok.trace(model, ["삼 일 오 육", "삼"], ["3 1 5", "3"], tokenizer=tokenizer)
    alone = jumok.trace(model, "삼", "3", tokenizer=tokenizer)
    n, m = len(alone.info.tokens("target")), len(alone.info.tokens("source"))
    assert sum(several.info.tokens("target", 1).real) == n
    assert several.info.tokens("target", 1).special[n:] == (1,) * (
        len(several.info.tokens("target", 1)) - n
    )
    torch.testing.assert_close(
        torch.from_numpy(several.weights("cross", 1, 1)[:, :n, :m]),
        torch.from_numpy(alone.weights("cross", 1)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_different_scales_of_layers_are_noted() -> None:
    trace = trace_transformers(model_of("gpt2-inverse"), IDS)
    assert any("have different scales" in note for note in trace.info.notes)


def test_changes_after_the_softmax_are_noted() -> None:
    """A head of gpt-oss may attend to nothing: its rows do not sum to 1."""
    import transformers

    config = transformers.GptOssConfig(
        **GROUPED, head_dim=8, num_local_experts=2, num_experts_per_tok=1
    )
    model = randomize(transformers.GptOssForCausalLM(config).eval(), 5, SCALES)
    trace = trace_transformers(model, IDS)
    assert any("not the softmax" in note for note in trace.info.notes)


def test_softcaps_and_the_window_of_each_layer_are_recorded() -> None:
    """Gemma 2 caps its scores, and every second layer has a sliding window."""
    import transformers

    config = transformers.Gemma2Config(
        **GROUPED, head_dim=8, sliding_window=2, attn_logit_softcapping=0.01
    )
    model = randomize(transformers.Gemma2ForCausalLM(config).eval(), 5, SCALES)
    trace = trace_transformers(model, IDS)
    assert trace.info.block("decoder").softcap == 0.01
    assert abs(trace.scores("decoder", 0)).max() <= 0.01
    near = np.tril(np.ones((IDS.shape[1],) * 2, dtype=bool))
    assert np.array_equal(trace.mask("decoder", layer=0), np.triu(near, -1))
    assert np.array_equal(trace.mask("decoder", layer=1), near)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(input_ids=IDS, output_attentions=True).attentions
    for layer in range(2):
        assert torch.equal(torch.from_numpy(trace.weights("decoder", layer)), weights[layer][0])


def test_what_is_refused() -> None:
    model = model_of("bert-bare")
    with raises(InputError, "trace.not_a_pretrained_model"):
        trace_transformers(nn.Linear(2, 2), IDS)
    with raises(InputError, "trace.takes_no_decoder_input_ids"):
        trace_transformers(model, IDS, decoder_input_ids=GIVEN)
    with raises(InputError, "trace.needs_decoder_input_ids"):
        trace_transformers(model_of("t5-relu"), IDS)
    with raises(InputError, "trace.padding_not_on_the_right"):
        trace_transformers(model, IDS, REAL.flip(-1))
    with raises(InputError, "trace.attention_mask_shape"):
        trace_transformers(model, IDS, REAL[:, :2])
    with raises(InputError, "trace.number_of_texts"):
        trace_transformers(model, IDS, REAL, text=["하나", "둘", "셋"])
    with raises(InputError, "trace.model_without_attention_interface"):
        trace_transformers(model_of("megatron-bert-bare", "eager"), IDS)
    with raises(InputError, "trace.not_a_loaded_model"):
        jumok.trace(model, "하나")


def test_rejected_texts(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    model = hf_folders.gpt2(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokenizer.pad_token = None
    with raises(InputError, "trace.target_of_model"):
        jumok.trace(model, "하나", "둘", tokenizer=tokenizer)
    with raises(InputError, "trace.no_padding_token"):
        jumok.trace(model, ["하나", "둘"], tokenizer=tokenizer)
    with raises(InputError, "trace.target_of_model"):
        jumok.trace(model_of("t5-relu"), "하나", tokenizer=tokenizer)
