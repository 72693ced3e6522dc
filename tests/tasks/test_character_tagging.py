"""Tags of characters above pieces that cross the borders of names."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest
import torch

import jumok
from jumok.checks import all_checks, run_checks
from jumok.checks.suite import unavailable
from jumok.checks.target import CheckTarget, draw_samples
from jumok.data.table import Table
from jumok.data.table_files import evaluation_table
from jumok.errors import InputError
from jumok.export import export
from jumok.inference import optimize
from jumok.interpret.interventions import sweep_heads
from jumok.models import CharacterClassifier
from jumok.models.character_classifier import FIRST, LATER
from jumok.tasks.inputs.batches import IGNORE_INDEX
from jumok.tasks.inputs.character_texts import MAX_CHARACTERS_PER_TOKEN, CharacterTexts
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.token_labels import LabelledTokens
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import AugmentationConfig
from jumok.tasks.runs.compare import compare
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.train import train
from jumok.tasks.token_classification import char_tags, log_probabilities
from jumok.text.ragged import Ragged
from jumok.viewer.live_model import plot_attention
from tests.errors import raises
from tests.tasks.tiny_jobs import CPU, TAGS, tag_recipe, tag_rows, tag_vocabulary, tagging_job

ROWS = tag_rows(24, 1)


def encoded(lines: list[str], max_length: int = 64) -> CharacterTexts:
    return CharacterTexts.encode(lines, TextEncoder(tag_vocabulary("unigram"), max_length))


def tagged(max_length: int = 64) -> LabelledTokens:
    texts, tags = zip(*ROWS, strict=True)
    encode = TextEncoder(tag_vocabulary("unigram"), max_length)
    return LabelledTokens.from_table(
        Table.from_columns({"text": texts, "tags": tags}), encode, CharacterTexts
    )


# The characters of texts


def test_each_character_has_its_piece() -> None:
    vocabulary, lines = tag_vocabulary("unigram"), [text for text, _ in ROWS]
    texts = encoded(lines)
    assert any(len(piece) > 2 for text in lines for piece in vocabulary.pieces(text))
    for number, text in enumerate(lines):
        spelled = ""
        for position, piece in enumerate(vocabulary.pieces(text), start=1):  # after [CLS]
            own = np.flatnonzero(texts.tokens[number] == position)
            found = "".join(text[i] for i in own)
            assert piece.replace("▁", " ").removesuffix(found) in ("", " ")  # one before the text
            places = texts.places[number][own].tolist()
            spaces = len(found) - len(found.lstrip())
            assert places == [FIRST if i == spaces else LATER for i in range(len(found))]
            spelled += found
        assert spelled == texts.composed[number] == text


def test_tags_of_characters_are_their_own() -> None:
    data = tagged()
    for row, (_, tags) in zip(data.label_ids(TAGS), ROWS, strict=True):
        assert [TAGS[i] for i in row] == tags.split(" ")
    assert char_tags(data.piece_tags(), data.texts) == data.tags


def test_characters_beyond_the_input_are_outside() -> None:
    data = tagged(max_length=4)
    kept = data.texts.output_lengths
    laid = char_tags(data.piece_tags(), data.texts)
    for n, tags, expected in zip(kept, laid, data.tags, strict=True):
        assert 0 < n < len(expected)
        assert tags == [*expected[:n], *["O"] * (len(expected) - n)]


def test_a_long_unknown_piece_has_a_limit() -> None:
    line = "힣" * 500
    texts = encoded([line, "서울"], max_length=8)
    assert texts.ids.lengths.max() <= 8
    assert texts.output_lengths.tolist() == [8 * MAX_CHARACTERS_PER_TOKEN, 2]
    assert len(char_tags([["O"] * 128, ["O"] * 2], texts)[0]) == 500


def test_decomposed_text_has_the_same_inputs() -> None:
    lines = [text for text, _ in ROWS[:4]]
    whole = encoded(lines)
    apart = encoded([unicodedata.normalize("NFD", line) for line in lines])
    numbers = np.arange(4)
    ours, theirs = whole.characters(numbers, CPU), apart.characters(numbers, CPU)
    assert whole.ids.ids.tolist() == apart.ids.ids.tolist()
    for name in ("tokens", "places", "ngrams"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name


def test_no_characters() -> None:
    texts = encoded(["", "서울"])
    both = texts.characters(np.array([0, 1]), CPU)
    assert both.mask is not None
    assert both.mask.tolist() == [[False, False], [True, True]]
    alone = texts.characters(np.array([0]), CPU)
    assert alone.tokens.shape == (1, 1)  # of padding


# An epoch, the loss, the answers


def test_labels_stay_aligned_with_their_characters() -> None:
    job = tagging_job(
        ROWS, AugmentationConfig(token_dropout=0.4, rdrop_alpha=2.0), tagging="characters"
    )
    expected = {tuple(row.tolist()) for row in job.train_labels}
    epoch, units = job.epoch(0), 0
    for index in range(len(epoch)):
        batch = epoch[index]
        assert batch.two_views
        assert batch.characters is not None
        assert batch.characters.tokens.shape == batch.labels.shape
        assert int(batch.characters.tokens.max()) < batch.texts.input_ids.shape[1]
        n = len(batch.labels) // 2
        assert torch.equal(batch.labels[:n], batch.labels[n:])
        assert torch.equal(batch.characters.ngrams[:n], batch.characters.ngrams[n:])
        assert not torch.equal(batch.texts.input_ids[:n], batch.texts.input_ids[n:])
        rows = [tuple(row[row != IGNORE_INDEX].tolist()) for row in batch.labels]
        assert set(rows) <= expected
        units += batch.n_targets
        assert job.loss(batch).isfinite()
    assert units == 2 * sum(len(text) for text, _ in ROWS)


def test_sampled_pieces_have_the_same_characters() -> None:
    sampling = AugmentationConfig(subword_sampling=1.0, sampling_alpha=0.1, rdrop_alpha=1.0)
    job = tagging_job(ROWS, sampling, tagging="characters")
    vocabulary, epoch, changed = job.tokenizer, job.epoch(0), 0
    spaceless = [(text.replace(" ", ""), tags) for text, tags in ROWS]
    for index in range(len(epoch)):
        batch = epoch[index]
        assert batch.characters is not None
        first, second = (part.tolist() for part in batch.texts.input_ids.chunk(2))
        changed += first != second
        for row, ids in enumerate(batch.texts.input_ids):
            characters = batch.characters.row(row)
            pieces = [vocabulary.piece(int(ids[at])) for at in characters.tokens[0]]
            places = characters.places[0].tolist()
            spelled = "".join(
                piece for piece, place in zip(pieces, places, strict=True) if place == FIRST
            )
            tags = [TAGS[i] for i in batch.labels[row] if i != IGNORE_INDEX]
            assert (spelled.replace("▁", ""), " ".join(tags)) in spaceless
        assert job.loss(batch).isfinite()
        assert torch.equal(epoch[index].texts.input_ids, job.epoch(0)[index].texts.input_ids)
    assert changed


def test_a_text_keeps_its_pieces_if_sampled_ones_do_not_fit() -> None:
    encode = TextEncoder(tag_vocabulary("unigram"), 6)
    texts = CharacterTexts.encode(["철수가 서울에 가요", "철수힣"], encode)
    unknown = encode.tokenizer.encode("철수힣")
    assert encode.tokenizer.unk_id in unknown
    long = encode.tokenizer.encode("철수가 서울에 가요 철수가 서울에 가요")
    other = texts.with_pieces(np.array([0, 1]), Ragged.from_lists([long, unknown]), encode)
    for name in ("ids", "tokens", "places"):
        assert getattr(other, name).ids.tolist() == getattr(texts, name).ids.tolist()


def test_the_loss_is_summed_over_all_characters() -> None:
    job = tagging_job(ROWS, tagging="characters")
    job.model.eval()
    epoch = job.epoch(0)
    total = sum(job.loss(epoch[index]).item() for index in range(len(epoch)))
    assert job.evaluate().loss == pytest.approx(total / sum(len(t) for t, _ in ROWS), rel=1e-5)


def test_outputs_are_independent_of_the_batch() -> None:
    job = tagging_job(ROWS, tagging="characters")
    job.model.eval()
    lines = ["", *(text for text, _ in ROWS), "철수가 " * 30]
    encode = TextEncoder(job.tokenizer, job.recipe.model.max_length)
    together = log_probabilities(
        job.model, CharacterTexts.encode(lines, encode), job.tokenizer, CPU
    )
    for text, row in zip(lines, together, strict=True):
        single = CharacterTexts.encode([text], encode)
        (alone,) = log_probabilities(job.model, single, job.tokenizer, CPU)
        assert len(row) == single.output_lengths[0]
        torch.testing.assert_close(row, alone, atol=1e-5, rtol=0)  # float32 sums


# A run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Persons and places, and a recipe whose pieces cross them."""
    folder = tmp_path_factory.mktemp("characters")
    tag_recipe(folder)
    return folder


