"""`jumok.load`: predictions from texts; logits and hidden states from tensors."""

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import jumok
from jumok.errors import InputError, StorageError
from jumok.models import Encoder, EncoderDecoder, ReplacedTokenDetector, TextClassifier
from jumok.processes import SINGLE_PROCESS
from jumok.tasks.pipeline.origin import Origin
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.registry import get_task
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from tests.errors import raises
from tests.interpret.random_models import loaded_of


@pytest.fixture(scope="module")
def classifier(review_run: Path) -> Pipeline:
    return jumok.load(review_run)


@pytest.fixture(scope="module")
def writer(reading_run: Path) -> Pipeline:
    return jumok.load(str(reading_run))


def test_a_text_or_a_list_of_texts(classifier: Pipeline) -> None:
    one = classifier("이 영화 재미있어요")
    assert isinstance(one, jumok.Prediction)
    assert one.text == "이 영화 재미있어요"
    assert set(one.probabilities) == {"negative", "positive"}
    assert one.probability == one.probabilities[one.label]
    several = classifier(["이 영화 재미있어요", "", "지루해요"])
    assert isinstance(several, list)
    assert several[0].label == one.label
    assert classifier([]) == []


def test_generated_text_and_its_score(writer: Pipeline) -> None:
    one = writer("삼 일 오")
    assert isinstance(one, jumok.GeneratedText)
    assert one.score <= 0.0
    several = writer(["구", "삼 일 오"])
    assert several[1].output == one.output
    assert several[1].score == pytest.approx(one.score, abs=1e-4)


def test_the_model_is_an_eval_mode_module(classifier: Pipeline, writer: Pipeline) -> None:
    assert isinstance(classifier.model, TextClassifier)
    assert isinstance(writer.model, EncoderDecoder)
    for loaded in (classifier, writer):
        assert not any(module.training for module in loaded.model.modules())
        assert not any(p.requires_grad for p in loaded.model.parameters())
        assert len(loaded.vocabulary) == loaded.recipe.model.vocabulary_size
    assert classifier.recipe.name == "reviews"
    assert classifier.recipe.training.steps == 40


# Tensors, as transformers takes them


def rows(loaded: Pipeline, texts: list[str]) -> list[list[int]]:
    return [[loaded.vocabulary.cls_id, *loaded.vocabulary.encode(text)] for text in texts]


def padded(
    loaded: Pipeline, ids: list[list[int]], side: str, extra: int = 2
) -> tuple[Tensor, Tensor]:
    """input_ids and attention_mask, padding on one side, at least one token in every row."""
    width = max(map(len, ids)) + extra
    tokens, real = [], []
    for row in ids:
        gap = width - len(row)
        fill, hidden = [loaded.vocabulary.pad_id] * gap, [0] * gap
        tokens.append([*fill, *row] if side == "left" else [*row, *fill])
        real.append([*hidden, *[1] * len(row)] if side == "left" else [*[1] * len(row), *hidden])
    return torch.tensor(tokens), torch.tensor(real)


TEXTS = ["이 영화 재미있어요", "별로", "결말이 정말 지루해요"]


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_no_label(classifier: Pipeline, side: str) -> None:
    ids = rows(classifier, TEXTS)
    together = classifier.logits(*padded(classifier, ids, side))
    assert together.shape == (3, 2)
    assert together.dtype == torch.float32
    for row, text in enumerate(TEXTS):
        alone = classifier.logits(torch.tensor([ids[row]]))
        torch.testing.assert_close(together[row : row + 1], alone, atol=1e-5, rtol=0)
        answer = classifier(text)
        expected = [answer.probabilities[label] for label in classifier.labels]
        torch.testing.assert_close(alone.softmax(-1)[0], torch.tensor(expected), atol=1e-5, rtol=0)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_no_next_token(writer: Pipeline, side: str) -> None:
    vocabulary = writer.vocabulary
    ids = [[*vocabulary.encode(text), vocabulary.eos_id] for text in ("삼 일 오", "구", "일 이")]
    tokens, real = padded(writer, ids, side)
    target = torch.tensor([[vocabulary.bos_id, *vocabulary.encode("3 1")]] * 3)
    logits = writer.logits(tokens, real, decoder_input_ids=target)
    hidden = writer.hidden_states(tokens, real, decoder_input_ids=target)
    assert logits.shape == (*target.shape, len(vocabulary))
    assert hidden.shape == (*target.shape, 32)
    for row in range(3):
        alone = torch.tensor([ids[row]])
        one = target[row : row + 1]
        for all_rows, ask in ((logits, writer.logits), (hidden, writer.hidden_states)):
            found = ask(alone, decoder_input_ids=one)
            torch.testing.assert_close(all_rows[row : row + 1], found, atol=1e-5, rtol=0)


