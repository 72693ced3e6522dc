"""A vocabulary of characters: each its own piece, every space and line break kept."""

from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.text import SentencePieceTokenizer, StreamingDecoder, VocabularyConfig
from tests.errors import raises

CONFIG = VocabularyConfig(
    kind="char", size=1000, character_coverage=1.0, required_characters="\n\t"
)
TEXT = '나는  밥을 먹었다.\n\n  "왜?" 하고\t물었다 ㅋㅋ'
VOCABULARY = SentencePieceTokenizer.train([TEXT], CONFIG)


def test_a_piece_for_every_character_and_seven_special_ones() -> None:
    assert VOCABULARY.kind == "char"
    assert len(VOCABULARY) == 7 + len(set(TEXT))


@given(st.text(sorted(set(TEXT))))
def test_as_many_ids_as_characters_and_the_same_text_back(text: str) -> None:
    ids = VOCABULARY.encode(text)
    assert len(ids) == len(text)
    assert VOCABULARY.decode(ids) == text


@given(st.text(sorted(set(TEXT))))
def test_streamed_parts_equal_the_whole(text: str) -> None:
    stream = StreamingDecoder(VOCABULARY)
    parts = [stream.push(each) for each in VOCABULARY.encode(text)]
    assert "".join(parts) + stream.finish() == text


def test_two_texts_are_concatenated() -> None:
    both = VOCABULARY.encode("밥을") + VOCABULARY.encode(" 먹었다")
    assert both == VOCABULARY.encode("밥을 먹었다")


def test_the_size_limits_the_rarest_characters() -> None:
    few = SentencePieceTokenizer.train(
        ["가가가 나나 다"], VocabularyConfig(kind="char", size=10, required_characters="")
    )
    assert len(few) == 10
    assert few.encode("가다") == [few.id("가"), few.unk_id]


def test_characters_have_one_segmentation_and_no_sampling() -> None:
    with raises(InputError, "text.one_segmentation"):
        VOCABULARY.sample_batch(["밥을"], alpha=0.1, seed=0)


def test_a_vocabulary_of_characters_has_no_byte_fallback() -> None:
    with raises(InputError, "text.byte_fallback_of_characters"):
        VocabularyConfig(kind="char", byte_fallback=True)
