"""Models that ship with jumok: found by name, listed, and complete."""

import re
import shutil
from pathlib import Path

import pytest

import jumok
from jumok.config_io import to_dict
from jumok.data import note_sentences
from jumok.errors import InputError
from jumok.shipped import VOCABULARY, resolve_model, resolve_vocabulary, shipped_folders
from jumok.tasks.recipe.recipe import load_recipe, load_run_recipe
from jumok.text.sentencepiece import SentencePieceTokenizer
from tests.cli.commands import call
from tests.errors import raises

MAX_VOCABULARY_BYTES, MAX_BYTES = 2**20, 25_000_000


def test_names_and_paths(tmp_path: Path, review_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "shipped"
    shutil.copytree(review_run, here / "reviews")
    (here / "words").mkdir()
    shutil.copy(review_run / VOCABULARY, here / "words")
    assert list(shipped_folders(here)) == ["reviews", "words"]
    assert resolve_model("reviews", here) == here / "reviews"
    assert resolve_model(tmp_path / "run", here) == tmp_path / "run"
    assert resolve_vocabulary("words", here) == here / "words" / VOCABULARY
    with raises(InputError, "run.weights_not_shipped"):
        resolve_model("words", here)
    monkeypatch.chdir(tmp_path)
    Path("reviews").mkdir()  # a folder of one's own has precedence
    assert resolve_model("reviews", here) == Path("reviews")


def test_what_ships_is_small_and_opens() -> None:
    for name, folder in shipped_folders().items():
        assert (folder / VOCABULARY).stat().st_size < MAX_VOCABULARY_BYTES
        assert sum(path.stat().st_size for path in folder.iterdir()) < MAX_BYTES
        recipe = load_recipe(name)  # the recipe of the same name trains it
        tokenizer = SentencePieceTokenizer.load(resolve_vocabulary(recipe.vocabulary.file or name))
        text = "겨울은 추워요 ㅋㅋ" if name == "note" else "한국어 모델 ㅋㅋ"
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_make_trains_the_shipped_encoder_without_cuda() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^KO_SMALL_CPU := ((?:.*\\\n)*.*)", makefile, re.MULTILINE)
    assert found is not None
    words = [*found[1].replace("\\\n", " ").split(), "data.dev_split=last"]  # no own files
    made = load_recipe("ko-small", words)
    shipped = load_run_recipe(resolve_model("ko-small") / "recipe.toml")
    made = made.with_vocabulary(shipped.model.vocabulary_size)
    assert to_dict(made) == to_dict(shipped)


def test_the_model_of_the_course_translates_its_sentences() -> None:
    model = jumok.load("note", device="cpu")
    config = model.recipe.model
    assert (config.norm_first, config.positions) == (False, "sinusoidal")  # as in the paper
    assert sum(path.stat().st_size for path in resolve_model("note").iterdir()) < 130_000
    pairs = note_sentences.generate("test", 100)
    outputs = [prediction.output for prediction in model([source for source, _ in pairs])]
    right = sum(output == target for output, (_, target) in zip(outputs, pairs, strict=True))
    assert right >= 93  # 96.6 % in training; bfloat16 weights may change a few


def test_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    rows = call(capsys, "models", "--json").rows
    assert [row["name"] for row in rows] == list(shipped_folders())
    assert all(row["about"] for row in rows)
    assert [row["task"] for row in rows] == [
        "masked_language_modeling",
        "similarity",
        "similarity",
        "sequence_to_sequence",
    ]
    lines = call(capsys, "models").out.splitlines()
    first = [line for line in lines if not line.startswith(" ")]
    assert [line.split(maxsplit=1) for line in first] == [
        ["ko-small", "masked language model"],
        ["ko-small-vectors", "sentence vectors for embed and search"],
        ["ko-static", "sentence vectors for embed and search"],
        ["note", "translation"],
    ]
    columns = {len(line) - len(line.lstrip()) for line in lines if line not in first}
    columns |= {line.index(line.split(maxsplit=1)[1]) for line in first}
    assert len(columns) == 1