@pytest.mark.parametrize("ask", ["logits", "hidden_states"])
def test_sequence_to_sequence_requires_decoder_input_ids(writer: Pipeline, ask: str) -> None:
    with raises(ValueError, "pipeline.no_decoder_input_ids"):
        getattr(writer, ask)(torch.tensor([[5, 6]]))


@pytest.mark.parametrize("ask", ["logits", "hidden_states"])
def test_invalid_ids_are_rejected(classifier: Pipeline, writer: Pipeline, ask: str) -> None:
    size, own = len(classifier.vocabulary), len(writer.vocabulary)
    fine = torch.tensor([[5, 6]])
    for wrong in (size, -1):
        with pytest.raises(ValueError, match=f"between 0 and {size - 1}, got .*; encode with the"):
            getattr(classifier, ask)(torch.tensor([[5, wrong]]))
        target = torch.tensor([[2, wrong if wrong < 0 else own]])
        with raises(ValueError, "pipeline.ids_range"):
            getattr(writer, ask)(fine, decoder_input_ids=target)
    with raises(ValueError, "pipeline.ids_shape"):
        getattr(classifier, ask)(torch.tensor([5, 6]))
    with raises(ValueError, "pipeline.ids_shape"):
        getattr(classifier, ask)(torch.tensor([[0.5]]))
    with raises(ValueError, "pipeline.not_the_shape_of_input_ids"):
        getattr(classifier, ask)(fine, torch.tensor([[1, 1, 1]]))
    with raises(ValueError, "pipeline.not_the_shape_of_input_ids"):
        getattr(classifier, ask)(fine, token_type_ids=torch.tensor([[0]]))
    for rows in (1, 4):  # they would be read as beams
        target = torch.tensor([[2, 7]] * rows)
        with pytest.raises(ValueError, match=f"must have 2 rows like input_ids, got {rows}"):
            getattr(writer, ask)(torch.tensor([[5, 6]] * 2), decoder_input_ids=target)
    with raises(ValueError, "model.text_too_long"):
        getattr(classifier, ask)(torch.full((1, 17), 5))


@pytest.mark.parametrize("ask", ["logits", "hidden_states"])
def test_all_inputs_move_to_the_model_s_device(ask: str) -> None:
    """The meta device computes nothing, but rejects tensors of another device."""
    here = loaded_of("pairs")
    meta = torch.device("meta")
    far = get_task(here.recipe.task).pipeline(
        copy.deepcopy(here.model),
        here.vocabulary,
        here.recipe,
        here.labels,
        meta,
    )
    answer = getattr(far, ask)(torch.tensor([[5, 6, 7]]), None, torch.tensor([[0, 0, 1]]))
    assert answer.device == meta


def test_a_model_without_a_head(classifier: Pipeline) -> None:
    assert isinstance(classifier.model, TextClassifier)
    encoder = classifier.model.encoder
    assert isinstance(encoder, Encoder)
    bare = get_task(classifier.recipe.task).pipeline(
        encoder,
        classifier.vocabulary,
        classifier.recipe,
        (),
        torch.device("cpu"),
    )
    ids = torch.tensor([[5, 6, 7]])
    with raises(ValueError, "pipeline.no_head"):
        bare.logits(ids)
    assert torch.equal(bare.hidden_states(ids), classifier.hidden_states(ids))


def test_a_head_may_have_logits_without_a_text_task(classifier: Pipeline, writer: Pipeline) -> None:
    """ELECTRA's detector has its own head; a T5Model has only encoder and decoder."""
    origin = Origin(Path(), "Theirs", {}, {}, {}, has_text_head=False, is_seq2seq=False)
    cpu, ids = torch.device("cpu"), torch.tensor([[5, 6, 7]])
    made = ReplacedTokenDetector(classifier.recipe.model)
    detector = get_task(classifier.recipe.task).pipeline(
        made, None, classifier.recipe, (), cpu, origin=origin
    )
    headless = get_task(writer.recipe.task).pipeline(
        writer.model,
        writer.vocabulary,
        writer.recipe,
        (),
        cpu,
        origin=origin,
    )
    heads = [(each.has_logits, each.has_text_head) for each in (classifier, detector, headless)]
    assert heads == [(True, True), (True, False), (False, False)]
    assert detector.logits(ids).shape == (1, 3)
    with raises(InputError, "pipeline.no_head"):
        headless.logits(ids, decoder_input_ids=ids)
    with raises(InputError, "pipeline.no_text_head"):
        detector("지루해요")


