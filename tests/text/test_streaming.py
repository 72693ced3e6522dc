"""Streaming: never half a syllable, never a space too many, together what `decode` says."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.text import SentencePieceTokenizer, StreamingDecoder
from jumok.text.sentencepiece_proto import PieceType, read_model
from tests.errors import raises
from tests.text.sample_texts import SENTENCES, kowiki_like, sentencepiece_model, trained

VOCABULARIES = {
    "unigram": trained(),
    "bpe": trained("bpe"),
    "unigram bytes": trained("unigram", True),
    "bpe bytes": trained("bpe", True),
    "kowiki": SentencePieceTokenizer(kowiki_like()),
    "no prefix": SentencePieceTokenizer(sentencepiece_model(add_dummy_prefix="false")),
}
BYTES = trained("unigram", True)
BYTE_IDS = [
    i for i, kind in enumerate(read_model(BYTES.to_bytes()).types) if kind is PieceType.BYTE
]


def stream(vocabulary: SentencePieceTokenizer, ids: list[int]) -> list[str]:
    decoder = StreamingDecoder(vocabulary)
    return [*(decoder.push(i) for i in ids), decoder.finish()]


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("text", [*SENTENCES, "뷁훮 쀍👍🏽  뷁 ", "   ", "\n\n", "가"])
def test_the_joined_parts_equal_decode(name: str, text: str) -> None:
    vocabulary = VOCABULARIES[name]
    ids = vocabulary.encode(text)
    parts = stream(vocabulary, ids)
    assert "".join(parts) == vocabulary.decode(ids)
    assert parts[-1] == ""
    assert not any("\ufffd" in part for part in parts)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(BYTE_IDS),
            st.sampled_from([BYTE_IDS[byte] for byte in "가뷁👍é".encode()]),
            st.sampled_from([BYTES.id("▁"), BYTES.id("이"), BYTES.pad_id, BYTES.unk_id]),
        ),
        max_size=30,
    )
)
def test_invalid_bytes_equal_decode(ids: list[int]) -> None:
    assert "".join(stream(BYTES, ids)) == BYTES.decode(ids)


@given(st.text(st.sampled_from("뷁훮 이영화👍\n"), max_size=20))
def test_the_streamed_text_is_a_prefix_of_the_whole(text: str) -> None:
    for name in ("unigram bytes", "bpe bytes"):
        vocabulary = VOCABULARIES[name]
        so_far = accumulate(stream(vocabulary, vocabulary.encode(text)))
        assert all(text.startswith(part) for part in so_far)


def test_a_syllable_of_three_bytes_appears_with_the_third() -> None:
    ids = BYTES.encode("뷁")[1:]
    assert len(ids) == 3
    assert stream(BYTES, ids) == ["", "", "뷁", ""]


def test_an_incomplete_syllable_at_the_end_is_replaced() -> None:
    ids = BYTES.encode("이 뷁")[:-1]
    assert stream(BYTES, ids)[-3:] == ["", "", "\ufffd\ufffd"]


def test_special_pieces_are_not_streamed() -> None:
    vocabulary = trained()
    ids = [vocabulary.bos_id, *vocabulary.encode("영화"), vocabulary.eos_id, vocabulary.pad_id]
    assert "".join(stream(vocabulary, ids)) == "영화"


def test_a_decoder_can_be_reused_for_another_text() -> None:
    decoder = StreamingDecoder(trained())
    for text in ("이 영화", "배우 연기"):
        parts = [decoder.push(i) for i in trained().encode(text)]
        assert "".join([*parts, decoder.finish()]) == text


def test_the_time_per_token_does_not_grow() -> None:
    """Only a few ids are kept, in words and in bytes."""
    for text in ("이 영화 정말 재미있어요 " * 60, "뷁훮" * 200):
        decoder = StreamingDecoder(BYTES)
        parts = []
        for i in BYTES.encode(text):
            parts.append(decoder.push(i))
            assert len(decoder._ids) <= 12
        assert "".join(parts) == text


def test_an_id_out_of_range_is_refused() -> None:
    with raises(InputError, "tokenizer.id_range"):
        StreamingDecoder(trained()).push(10_000)
