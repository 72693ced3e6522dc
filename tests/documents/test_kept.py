"""Generated documents, translated by the model `note`: what is not text is kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.documents import Document
from jumok.engine import load
from jumok.engine.generation import GenerationModel
from jumok.tasks.pipeline.translation import translate_document
from tests.documents.generated import CHECKS, FORMATS, Generator, check_lines, words

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def model() -> GenerationModel:
    found = load("note")
    assert isinstance(found, GenerationModel)
    return found


@pytest.mark.parametrize("kind", FORMATS)
def test_generated_documents(model: GenerationModel, kind: str) -> None:
    sentences = words()
    for seed in range(25):
        source = Generator(seed, sentences).make(kind)
        CHECKS[kind](source, translate_document(model, source, format=kind).text)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_checks_find_faults(kind: str) -> None:
    """A document without one of its characters does not pass."""
    sentences, n_found = words(), 0
    for seed in range(20):
        source = Generator(seed, sentences).make(kind)
        at = next((source.index(each) for each in ("%s", "{}", "{name}", "me@", "</", "-->")
                   if each in source), None)  # fmt: skip
        if at is None or kind == "po":
            continue
        with pytest.raises(AssertionError):
            CHECKS[kind](source, source[:at] + source[at + 1 :])
        n_found += 1
    assert n_found or kind == "po"


ANY_TEXT = st.text(
    st.sampled_from("가나 .!\n\r\t<>/&;b*_`[]()#-{}%$s:|~\\\"'1\u2028\x0c")
    | st.characters(codec="utf-8"),
    max_size=80,
)


@pytest.mark.parametrize("kind", FORMATS)
@given(source=ANY_TEXT, output=ANY_TEXT)
def test_any_document_and_any_translation(kind: str, source: str, output: str) -> None:
    """Each block keeps its placed markup, whatever the model writes; without a model."""
    document = Document.read(source, kind)
    unchanged = "".join(part if isinstance(part, str) else part.raw for part in document.parts)
    assert unchanged == source  # reading loses nothing
    written = document.write([(output, None)] * len(document.blocks))
    if kind in ("text", "srt", "vtt"):
        assert len(written.splitlines()) == len(source.splitlines())
    if kind == "text":
        check_lines(source, written)


def test_an_empty_translation_keeps_the_text() -> None:
    document = Document.read("<p>겨울은 <b>추워요</b></p>", "html")
    assert document.write([(" . ", None)]) == "<p>겨울은 <b>추워요</b></p>"
