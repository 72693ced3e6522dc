"""Documents translated by the model `note`, with and without torch."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from jumok import engine
from jumok.documents.glossary import Glossary
from jumok.documents.memory import Memory
from jumok.engine.generation import GenerationModel
from jumok.errors import InputError
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.translation import translate_document
from jumok.tasks.runs.load import load
from tests.errors import raises

pytestmark = pytest.mark.usefixtures("compiled")

TEXTS = ["겨울은 추워요.", "나는 집으로 재빠르게 간다.\n\n봄은 짧아요.", "% %", ""]
PAGE = "<p>겨울은 <b>추워요</b>. 여름은 더워요.</p>\n<p>여름은 더워요.</p>\n"


@pytest.fixture(scope="module")
def model() -> GenerationModel:
    found = engine.load("note")
    assert isinstance(found, GenerationModel)
    return found


class Counted:
    """A model that counts the sentences it translates, and may be stopped."""

    def __init__(self, model: GenerationModel, stop_after: int = 10**9) -> None:
        self._model, self.texts, self._stop_after = model, [], stop_after  # type: ignore[var-annotated]

    def predict(self, texts: list[str]) -> list[GeneratedText]:
        if len(self.texts) >= self._stop_after:
            raise KeyboardInterrupt
        self.texts += texts
        return self._model.predict(texts)  # type: ignore[return-value]

    def with_decoding(self, overrides: list[str]) -> "Counted":
        other = Counted(self._model.with_decoding(overrides), self._stop_after)
        other.texts = self.texts
        return other


def test_the_links_of_the_engine_are_those_of_torch(model: GenerationModel) -> None:
    for beam in (1, 3):
        settings = ["alignment=0.1", f"beam={beam}"]
        pipeline = load("note", "cpu").with_decoding([*settings, "kernel=torch"])
        found, expected = model.with_decoding(settings).predict(TEXTS), pipeline.predict(TEXTS)
        for a, b, text in zip(found, expected, TEXTS, strict=True):
            assert isinstance(a, GeneratedText)
            assert isinstance(b, GeneratedText)
            assert a.output == b.output
            if not text:
                assert a.links is b.links is None
                continue
            assert a.links is not None
            assert b.links is not None
            assert [each[:4] for each in a.links] == [each[:4] for each in b.links]
            weights = [(x[4], y[4]) for x, y in zip(a.links, b.links, strict=True)]
            assert all(x == pytest.approx(y, abs=2e-3) for x, y in weights)  # three decimals


def test_links_are_within_their_lines(model: GenerationModel) -> None:
    (output,) = model.with_decoding(["alignment=0.1"]).predict([TEXTS[1]])
    assert isinstance(output, GeneratedText)
    assert output.links
    last = TEXTS[1].index("봄은")
    for start, end, s, s_end, weight in output.links:
        assert output.output[start:end].strip()
        assert (start >= output.output.rindex("\n")) == (s >= last)
        assert s < s_end
        assert 0.1 <= weight <= 1


def test_a_sentence_without_korean_stays_as_it_is(model: GenerationModel) -> None:
    text = "Read the manual. 겨울은 추워요.\nhello, world 3\n"
    expected = "Read the manual. Winter is cold.\nhello, world 3\n"
    assert translate_document(model, text).text == expected
    assert translate_document(load("note", "cpu"), text).text == expected


def test_a_page(model: GenerationModel) -> None:
    found = translate_document(model, PAGE, format="html")
    assert found.text == ("<p>Winter is <b>cold</b>. Summer is hot.</p>\n<p>Summer is hot.</p>\n")
    assert (found.sentences, found.computed) == (2, 2)
    torch = translate_document(load("note", "cpu"), PAGE, format="html")
    assert torch.text == found.text


def test_a_memory(model: GenerationModel, tmp_path: Path) -> None:
    path = tmp_path / "memory.tsv"
    first = translate_document(model, PAGE, format="html", memory=Memory.open(path))
    counted = Counted(model)
    again = translate_document(counted, PAGE, format="html", memory=Memory.open(path))
    assert (again.text, again.computed, counted.texts) == (first.text, 0, [])
    rows = path.read_text(encoding="utf-8").replace("Summer is hot.", "It is hot in summer.")
    path.write_text(rows, encoding="utf-8")
    edited = translate_document(counted, PAGE, format="html", memory=Memory.open(path))
    assert edited.text.count("It is hot in summer.") == 2
    assert counted.texts == []


def test_a_translation_that_was_stopped(model: GenerationModel, tmp_path: Path) -> None:
    """It continues with the sentences that are missing, and the result is the same."""
    source = "".join(
        f"{'정말 ' * n}겨울은 {'너무 ' * m}추워요.\n" for n in range(10) for m in range(10)
    )
    expected = translate_document(model, source)
    path = tmp_path / "memory.tsv"
    with pytest.raises(KeyboardInterrupt):
        translate_document(Counted(model, 64), source, memory=Memory.open(path))
    with path.open("a", encoding="utf-8") as file:
        file.write("겨울은 추워요.\tWin")  # a row that was being written
    counted = Counted(model)
    found = translate_document(counted, source, memory=Memory.open(path, unfinished=True))
    assert found.text == expected.text
    assert len(counted.texts) == 100 - 64


def test_progress(model: GenerationModel) -> None:
    counts: list[tuple[int, int]] = []
    translate_document(model, PAGE, format="html", progress=lambda *pair: counts.append(pair))
    assert counts == [(0, 2), (2, 2)]


def test_a_glossary(model: GenerationModel) -> None:
    found = translate_document(model, "여름은 더워요.", glossary=Glossary({"여름": "SUMMERTIME"}))
    assert found.text == "SUMMERTIME is hot."


def test_words_that_no_token_writes_are_copied() -> None:
    into_english, into_korean = engine.load("koen-small"), engine.load("enko-small")
    text = translate_document(into_english, "그는 Владимир를 만났다.\n今日은 날씨가 좋네요.").text
    assert "Владимир" in text.splitlines()[0]
    assert "今日" in text.splitlines()[1]
    assert len(text.splitlines()[1].split()) > 2  # over one word at most
    assert "三國志" in translate_document(into_korean, "I read the book 三國志 yesterday.").text
    page = translate_document(into_english, "<p>그는 三&amp;國를 읽었다.</p>", format="html").text
    assert "三" in page
    assert "國" in page


def test_warnings_name_the_line(model: GenerationModel) -> None:
    found = translate_document(model, "겨울은 추워요.\n\n뷁 햏햏 뷁뷁.\n")
    assert {each.line for each in found.warnings} == {3}
    assert {each.code for each in found.warnings} >= {"unknown_characters"}
    found = translate_document(model, "길어요 나는 조용히 겨울이 물")
    (warning,) = found.warnings
    assert warning.code == "low_probability"
    assert not translate_document(model, "겨울은 추워요.").warnings


class Fixed:
    """A model with the given outputs."""

    def __init__(self, outputs: dict[str, str]) -> None:
        self._outputs = outputs

    def predict(self, texts: Sequence[str]) -> list[GeneratedText]:
        return [GeneratedText(text, self._outputs[text], 0.0) for text in texts]

    def with_decoding(self, overrides: Sequence[str]) -> "Fixed":
        return self


@pytest.mark.parametrize("kind", ["text", "html", "markdown"])
def test_words_do_not_vanish(kind: str) -> None:
    """A sentence with only its placeholder left stays, and a warning is about it."""
    outputs = {
        "겨울은 춥다.": "Winter.",
        "할 일 ${HOME}": "${HOME}",
        "겨울 ${HOME}": "HOME}",
        "할 일을 합니다.": ".",
        "{name}님": "{name}",
    }
    for text, expected, codes in (
        ("겨울은 춥다. 할 일 ${HOME}", "Winter. 할 일 ${HOME}", ["not_translated"]),
        ("할 일 ${HOME}", "할 일 ${HOME}", ["not_translated"]),
        ("겨울 ${HOME}", "겨울 ${HOME}", ["not_translated"]),
        ("할 일을 합니다.", "할 일을 합니다.", ["not_translated"]),
        ("{name}님", "{name}", []),
    ):
        found = translate_document(Fixed(outputs), text, format=kind)
        assert found.text == expected
        assert [each.code for each in found.warnings] == codes
    page = translate_document(Fixed(outputs), "<p>할 일 <b>${HOME}</b></p>", format="html")
    assert page.text == "<p>할 일 <b>${HOME}</b></p>"


@pytest.mark.parametrize(
    ("text", "output", "message"),
    [
        ("1,234,567원.", "13467.", "the translation lacks 1,234,567; it has 13467 in addition"),
        ("번호 010-1234", "Number 010", "the translation lacks 1234"),
        ("3월 5일에 3만 원", "30,000 won on March 5", None),
        ("{0}에 2.50 저장", "2.50 to {0}", None),
        ("2024.03.05 버전 1.2.3", "March 5, 2024, version 1.2.3", None),
    ],
)
def test_numbers_that_differ(text: str, output: str, message: str | None) -> None:
    found = translate_document(Fixed({text: output}), text)
    assert found.text == output
    assert [(each.code, each.message) for each in found.warnings] == (
        [("numbers_differ", message)] if message else []
    )


def test_a_model_that_does_not_translate() -> None:
    with raises(InputError, "documents.no_translator"):
        translate_document(engine.load("ko-small-vectors"), "가\n")  # type: ignore[arg-type]


def test_a_sentence_without_an_end(model: GenerationModel) -> None:
    """It is divided at spaces, and a word that is longer anywhere."""
    text = "겨울은 " * 700 + "가" * 2500
    found = translate_document(model, text)
    assert "\n" not in found.text
    assert found.sentences >= 4