OVERRIDES = ["task=tagging", "vocabulary.size=45", "model.max_length=40", "training.steps=40"]


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    characters = [*OVERRIDES, "model.tagging=characters"]
    train(load_recipe(str(folder / "recipe.toml"), characters), folder / "run")
    return folder / "run"


def test_scores_of_a_run(run: Path) -> None:
    loaded = jumok.load(run)
    assert isinstance(loaded.model, CharacterClassifier)
    rows = evaluation_table(run.parent / "test.tsv", loaded.recipe.data, ("text", "tags"), TAGS)
    found = evaluate(loaded, rows, "test")
    assert found.scores["entity_f1"] > 0.9  # six names and two frames
    assert found.scores["reachable_f1"] == 1.0


def test_predicted_entities_of_a_run(run: Path) -> None:
    loaded = jumok.load(run)
    text = "영희가 제주 공항에 가요"
    answers = loaded([text, "", "  ", text])
    assert answers[0] == answers[3]
    assert answers[1].entities == answers[2].entities == ()
    kinds = {entity.text: entity.type for entity in answers[0].entities}
    assert kinds == {"영희": "PS", "제주 공항": "LC"}
    apart = loaded(unicodedata.normalize("NFD", text))
    assert [unicodedata.normalize("NFC", each.text) for each in apart.entities] == [*kinds]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_fast_copy_has_the_same_entities(run: Path, precision: str) -> None:
    loaded = jumok.load(run)
    fast = loaded.with_models(lambda model: optimize(model, precision))
    lines = ["", *(text for text, _ in tag_rows(20, 7)), ""]
    assert fast(lines) == loaded(lines)
    assert fast([""]) == loaded([""])


