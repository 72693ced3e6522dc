"""Masked language modeling: training, scores with fixed masks, and fill-mask."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.lab.models.cooccurrence import cooccurrence_embedding
from jumok.lab.models.replaced_tokens import ReplacedTokenModel
from jumok.models import MaskedLanguageModel
from jumok.nn.losses import cross_entropy
from jumok.nn.masks import AttentionMask
from jumok.seeding import derive_seed
from jumok.tasks.inputs.masking import PieceInfo
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.masked_lm import (
    MaskedBatch,
    MaskedLMJob,
    fixed_masking,
    masked_hidden,
    score_masked,
)
from jumok.tasks.pipeline.fill_mask import _fill, encode_with_masks
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import AugmentationConfig, MaskingConfig
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.train import resume, train
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from tests.combinations import slow
from tests.errors import raises
from tests.shared_data import shared_data
from tests.tasks.tiny_jobs import CPU, SMALL, joint, recipe, review_vocabulary
from tests.tiny_runs import reviews

TEXTS = [text for text, _ in reviews(40, 0)]

RECIPE = """
name = "guessing"
task = "masked_language_modeling"

[data]
train = "{folder}/train.txt"
dev = "{folder}/dev.txt"
test = "{folder}/test.txt"

[vocabulary]
size = 66

[model]
d_model = 32
n_heads = 2
d_ff = 64
n_layers = 1
dropout = 0.0
max_length = 24

[masking]
mlm_probability = 0.3

