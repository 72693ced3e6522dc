"""Words added to a vocabulary: used where they occur, and nothing else changes."""

import lzma
import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.text import SentencePieceTokenizer, VocabularyConfig
from jumok.text.added_words import MAX_USER_DEFINED, add_words
from jumok.text.normalization import nfc
from jumok.text.sentencepiece_proto import _parse, read_model
from tests.errors import raises
from tests.shared_data import shared_data
from tests.text.sample_texts import CORPUS, sentencepiece_model, trained

WORDS = ("코로나", "어벤져스", "꿀잼", "트랜스포머", "포스터보고", "주목하다", "👍🏻")
KINDS: list[Literal["unigram", "bpe"]] = ["unigram", "bpe"]


def words_of(tokenizer: SentencePieceTokenizer, words: tuple[str, ...] = WORDS) -> list[str]:
    return [word for word in words if len(tokenizer.encode(word)) > 1]


@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_word_becomes_one_piece_and_its_former_ids_are_kept(
    kind: Literal["unigram", "bpe"], byte_fallback: bool
) -> None:
    before = trained(kind, byte_fallback)
    words = words_of(before)
    added = add_words(before, words)
    after = added.tokenizer
    assert len(after) == len(before) + len(words)
    for i, word in enumerate(words):
        assert after.encode(word) == [len(before) + i]
        assert after.pieces(f"{word} {word}") == [f"▁{word}"] * 2
        assert added.former_ids[i] == tuple(before.encode(word))
        assert after.decode(after.encode(f"이 {word}는")) == f"이 {word}는" or not byte_fallback
    assert after.special_ids == before.special_ids
    assert [after.piece(i) for i in range(len(before))] == [
        before.piece(i) for i in range(len(before))
    ]
    assert after.normalization == before.normalization
    again = add_words(before, words).tokenizer
    assert again.to_bytes() == after.to_bytes()


@pytest.mark.parametrize("kind", KINDS)
@given(
    text=st.text(
        st.sampled_from("이영화 진짜재미있어요ㅋㅠ…가각힣한글\n\t ▁aé[]CLSMASK👍"), max_size=30
    )
)
def test_texts_without_the_words_are_segmented_as_before(
    kind: Literal["unigram", "bpe"], text: str
) -> None:
    before = trained(kind, byte_fallback=True)
    after = _grown(kind)
    if not any(word in text for word in WORDS):
        assert after.encode(text) == before.encode(text)
    expected = nfc(text).replace("▁", " ")
    assert after.decode(after.encode(text)) == expected == before.decode(before.encode(text))


@pytest.mark.parametrize("kind", KINDS)
@given(
    parts=st.lists(st.sampled_from([*WORDS, " ", "가", "진짜 ", "ㅋㅋ", "…", "e", "\u0301", "ᄒ"]))
)
def test_texts_with_the_words_round_trip(kind: Literal["unigram", "bpe"], parts: list[str]) -> None:
    text = "".join(parts)
    after = _grown(kind)
    assert after.decode(after.encode(text)) == nfc(text)
    sampled = after.sample_batch([text], alpha=0.1, seed=1)[0]
    assert after.decode(sampled) == nfc(text)


_GROWN: dict[str, SentencePieceTokenizer] = {}


def _grown(kind: Literal["unigram", "bpe"]) -> SentencePieceTokenizer:
    if kind not in _GROWN:
        before = trained(kind, byte_fallback=True)
        _GROWN[kind] = add_words(before, words_of(before)).tokenizer
    return _GROWN[kind]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_reviews(kind: Literal["unigram", "bpe"]) -> None:
    with lzma.open(shared_data("nsmc/ratings_train.txt.xz"), "rt", encoding="utf-8") as lines:
        texts = [line.split("\t")[1] for _, line in zip(range(30_000), lines, strict=False)]
    config = VocabularyConfig(kind=kind, size=3000, byte_fallback=True)
    before = SentencePieceTokenizer.train(texts[:20_000], config)
    eojeols = {word for text in texts[20_000:] for word in text.split() if 3 <= len(word) <= 10}
    words = [w for w in sorted(eojeols) if len(before.encode(w)) > 1 and nfc(w) == w][::20][:900]
    after = add_words(before, words).tokenizer
    joined = re.compile("|".join(f" {re.escape(word)}" for word in words))
    old, new = before.encode_batch(texts), after.encode_batch(texts)
    n_with = 0
    for text, a, b in zip(texts, old, new, strict=True):
        has_word = joined.search(f" {nfc(text)}") is not None
        n_with += has_word
        assert a == b or has_word, text
        assert after.decode(b) == nfc(text).replace("▁", " ")
    assert n_with > 1000
    assert sum(map(len, new)) < sum(map(len, old))


def test_longer_pieces_that_contain_the_word_stay_in_use() -> None:
    before = trained()
    pieces = {before.piece(i) for i in range(len(before))}
    starts = {p[:n] for p in pieces for n in range(3, len(p)) if p[0] == "▁"} - pieces
    starts = {start for start in starts if len(before.encode(start[1:])) > 1}
    assert starts
    for start in sorted(starts):
        after = add_words(before, [start[1:]]).tokenizer
        for piece in (p for p in pieces if p.startswith(start)):
            assert after.pieces(piece[1:]) == before.pieces(piece[1:]) == [piece]


def test_models_of_other_programs() -> None:
    before = SentencePieceTokenizer(sentencepiece_model())
    after = add_words(before, ["코로나"]).tokenizer
    assert after.pieces("코로나가")[0] == "▁코로나"
    assert [after.encode(t) for t in CORPUS] == [before.encode(t) for t in CORPUS]
    with raises(InputError, "text.word_not_normalized"):
        add_words(before, ["㈜한글"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "text.no_words"),
        (["코로나", ""], "text.empty_word"),
        ([" "], "text.empty_word"),
        (["두 단어"], "text.word_with_spaces"),
        (["앞▁뒤"], "text.word_with_spaces"),
        (["코로나", "코로나"], "text.word_twice"),
        (["영화"], "text.word_is_a_piece"),
        (
            ["cafe\u0301s"],
            "text.word_not_normalized",
        ),
        (["가" * 1000], "text.word_too_long"),
        (["a\0b"], "text.nul"),
    ],
)
def test_words_that_cannot_be_added(words: list[str], sentence: str) -> None:
    with raises(InputError, sentence):
        add_words(trained(), words)


def test_kinds_and_numbers_that_cannot_be_added() -> None:
    characters = SentencePieceTokenizer.train(CORPUS, VocabularyConfig(kind="char"))
    with raises(InputError, "text.words_of_other_kind"):
        add_words(characters, ["코로나"])
    many = [f"새말{i}" for i in range(MAX_USER_DEFINED + 1)]
    with raises(InputError, "text.too_many_words"):
        add_words(trained("bpe"), many)
    size = read_model(trained().to_bytes())
    assert len(add_words(trained(), many).tokenizer) == len(size.pieces) + len(many)


@pytest.mark.parametrize("score", [1e9, -1e9, 1e30, -3e38])
def test_scores_beyond_the_precision_of_the_margin(score: float) -> None:
    model = _parse(trained().to_bytes())
    for i, piece in enumerate(model.pieces):
        piece.score = score * (1 - i / 3000)
    before = SentencePieceTokenizer(model.SerializeToString())
    assert len(add_words(before, ["진짜영화가", "코로나"]).tokenizer.encode("진짜영화가")) == 1