def test_a_run_of_pieces_starts_one_of_characters(run: Path, folder: Path) -> None:
    """The head is that of the same way of tagging only."""
    recipe = str(folder / "recipe.toml")
    few = [*OVERRIDES, "training.steps=2", f"model.init={run}"]
    pieces = train(load_recipe(recipe, few), folder / "pieces").run
    report = pieces.initialization_path.read_text()
    assert "new: output.weight, output.bias" in report
    again = train(load_recipe(recipe, [*few, "model.tagging=characters"]), folder / "again").run
    assert "new" not in again.initialization_path.read_text()


def test_a_comparison_with_pieces(run: Path, folder: Path) -> None:
    pieces = folder / "of-pieces"
    train(load_recipe(str(folder / "recipe.toml"), OVERRIDES), pieces)
    first, second = jumok.load(run), jumok.load(pieces)
    rows = evaluation_table(folder / "test.tsv", first.recipe.data, ("text", "tags"), TAGS)
    compared = compare([first], [second], rows)
    assert compared.metrics


def test_checks_pass(run: Path) -> None:
    """`jumok check` compares the hidden states, because ids alone have no logits."""
    loaded = jumok.load(run)
    target = CheckTarget(loaded, draw_samples(loaded), padding_id=5)
    skipped = unavailable("skipped")
    checks = all_checks(compiled=skipped, kernel=lambda precision: skipped)
    results = {each.equality: each.result for each in run_checks(target, checks)}
    assert "fail" not in results.values(), results
    passed = {name for name, result in results.items() if result == "pass"}
    assert {"alone = batched", "packed = padded", "saved = loaded"} <= passed


def test_a_trace_has_attention(run: Path, tmp_path: Path) -> None:
    seen = jumok.trace(jumok.load(run), "영희가 서울에 가요")
    assert seen.weights("encoder", layer=0).ndim == 3
    assert plot_attention(jumok.load(run), "영희가 서울에 가요", tmp_path / "tags.svg").is_file()


def test_what_needs_logits_of_tokens_is_refused(run: Path, tmp_path: Path) -> None:
    loaded = jumok.load(run)
    ids = torch.tensor([[loaded.vocabulary.cls_id, *loaded.vocabulary.encode("영희가")]])
    assert loaded.hidden_states(ids).shape[:2] == ids.shape
    with raises(InputError, "model.needs_characters"):
        loaded.logits(ids)
    with raises(InputError, "trace.tags_of_characters"):
        sweep_heads(loaded, "영희가 서울에 가요")
    with pytest.raises(InputError, match="no equivalent of the class CharacterClassifier"):
        export(run, "hf", tmp_path / "hf")
    with pytest.raises(InputError, match="got a classifier of characters; train it with mod"):
        export(run, "onnx", tmp_path / "onnx")


def test_settings_that_are_refused() -> None:
    with raises(InputError, "recipe.fixed_value"):
        load_recipe("nsmc", ["model.tagging=characters"])