[training]
steps = 120
batch_tokens = 512
learning_rate = 0.01
schedule = "cosine"
warmup_steps = 5
evaluate_every = 60
precision = "float32"
"""


def job(
    texts: list[str],
    seed: int = 0,
    sampling: float = 0.0,
    kind: type[MaskedLMJob] = MaskedLMJob,
    **masking: object,
) -> MaskedLMJob:
    vocabulary = review_vocabulary()
    plan = recipe("masked_language_modeling", {}).with_vocabulary(len(vocabulary))
    plan = replace(
        plan,
        seed=seed,
        masking=MaskingConfig(**masking),  # type: ignore[arg-type]
        augmentation=AugmentationConfig(subword_sampling=sampling, sampling_alpha=0.01),
    )
    torch.manual_seed(0)
    rows = {"train": texts, "dev": texts[:10]}
    data = Splits({name: Table.from_columns({"text": each}) for name, each in rows.items()})
    return kind(plan, MaskedLanguageModel(plan.model), joint(vocabulary), data, CPU)


def batches(made: MaskedLMJob, number: int) -> list[MaskedBatch]:
    epoch = made.epoch(number)
    return [epoch[i] for i in range(len(epoch))]


@pytest.fixture(scope="module")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guessing")
    for seed, (split, n) in enumerate([("train", 200), ("dev", 30), ("test", 40)]):
        text = "".join(f"{text}\n" for text, _ in reviews(n, seed))
        (folder / f"{split}.txt").write_text(text, encoding="utf-8")
    path = folder / "guessing.toml"
    path.write_text(RECIPE.format(folder=folder), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(recipe_file: Path) -> Path:
    folder = recipe_file.parent / "run"
    train(load_recipe(str(recipe_file)), folder)
    return folder


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_a_batch_has_every_mask_and_its_label(sampling: float) -> None:
    made = job(TEXTS, sampling=sampling, mlm_probability=0.3)
    vocabulary = made.tokenizer
    seen: list[str] = []
    for batch in batches(made, 0):
        ids = batch.texts.input_ids.flatten()
        if batch.texts.attention_mask is not None:
            assert batch.texts.attention_mask.flatten()[batch.positions].all()
        blanks = (ids == vocabulary.mask_id).nonzero().flatten()
        assert set(blanks.tolist()) <= set(batch.positions.tolist())
        restored = ids.clone()
        restored[batch.positions] = batch.labels
        seen += vocabulary.decode_batch(restored.view_as(batch.texts.input_ids).tolist())
        assert batch.n_targets == len(batch.labels) == len(batch.positions)
        assert batch.tokens == batch.texts.n_tokens
    assert sorted(seen) == sorted(TEXTS)


@pytest.mark.parametrize("sampling", [0.0, 0.5])
def test_an_epoch_is_determined_by_seed_and_number(sampling: float) -> None:
    """Masks and segmentations are sampled anew, not only the order of the texts."""

    def rows(seed: int, number: int) -> tuple[list[list[int]], list[list[int]]]:
        made = job(TEXTS, seed, sampling)
        read, whole = [], []
        for batch in batches(made, number):
            ids = batch.texts.input_ids
            read += ids.tolist()
            restored = ids.flatten().index_copy(0, batch.positions, batch.labels)
            whole += restored.view_as(ids).tolist()
        pad = made.tokenizer.pad_id
        read, whole = ([[i for i in row if i != pad] for row in each] for each in (read, whole))
        return read, whole

    assert rows(0, 3) == rows(0, 3)
    read, whole = map(sorted, rows(0, 3))
    for seed, number in ((0, 4), (1, 3)):
        others_read, others_whole = map(sorted, rows(seed, number))
        assert others_read != read
        assert (others_whole != whole) is (sampling > 0)


def test_packed_rows_hold_every_token_once() -> None:
    """Static rows without padding; each text attends to itself only, from position 0."""
    made = job(TEXTS, packed=True)
    width = made.recipe.model.max_length
    rows = made.encode(TEXTS)
    total, seen = len(rows.ids), []
    for batch in batches(made, 0):
        assert batch.packed is not None
        ids = batch.texts.input_ids
        assert ids.shape[1] == width
        assert ids.shape == batch.packed.text_ids.shape == batch.packed.positions.shape
        restored = ids.flatten().index_copy(0, batch.positions, batch.labels)
        seen += restored.tolist()
        same = batch.packed.text_ids[:, 1:] == batch.packed.text_ids[:, :-1]
        steps = batch.packed.positions[:, 1:] - batch.packed.positions[:, :-1]
        assert (steps[same] == 1).all()
        assert (batch.packed.positions[:, 1:][~same] == 0).all()
        assert (batch.packed.positions[:, 0] == 0).all()
    left_out = total - len(seen)
    assert 0 <= left_out < made.recipe.training.batch_tokens
    counts = np.bincount(rows.ids) - np.bincount(seen, minlength=rows.ids.max() + 1)
    assert counts.min() >= 0
    assert counts.sum() == left_out


def test_a_packed_text_is_read_as_if_alone() -> None:
    """The same mean loss as padded rows of the same masked tokens; float32 sums differ."""
    made = job(TEXTS[:6], packed=True)
    batch = batches(made, 0)[0]
    assert batch.packed is not None
    made.model.eval()
    hidden, _ = masked_hidden(made.model, batch)
    text_of = batch.packed.text_ids.flatten()
    ids = batch.texts.input_ids.flatten()
    width = batch.texts.input_ids.shape[1]
    row_of = torch.arange(len(ids)) // width
    assert isinstance(made.model, MaskedLanguageModel)
    for place, expected in zip(batch.positions.tolist(), hidden, strict=True):
        own = (text_of == text_of[place]) & (row_of == row_of[place])
        alone = made.model.hidden_states(ids[own][None])[0]
        at = int(own[:place].sum())
        torch.testing.assert_close(made.model.transform(alone[at]), expected, atol=1e-5, rtol=0)


def test_long_texts_are_cut_and_not_truncated() -> None:
    text = " ".join(TEXTS[:12])
    made = job([text])
    ids = [batch.texts.input_ids for batch in batches(made, 0)]
    assert sum(len(each) for each in ids) > 1
    pieces = sum(int((each != made.tokenizer.pad_id).sum()) - len(each) for each in ids)
    assert pieces == len(made.tokenizer.encode(text))


def test_the_masked_fraction_falls() -> None:
    made = job(TEXTS * 20, mlm_probability=0.5, final_probability=0.1, falling_epochs=2)

    def fraction(number: int) -> float:
        parts = batches(made, number)
        return sum(batch.n_targets for batch in parts) / sum(batch.tokens for batch in parts)

    first, second, later = (fraction(number) for number in (0, 1, 7))
    assert first > second + 0.1 > later + 0.15
    with raises(InputError, "config.out_of_range"):
        MaskingConfig(final_probability=1.0)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_equals_that_of_all_logits_at_the_masks(smoothing: float) -> None:
    """Projecting all hidden states and selecting the masks gives the same sum."""
    made = job(TEXTS, mlm_probability=0.3)
    made.recipe = replace(
        made.recipe, training=replace(made.recipe.training, label_smoothing=smoothing)
    )
    for batch in batches(made, 0):
        mask = AttentionMask.from_padding(batch.texts.attention_mask)
        logits = made.model(batch.texts.input_ids, mask).flatten(0, 1)[batch.positions]
        expected = cross_entropy(logits, batch.labels, smoothing)
        torch.testing.assert_close(made.loss(batch), expected, atol=1e-4, rtol=1e-5)


def test_scores_equal_those_of_single_texts() -> None:
    made = job(TEXTS, mlm_probability=0.3)
    vocabulary, model = made.tokenizer, made.model.eval()
    rows = TextEncoder(vocabulary, SMALL["max_length"])(TEXTS)  # type: ignore[arg-type]
    masked = fixed_masking(rows, PieceInfo.of(vocabulary), made.recipe.masking)
    found, guesses = score_masked(model, masked, vocabulary, CPU)
    loss, best = 0.0, []
    with torch.inference_mode():
        for i in range(len(rows)):
            here = slice(*rows.offsets[i : i + 2])
            chosen = torch.from_numpy(masked.mask[here])
            ids = torch.from_numpy(masked.rows[i].astype(np.int64))[None]
            logits = model(ids)[0][chosen]
            expected = torch.from_numpy(rows[i].astype(np.int64))[chosen]
            loss += cross_entropy(logits, expected).item()
            best += logits.argmax(-1).tolist()
    assert found.tokens == int(masked.mask.sum()) == len(best)
    assert guesses.tolist() == best
    assert abs(found.loss - loss / len(best)) < 1e-4  # sums of float32 in another order
    assert found.perplexity == math.exp(found.loss)


def test_dev_masks_do_not_depend_on_the_seed() -> None:
    first, second = job(TEXTS, seed=0).dev, job(TEXTS, seed=7).dev
    assert np.array_equal(first.rows.ids, second.rows.ids)
    assert np.array_equal(first.mask, second.mask)


def test_training_and_repeated_evaluation(run: Path) -> None:
    results = Run(run).results()
    assert results["task"] == "masked_language_modeling"
    assert results["n"] == 40
    assert results["perplexity"] == math.exp(results["loss"]) < 20  # of 66 pieces
    assert results["accuracy"] > 0.25
    loaded = jumok.load(run)
    test = Table.from_columns({"text": [text for text, _ in reviews(40, 2)]})
    scored = evaluate(loaded, test, "test")
    assert scored.scores["accuracy"] == results["accuracy"]
    assert scored.scores["masked_tokens"] == results["masked_tokens"]
    source, target, output = (
        getattr(scored.examples[0], name) for name in ("source", "target", "output")
    )
    assert target == test.column("text")[0]
    assert source != target
    assert "[MASK]" not in output
    assert len(scored.examples) == 30


@pytest.mark.slow
def test_training_begins_from_cooccurrence() -> None:
    made = job(TEXTS, cooccurrence_init=True)
    before = made.model.encoder.embedding.tokens.weight.detach().clone()
    made.initialize()
    rows = made.encode.ids(TEXTS)
    generator = torch.Generator().manual_seed(derive_seed(0, "cooccurrence"))
    vectors = cooccurrence_embedding(rows, *before.shape, generator)
    known = vectors.any(-1)
    assert 0 < known.sum() < len(known)  # [PAD] has no neighbour
    weight = made.model.encoder.embedding.tokens.weight.detach()
    torch.testing.assert_close(weight[known], vectors[known] / before.shape[1] ** 0.5)
    assert torch.equal(weight[~known], before[~known])
    probabilities = made.model.output.bias.exp()
    assert probabilities.sum().item() == pytest.approx(1.0, abs=1e-5)
    assert probabilities.argmax().item() == np.bincount(rows.ids).argmax()


def test_a_generator_and_its_encoder_begin_from_cooccurrence() -> None:
    made = job(TEXTS, cooccurrence_init=True)
    alone = made.model.encoder.embedding.tokens.weight
    made.initialize()
    made.model = ReplacedTokenModel(made.recipe.model, generator=0.5, generator_layers=1)
    made.initialize()
    shared = made.model.encoder.embedding.tokens.weight
    assert shared is made.model.generator.encoder.embedding.tokens.weight
    known = (shared == alone).all(-1)
    assert known.sum() > len(known) / 2
    assert made.model.generator.output.bias.exp().sum().item() == pytest.approx(1.0, abs=1e-5)


def test_without_the_setting_the_weights_stay() -> None:
    made = job(TEXTS)
    before = made.model.encoder.embedding.tokens.weight.detach().clone()
    made.initialize()
    assert torch.equal(made.model.encoder.embedding.tokens.weight, before)


@pytest.mark.parametrize("more", [slow([]), ["masking.cooccurrence_init=true"]])
def test_resuming_is_bit_identical(recipe_file: Path, tmp_path: Path, more: list[str]) -> None:
    overrides = ["training.steps=30", "training.evaluate_every=10", "masking.whole_words=true"]
    overrides += more
    overrides += ["augmentation.subword_sampling=0.5", "training.batch_tokens=256"]
    train(load_recipe(str(recipe_file), overrides), tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    for name in ("results.json", "model.safetensors", "config.json"):
        (tmp_path / "half" / name).unlink()
    shutil.rmtree(tmp_path / "half" / "checkpoints" / "step-30")
    resume(tmp_path / "half")
    first, second = (tmp_path / name / "model.safetensors" for name in ("whole", "half"))
    assert first.read_bytes() == second.read_bytes()


def test_masks_are_filled_according_to_their_spaces(run: Path) -> None:
    loaded = jumok.load(run)
    texts = [
        "이 [MASK] 정말 재미있어요",
        "연기[MASK] 좋았어요",
        "[MASK] 별로예요",
        "이야기가 [MASK]",
    ]
    for text, answer in zip(texts, loaded(texts), strict=True):
        before, _, after = text.partition("[MASK]")
        assert answer.text == text
        assert answer.output.startswith(before)
        assert answer.output.endswith(after)
        filled = answer.output[len(before) : len(answer.output) - len(after)]
        assert filled
        assert " " not in filled
        piece = ("▁" if before == "" or before.endswith(" ") else "") + filled
        assert 0 <= loaded.vocabulary.id(piece) < len(loaded.vocabulary)
        assert -20 < answer.score < 0


def test_the_most_probable_fitting_piece_is_chosen(run: Path) -> None:
    loaded = jumok.load(run)
    vocabulary = loaded.vocabulary
    answer = loaded("연기가 [MASK]")
    ids = torch.tensor([[vocabulary.cls_id, *vocabulary.encode("연기가"), vocabulary.mask_id]])
    logs = loaded.logits(ids)[0, -1].log_softmax(-1)
    fitting = {
        i: vocabulary.piece(i)[1:]
        for i in range(len(vocabulary))
        if vocabulary.piece(i).startswith("▁") and len(vocabulary.piece(i)) > 1
    }
    best = max(fitting, key=lambda i: logs[i].item())
    assert answer.output == f"연기가 {fitting[best]}"
    assert abs(answer.score - logs[best].item()) < 1e-5


def test_a_mask_is_never_filled_with_white_space() -> None:
    """Nor with a tab or a line break, which every vocabulary has."""
    made = job(TEXTS)
    vocabulary, pieces = made.tokenizer, made.pieces
    parts = ["연기", "가"]  # a blank that goes on
    logs = np.full((1, len(vocabulary)), -9.0, np.float32)
    logs[0, vocabulary.id("\t")], logs[0, vocabulary.id("\n")] = -0.1, -0.2
    goes_on = next(
        i
        for i in np.flatnonzero(pieces.maskable & ~pieces.starts_word)
        if vocabulary.piece(i).strip()
    )
    logs[0, goes_on] = -1.0
    assert _fill(parts, logs, pieces, vocabulary) == (
        f"연기{vocabulary.piece(goes_on)}가",
        -1.0,
    )


def test_input_ids_of_texts_with_masks() -> None:
    """A space next to a mask belongs to the mask; text attached to it continues a word."""
    vocabulary = review_vocabulary()
    encode = TextEncoder(vocabulary, 24)

    def read(text: str) -> list[str]:
        return [vocabulary.piece(int(i)) for i in encode_with_masks([text], encode)[0]][1:]

    plain = vocabulary.pieces("이 영화")
    assert read("이 영화") == plain
    assert read("이 영화 [MASK]") == [*plain, "[MASK]"]
    assert read("[MASK] 이 영화") == ["[MASK]", *plain]
    assert read("[MASK]이 영화")[:2] == ["[MASK]", "이"]  # not ▁이
    assert read("[MASK][MASK] [MASK]") == ["[MASK]"] * 3
    assert read("") == []
    assert "[MASK]" not in read("[mask] [CLS]")  # only the literal word, and only [MASK]


def test_texts_without_masks_empty_long_or_unusual(run: Path) -> None:
    loaded = jumok.load(run)
    long = "이 영화 " * 50 + "[MASK]"
    texts = ["", "그냥 영화", "   ", long, "[MASK]", "[MASK] [MASK][MASK]", "😀[MASK]😀"]
    answers = loaded(texts)
    assert [answer.text for answer in answers] == texts
    for answer in answers[:4]:  # nothing to fill, or no room to read it
        assert (answer.output, answer.score) == (answer.text, 0.0)
    assert all("[MASK]" not in answer.output for answer in answers[4:])
    assert answers[6].output[0] == answers[6].output[-1] == "😀"
    assert loaded([texts[5]])[0].output == answers[5].output  # alone as in a batch


@pytest.mark.slow
def test_mlm_ko_excludes_the_other_splits_of_nsmc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JUMOK_DATA", str(shared_data("nsmc").parent))
    plan = load_recipe("mlm-ko")
    splits = load_splits(plan.data, ("text",))
    train_texts = set(splits.train.column("text"))
    assert len(splits.train) > 600_000
    nsmc = load_splits(DataConfig(corpus="nsmc"), ("text",))
    for table in (splits["dev"], splits["test"], nsmc.dev, nsmc.test):
        assert train_texts.isdisjoint(table.column("text"))
    inside = sum(text in train_texts for text in nsmc.train.column("text"))
    assert inside > 130_000  # its training texts are, save those that are held-out texts as well


def test_masks_with_a_character_tokenizer() -> None:
    """A space that is a piece stays in place, and no mask is filled with a space."""
    config = VocabularyConfig(kind="char", size=60, character_coverage=1.0)
    vocabulary = SentencePieceTokenizer.train(["이 영화 정말 재미있다"] * 3, config)
    encode, pieces = TextEncoder(vocabulary, 24), PieceInfo.of(vocabulary)

    def read(text: str) -> list[str]:
        return [vocabulary.piece(int(i)) for i in encode_with_masks([text], encode)[0]][1:]

    assert read("이 [MASK] 정말") == ["이", "▁", "[MASK]", "▁", "정", "말"]
    assert read("[MASK]화") == ["[MASK]", "화"]
    logs = np.full((1, len(vocabulary)), -9.0, np.float32)
    logs[0, vocabulary.pad_id], logs[0, vocabulary.id("▁")] = -0.1, -0.2
    logs[0, vocabulary.id("영")] = -1.0
    assert _fill(["이 ", " 정말"], logs, pieces, vocabulary) == ("이 영 정말", -1.0)
