"""Pieces laid on the characters of the text they came from."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.text.offsets import offsets
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from tests.errors import raises
from tests.text.sample_texts import CORPUS, trained

CHARACTERS = SentencePieceTokenizer.train(CORPUS, VocabularyConfig(size=400, kind="char"))
VOCABULARIES = [trained("unigram"), trained("bpe"), CHARACTERS]
ids = [vocabulary.kind for vocabulary in VOCABULARIES]
texts = st.text(st.sampled_from("한글을 나누고  다시▁잇는다ㅋ뷁쀍x\n\t"), max_size=30)


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=ids)
@given(texts)
def test_every_character_belongs_to_one_piece(
    vocabulary: SentencePieceTokenizer, text: str
) -> None:
    pieces = vocabulary.pieces(text)
    spans = offsets(text, pieces)
    assert [location for start, stop in spans for location in range(start, stop)] == list(
        range(len(text))
    )
    for piece, (start, stop) in zip(pieces, spans, strict=True):
        own = text[start:stop].replace("▁", " ")
        assert piece.replace("▁", " ") in (own, f" {own}")


@pytest.mark.parametrize("vocabulary", VOCABULARIES, ids=ids)
@given(texts)
def test_a_text_of_several_parts_has_the_offsets_of_each_part(
    vocabulary: SentencePieceTokenizer, text: str
) -> None:
    """What macOS makes of file names: the pieces are the same, their places are further apart."""
    parts = unicodedata.normalize("NFD", text)
    assert vocabulary.pieces(parts) == vocabulary.pieces(text)
    spans = offsets(text, vocabulary.pieces(text))
    found = offsets(parts, vocabulary.pieces(parts))
    for (start, stop), (begin, end) in zip(spans, found, strict=True):
        assert unicodedata.normalize("NFC", parts[begin:end]) == text[start:stop]


def test_another_text_is_refused() -> None:
    with raises(InputError, "text.no_offsets"):
        offsets("㈜ 한글", ["▁(주)", "▁한글"])
    with raises(InputError, "text.no_offsets"):
        offsets("뷁", trained(byte_fallback=True).pieces("뷁"))
