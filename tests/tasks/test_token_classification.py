"""Token classification: tags of characters from tags of pieces."""

from itertools import chain
from pathlib import Path
from typing import Literal

import pytest
import torch
import torch.nn.functional as F

import jumok
from jumok.data.table import Table
from jumok.data.table_files import evaluation_table
from jumok.errors import InputError
from jumok.nn.losses import rdrop_kl
from jumok.tasks.inputs.batches import IGNORE_INDEX
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.token_labels import LabelledTokens, TokenizedTexts
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import AugmentationConfig
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.setup import vocabulary_texts
from jumok.tasks.runs.train import train
from jumok.tasks.token_classification import char_tags, forward, log_probabilities, viterbi_tags
from jumok.training.trainer import Trainer
from tests.errors import raises
from tests.tasks.tiny_jobs import CPU, TAGS, tag_recipe, tag_rows, tag_vocabulary, tagging_job

ROWS = tag_rows(24, 1)


def table(rows: list[tuple[str, str]]) -> Table:
    texts, tags = zip(*rows, strict=True)
    return Table.from_columns({"text": texts, "tags": tags})


def tagged(kind: str, max_length: int = 64) -> LabelledTokens:
    assert kind in ("char", "unigram")
    vocabulary = tag_vocabulary("char" if kind == "char" else "unigram")
    return LabelledTokens.from_table(table(ROWS), TextEncoder(vocabulary, max_length))


def test_tags_of_character_pieces() -> None:
    data = tagged("char")
    for row, (_, tags) in zip(data.label_ids(TAGS), ROWS, strict=True):
        assert row[0] == IGNORE_INDEX  # [CLS]
        assert [TAGS[i] for i in row[1:]] == tags.split(" ")
    assert char_tags(data.piece_tags(), data.texts) == data.tags


def test_pieces_that_cross_a_border() -> None:
    data = tagged("unigram")
    numbers = data.label_ids(TAGS)
    assert numbers.lengths.tolist() == data.texts.ids.lengths.tolist()
    assert (numbers.ids == IGNORE_INDEX).sum() >= len(ROWS)
    laid = char_tags(data.piece_tags(), data.texts)
    assert [len(tags) for tags in laid] == [len(tags) for tags in data.tags]
    assert laid != data.tags


def test_truncated_characters_are_outside() -> None:
    data = tagged("char", max_length=4)
    laid = char_tags(data.piece_tags(), data.texts)
    for tags, expected in zip(laid, data.tags, strict=True):
        assert tags == [*expected[:3], *["O"] * (len(expected) - 3)]


def test_no_texts_and_empty_texts() -> None:
    encode = TextEncoder(tag_vocabulary(), 16)
    texts = TokenizedTexts.encode(["", " "], encode)
    assert [list(spans) for spans in texts.spans] == [[], [(0, 1)]]
    assert char_tags([[], ["O"]], texts) == [[], ["O"]]


# An epoch, the loss, the answers


def test_tags_stay_aligned_with_their_pieces() -> None:
    hiding = AugmentationConfig(token_dropout=0.4, rdrop_alpha=2.0)
    job = tagging_job(ROWS, hiding)
    expected = {tuple(row.tolist()) for row in job.train_labels}
    epoch = job.epoch(0)
    units = 0
    for index in range(len(epoch)):
        batch = epoch[index]
        assert batch.two_views
        n = len(batch.labels) // 2
        assert torch.equal(batch.labels[:n], batch.labels[n:])
        assert not torch.equal(batch.texts.input_ids[:n], batch.texts.input_ids[n:])
        real = (
            torch.ones_like(batch.labels)
            if batch.texts.attention_mask is None
            else batch.texts.attention_mask
        )
        rows = zip(batch.labels, real.bool(), strict=True)
        assert {tuple(row[there].tolist()) for row, there in rows} <= expected
        assert (batch.labels[~real.bool()] == IGNORE_INDEX).all()
        units += batch.n_targets
        assert job.loss(batch).isfinite()
    assert units == 2 * sum(len(text) for text, _ in ROWS)


def test_the_loss_is_summed_over_all_characters() -> None:
    job = tagging_job(ROWS)
    job.model.eval()
    epoch = job.epoch(0)
    total = sum(job.loss(epoch[index]).item() for index in range(len(epoch)))
    assert job.evaluate().loss == pytest.approx(total / sum(len(t) for t, _ in ROWS), rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_smoothing_of_tags_is_for_training_only(smoothing: float) -> None:
    """The dev loss has none, so that runs can be compared."""
    job = tagging_job(ROWS, label_smoothing=smoothing)
    job.model.eval()
    batch = job.epoch(0)[0]
    logits = forward(job.model, batch.texts).flatten(0, 1)
    expected = F.cross_entropy(
        logits,
        batch.labels.flatten(),
        ignore_index=IGNORE_INDEX,
        reduction="sum",
        label_smoothing=smoothing,
    )
    torch.testing.assert_close(job.loss(batch), expected, rtol=1e-5, atol=0)
    plain = tagging_job(ROWS)
    plain.model.eval()
    assert job.evaluate().loss == plain.evaluate().loss


def test_rdrop_compares_the_tags_of_both_views() -> None:
    job = tagging_job(ROWS, AugmentationConfig(token_dropout=0.4, rdrop_alpha=3.0))
    job.model.eval()
    batch = job.epoch(0)[0]
    assert batch.two_views
    logits = forward(job.model, batch.texts)  # (B, T, L)
    plain = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE_INDEX, reduction="sum"
    )
    once, again = logits.chunk(2)
    tagged = batch.labels.chunk(2)[0] != IGNORE_INDEX  # the same in both halves
    apart = rdrop_kl(once[tagged], again[tagged])
    term = 3.0 * apart
    assert term > 1e-4 * plain  # ten times what rounding may do to the sum
    torch.testing.assert_close(job.loss(batch), plain + term, rtol=1e-5, atol=0)


