"""Models that ship with jumok: found by name, listed, and complete."""

import math
import re
import shutil
from pathlib import Path

import pytest

import jumok
from jumok import engine
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
    assert right >= 98  # all in training; bfloat16 weights may change a few


def test_the_model_of_the_course_is_uncertain_where_two_wordings_are_right() -> None:
    """Korean has no articles: the probabilities are those of the wordings in training."""
    model = jumok.load("note", device="cpu").with_decoding(
        ["beam=4", "n_best=4", "length_penalty=0"]
    )
    found = model("겨울은 추워요.").n_best
    assert found is not None
    p = {each.output: math.exp(each.rank) for each in found}
    wordings = [
        f"{first} is {last}." for first in ("Winter", "The winter") for last in ("cold", "chilly")
    ]
    assert set(p) == set(wordings)
    assert sum(p.values()) > 0.95
    expected = [0.49, 0.21, 0.21, 0.09]
    assert [p[each] for each in wordings] == pytest.approx(expected, abs=0.1)


def test_dev_and_test_have_the_first_wording() -> None:
    for split in ("dev", "test"):
        assert not any("{" in target for _, target in note_sentences.generate(split, 500))
    drawn = [
        target.startswith("Winter ")
        for source, target in note_sentences.generate("train", 20_000)
        if source.startswith("겨울은 ")
    ]
    assert sum(drawn) / len(drawn) == pytest.approx(note_sentences.FIRST, abs=0.05)


EVERYDAY = {  # of the first minute
    "안녕하세요": "Hello",
    "고마워요": "Thank you",
    "배고파": "hungry",
    "저는 매일 아침에 커피를 마셔요.": "drink coffee every morning",
    "여기서 사진 찍어도 돼요?": "take a picture here?",
    "시험이 끝나면 여행을 가고 싶어요.": "want to go on a trip",
    "감기에 걸려서 학교에 못 갔어요.": "couldn't go to school because",
}


EVERYDAY_ENGLISH = {
    "Thank you very much.": "감사합니다",
    "Where is the bathroom?": "화장실은 어디",
    "Our dog is really smart.": "정말 똑똑",
    "Please speak more slowly.": "천천히 말해",
    "Click the button to save the file.": "저장",
    "What are you doing tomorrow?": "내일 뭐 해요",
    "I lost my wallet yesterday.": "어제 지갑을 잃어버렸어요",
    "https://example.com/a1": "https://example.com/a1",
}


@pytest.mark.parametrize(
    ("name", "sentences"), [("koen-small", EVERYDAY), ("enko-small", EVERYDAY_ENGLISH)]
)
def test_the_translators_answer_everyday_sentences(name: str, sentences: dict[str, str]) -> None:
    model = engine.load(name)
    for text, expected in sentences.items():
        assert expected in model(text).output


def test_the_listing(capsys: pytest.CaptureFixture[str]) -> None:
    rows = call(capsys, "models", "--json").rows
    assert [row["name"] for row in rows] == list(shipped_folders())
    assert all(row["about"] for row in rows)
    assert [row["task"] for row in rows] == [
        "sequence_to_sequence",
        "masked_language_modeling",
        "similarity",
        "similarity",
        "sequence_to_sequence",
        "sequence_to_sequence",
    ]
    lines = call(capsys, "models").out.splitlines()
    first = [line for line in lines if not line.startswith(" ")]
    assert [line.split(maxsplit=1) for line in first] == [
        ["enko-small", "translation"],
        ["ko-small", "masked language model"],
        ["ko-small-vectors", "sentence vectors for embed and search"],
        ["ko-static", "sentence vectors for embed and search"],
        ["koen-small", "translation"],
        ["note", "translation"],
    ]
    columns = {len(line) - len(line.lstrip()) for line in lines if line not in first}
    columns |= {line.index(line.split(maxsplit=1)[1]) for line in first}
    assert len(columns) == 1