def test_overridden_settings_change_nothing_else(writer: Pipeline) -> None:
    one = copy.copy(writer)
    one.processes = copy.copy(SINGLE_PROCESS)
    wide = one.with_decoding(["beam=7"])
    assert wide.recipe.decoding.beam == wide.backends.config.beam == 7
    for name in (
        "model",
        "vocabulary",
        "labels",
        "processes",
        "weights_path",
        "draft_model",
        "origin",
    ):
        assert getattr(wide, name) is getattr(one, name), name
    assert one.recipe is writer.recipe
    assert one.backends is writer.backends


# Folders


def copy_of(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / "copy", ignore=shutil.ignore_patterns("checkpoints")))


def test_a_run_can_be_moved(review_run: Path, tmp_path: Path) -> None:
    moved = copy_of(review_run, tmp_path)
    assert jumok.load(moved)("지루해요") == jumok.load(review_run)("지루해요")


def test_another_vocabulary_is_rejected(review_run: Path, tmp_path: Path) -> None:
    moved = copy_of(review_run, tmp_path)
    other = SentencePieceTokenizer.train(["다른 글로 배운 어휘"], VocabularyConfig(size=24))
    other.save(moved / "vocabulary.model")
    with raises(InputError, "run.other_vocabulary"):
        jumok.load(moved)


def test_another_recipe_is_rejected(review_run: Path, tmp_path: Path) -> None:
    moved = copy_of(review_run, tmp_path)
    recipe = moved / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("n_heads = 2", "n_heads = 4"))
    with raises(InputError, "run.files_disagree"):
        jumok.load(moved)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.json", b"{", "not usable JSON"),
        ("config.json", b"[]", "not an object of names and values; correct it"),
        (
            "config.json",
            b'{"format": 9}',
            "the format of a run must be 3, got 9; open it with the jumok that wrote it",
        ),
        ("config.json", b'{"format": 3}', "config.json must hold model, labels"),
        ("model.safetensors", b"", "model.safetensors"),
        ("vocabulary.model", b"no model", "vocabulary.model"),
        ("recipe.toml", b"name = ", "not TOML"),
    ],
)
def test_a_damaged_run_is_rejected(
    review_run: Path, tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    moved = copy_of(review_run, tmp_path)
    (moved / name).write_bytes(content)
    with pytest.raises((InputError, StorageError)) as error:
        jumok.load(moved)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("labels", ["positive", "negative"], "run.other_labels"),  # the other order
        ("labels", ["negative", "negative"], "run.other_labels"),
        ("labels", ["negative", ""], "run.other_labels"),
        ("labels_sha", "", "config.unknown_key"),
    ],
)
def test_another_config_is_rejected(
    review_run: Path, tmp_path: Path, key: str, value: object, code: str
) -> None:
    config = copy_of(review_run, tmp_path) / "config.json"
    tree = json.loads(config.read_text(encoding="utf-8"))
    assert tree["labels"] == ["negative", "positive"]
    config.write_text(json.dumps(tree | {key: value}), encoding="utf-8")
    with raises(InputError, code):
        jumok.load(config.parent)


def test_a_run_without_the_checksum_of_its_labels(review_run: Path, tmp_path: Path) -> None:
    """Runs of earlier versions open."""
    config = copy_of(review_run, tmp_path) / "config.json"
    tree = json.loads(config.read_text(encoding="utf-8"))
    del tree["labels_sha256"]
    config.write_text(json.dumps(tree), encoding="utf-8")
    assert jumok.load(config.parent).labels == ("negative", "positive")


@pytest.mark.parametrize(
    ("name", "replace", "what"),
    [
        ("model.safetensors", None, "missing"),
        ("vocabulary.model", None, "missing"),
        ("config.json", None, "missing"),
        ("model.safetensors", lambda path: path.symlink_to("/nowhere/a"), "a link to a file that"),
        ("config.json", lambda path: path.symlink_to(path), "a link that cannot be followed"),
        ("config.json", os.mkfifo, "not a regular file"),
        ("recipe.toml", os.mkfifo, "not a regular file"),
        ("vocabulary.model", Path.mkdir, "not a regular file"),
    ],
)
def test_a_file_of_a_run_that_is_not_there(
    review_run: Path,
    tmp_path: Path,
    name: str,
    replace: Callable[[Path], None] | None,
    what: str,
) -> None:
    path = copy_of(review_run, tmp_path) / name
    path.unlink()
    if replace is not None:
        replace(path)
    with raises(InputError, "run.own_file") as error:
        jumok.load(path.parent)
    assert str(error.value).startswith(f"{path} is {what}")


def test_folders_that_are_not_runs(tmp_path: Path, review_run: Path) -> None:
    with raises(InputError, "run.not_a_run"):
        jumok.load(tmp_path / "nowhere")
    shutil.copy(review_run / "recipe.toml", tmp_path)
    with raises(InputError, "run.no_model_yet"):
        jumok.load(tmp_path)