def test_outputs_are_independent_of_the_batch() -> None:
    job = tagging_job(ROWS)
    job.model.eval()
    encode = TextEncoder(job.tokenizer, job.recipe.model.max_length)
    lines = ["", *(text for text, _ in ROWS), "철수가 " * 30]
    texts = TokenizedTexts.encode(lines, encode)
    together = log_probabilities(job.model, texts, job.tokenizer, CPU)
    for text, row in zip(lines, together, strict=True):
        single = TokenizedTexts.encode([text], encode)
        (alone,) = log_probabilities(job.model, single, job.tokenizer, CPU)
        torch.testing.assert_close(row, alone, atol=1e-5, rtol=0)  # float32 sums


@pytest.mark.slow
@pytest.mark.parametrize("tagging", ["pieces", "characters"])
def test_a_token_classifier_overfits(
    tmp_path: Path, tagging: Literal["pieces", "characters"]
) -> None:
    job = tagging_job(
        ROWS, tagging=tagging, steps=60, learning_rate=5e-3, schedule="cosine", warmup_steps=10,
        precision="float32", evaluate_every=1000,
    )  # fmt: skip
    Trainer(job, job.recipe.training, tmp_path, seed=0, device=CPU, metadata={}).fit()
    job.model.eval()
    dev = job.evaluate()
    assert (dev.metric, dev.score) == ("entity_f1", 1.0)
    log_p = log_probabilities(job.model, job.dev.texts, job.tokenizer, CPU)
    assert viterbi_tags(job.dev.texts, log_p, TAGS) == job.dev.tags


# A run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run: persons and places."""
    folder = tmp_path_factory.mktemp("tags")
    path = tag_recipe(folder)
    overrides = ["task=tagging", "vocabulary.kind=char", "model.max_length=40", "model.d_model=32"]
    train(load_recipe(str(path), [*overrides, "training.steps=60"]), folder / "run")
    return folder / "run"


def test_scores_of_a_run(run: Path) -> None:
    loaded = jumok.load(run)
    assert loaded.labels == TAGS
    rows = evaluation_table(run.parent / "test.tsv", loaded.recipe.data, ("text", "tags"), TAGS)
    found = evaluate(loaded, rows, "test")
    assert list(found.scores) == [
        "task", "split", "n", "entity_f1", "entity_micro_f1", "character_f1", "reachable_f1",
        "kernel",
    ]  # fmt: skip
    assert (found.scores["task"], found.scores["n"]) == ("tagging", 20)
    assert found.scores["entity_f1"] > 0.8  # six names and two frames
    assert found.scores["reachable_f1"] == 1.0
    assert len(found.examples) == 20
    wrong = [example.output != example.target for example in found.examples]
    assert wrong == sorted(wrong, reverse=True)


def test_predicted_entities_of_a_run(run: Path) -> None:
    loaded = jumok.load(run)
    texts = ["영희가 제주 공항에 가요", "", "  ", "영희가 제주 공항에 가요"]
    answers = loaded(texts)
    assert [answer.text for answer in answers] == texts
    assert answers[0] == answers[3]
    assert answers[1].entities == answers[2].entities == ()
    for answer in answers:
        for entity in answer.entities:
            assert answer.text[entity.start : entity.end] == entity.text
    kinds = {entity.text: entity.type for entity in answers[0].entities}
    assert kinds == {"영희": "PS", "제주 공항": "LC"}
    assert answers[0].display == "[영희 PS]가 [제주 공항 LC]에 가요"


def test_entity_offsets_of_decomposed_text(run: Path) -> None:
    """Offsets are those of the input text: here NFD, with two or three code points per syllable."""
    import unicodedata

    text = "영희가 부산역에 가요"
    parts = unicodedata.normalize("NFD", text)
    loaded = jumok.load(run)
    whole, apart = loaded([text, parts])
    assert [e.type for e in whole.entities] == [e.type for e in apart.entities]
    for one, other in zip(whole.entities, apart.entities, strict=True):
        assert unicodedata.normalize("NFC", other.text) == one.text
        assert parts[other.start : other.end] == other.text


def test_logits_are_those_of_pieces(run: Path) -> None:
    loaded = jumok.load(run)
    ids = torch.tensor([[loaded.vocabulary.cls_id, *loaded.vocabulary.encode("영희가")]])
    assert loaded.logits(ids).shape == (1, 4, len(TAGS))


def test_subword_sampling_is_an_error() -> None:
    with raises(InputError, "recipe.fixed_value"):
        load_recipe("klue-ner", ["model.tagging=pieces", "augmentation.subword_sampling=0.5"])


def test_the_vocabulary_is_trained_on_the_texts() -> None:
    texts = vocabulary_texts(table(ROWS), pieces=False)
    assert list(texts) == [text for text, _ in ROWS]
    assert set(chain.from_iterable(tags.split(" ") for _, tags in ROWS)) == set(TAGS)
