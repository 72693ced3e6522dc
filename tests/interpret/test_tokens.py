"""The spans of tokens in a text, for every kind of tokenizer and any text."""

import tracemalloc
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jumok.interpret.eojeol import eojeol_spans
from jumok.interpret.schema import Tokens
from jumok.interpret.tokens import CHUNK, TokenSequence, align_spans, padded_tokens, token_spans
from jumok.interpret.tracing import trace
from jumok.tasks.runs.load import load
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from jumok.text.tokenizer import Tokenizer
from tests import hf_folders
from tests.interpret.random_models import loaded_of
from tests.tasks.tiny_jobs import review_vocabulary

FAMILY = "👨\u200d👩\u200d👧"
SEOUL = unicodedata.normalize("NFD", "서울에")
TEXTS = [
    "이 영화 정말 재미있어요",
    f"{SEOUL} 간다",
    f"{FAMILY} 영화 ㅋㅋ 훌륭",
    "두  칸\n줄 ",
    "",
    "   ",
    "\u202e</script> café",
]
FOLDERS: dict[str, Callable[[Path], Any]] = {
    "wordpiece": hf_folders.bert,
    "bytes": hf_folders.gpt2,
    "bytes of roberta": hf_folders.roberta,
    "unigram": hf_folders.t5,
    "marian": hf_folders.marian,
}


@cache
def bytes_vocabulary() -> SentencePieceTokenizer:
    """A tokenizer with byte fallback."""
    config = VocabularyConfig(size=287, byte_fallback=True, character_coverage=1.0)
    return SentencePieceTokenizer.train(["이 영화 정말 재미있어요", "음악이 좋았어요"], config)


def of(text: str, vocabulary: Tokenizer, width: int | None = None) -> Tokens:
    """A text without special tokens."""
    ids = vocabulary.encode(text)
    row = TokenSequence(text, ids, token_spans(text, ids, vocabulary))
    return padded_tokens(row, vocabulary, width or len(ids))


def assert_sound(found: Tokens) -> None:
    """Spans lie in the text and go forward; each piece belongs to the word it touches."""
    eojeols = eojeol_spans(found.text)
    last = 0
    for number, (begin, end) in enumerate(found.spans):
        assert 0 <= begin <= end <= len(found.text)
        assert begin >= last or (begin, end) == found.spans[number - 1]
        last = begin
        word = found.words[number]
        if found.special[number] or not found.text[begin:end].strip():
            continue
        start, stop = eojeols[word]
        assert start < end
        assert begin < stop
    covered = {i for begin, end in found.spans for i in range(begin, end)}
    visible = {i for i, c in enumerate(found.text) if not c.isspace() and c.isalnum()}
    assert visible <= covered


@pytest.mark.parametrize("text", TEXTS)
def test_trained_tokenizers_align_every_character(text: str) -> None:
    for vocabulary in (review_vocabulary(), bytes_vocabulary()):
        assert_sound(of(text, vocabulary))


@pytest.mark.parametrize("name", FOLDERS)
def test_imported_tokenizers_align_every_character(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    FOLDERS[name](tmp_path / "model")
    vocabulary = load(tmp_path / "model", device="cpu").vocabulary
    for text in TEXTS:
        assert_sound(of(text, vocabulary))


def test_pieces_have_the_spans_of_their_text() -> None:
    found = of("이 영화 정말", review_vocabulary())
    letters = [found.text[begin:end] for begin, end in found.spans]
    assert "".join(letters).replace(" ", "") == "이영화정말"
    assert [found.words[letters.index(letter)] for letter in "이영정"] == [0, 1, 2]


def test_decomposed_text_has_spans_of_its_characters() -> None:
    text = unicodedata.normalize("NFD", "이 영화 정말")
    found = of(text, review_vocabulary())
    shown = [unicodedata.normalize("NFC", text[begin:end]) for begin, end in found.spans]
    assert [piece.strip("▁") for piece in found.pieces] == [part.strip() for part in shown]
    assert found.spans[-1][1] == len(text) == 15


def test_bytes_of_a_character_share_its_span() -> None:
    found = of("훌 ㅋ", bytes_vocabulary())
    of_letter = [i for i, (a, b) in enumerate(found.spans) if found.text[a:b] == "훌"]
    assert [found.pieces[i] for i in of_letter] == ["<0xED>", "<0x9B>", "<0x8C>"]
    assert {found.words[i] for i in of_letter} == {0}
    family = of(FAMILY, bytes_vocabulary())
    assert {found for found in family.spans if found[0] < found[1]} == {
        (i, i + 1) for i in range(len(FAMILY))
    }


def test_a_space_piece_belongs_to_the_next_word() -> None:
    found = of("이 훌륭 ", review_vocabulary())
    names = list(zip(found.pieces, found.words, strict=True))
    assert names == [("▁이", 0), ("▁", 1), ("[UNK]", 1), ("▁", -1)]


def test_unknown_pieces_share_the_words_between_known_ones() -> None:
    vocabulary = review_vocabulary()
    ids = [*vocabulary.encode("이"), vocabulary.unk_id, *vocabulary.encode("영화")]
    text = "이 훌륭하다 영화"
    found = align_spans(text, ids, vocabulary, [vocabulary.piece(i) for i in ids])
    assert [text[begin:end] for begin, end in found] == ["이", "훌륭하다", "", "영", "화"]


@pytest.mark.slow
def test_a_long_text_is_aligned_in_little_memory() -> None:
    """Some 20,000 ids: the beginnings of them all would be 200 million."""
    vocabulary = bytes_vocabulary()
    text = " ".join([f"이 영화 훌륭 {FAMILY} 재미있어요"] * 540)
    ids = vocabulary.encode(text)
    assert len(ids) > 18_000
    tracemalloc.start()
    found = align_spans(text, ids, vocabulary)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 40 * 2**20
    assert text[slice(*found[-1])] == "어요"


@pytest.mark.parametrize("blanks", range(8))
def test_chunks_align_like_the_whole_text(blanks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a border falls in a letter of four bytes."""
    vocabulary = bytes_vocabulary()
    text = "음" * blanks + " ".join(f"{FAMILY}훌 이 영화 {SEOUL}" for _ in range(12))
    ids = vocabulary.encode(text)
    assert len(ids) > 3 * CHUNK
    chunked = align_spans(text, ids, vocabulary)
    monkeypatch.setattr("jumok.interpret.tokens.CHUNK", len(ids))
    assert align_spans(text, ids, vocabulary) == chunked


def test_special_tokens_have_empty_spans() -> None:
    made = trace(loaded_of("classifier"), "이 영화", pad_to=12)
    found = made.info.tokens("source")
    assert found.pieces[0] == "[CLS]"
    assert (found.special[0], found.words[0], found.spans[0]) == (1, -1, (0, 0))
    assert found.special[1] == 0
    n = sum(found.real)
    assert found.special[n:] == (1,) * (12 - n)
    assert set(found.spans[n:]) == {(4, 4)}


def test_a_pair_is_one_text_with_a_tab() -> None:
    found = trace(loaded_of("pairs"), "이 영화\t연기가 좋았어요").info.tokens("source")
    assert found.text == "이 영화\t연기가 좋았어요"
    second = [i for i, segment in enumerate(found.segments or ()) if segment]
    letters = "".join(found.text[slice(*found.spans[i])] for i in second)
    assert letters.replace(" ", "") == "연기가좋았어요"
    assert {found.words[i] for i in second} == {2, 3, -1}
    assert found.pieces[second[-1]] == "[SEP]"
    assert found.special[second[-1]] == 1


def test_a_mask_token_has_the_span_of_its_text() -> None:
    found = trace(loaded_of("masked"), "이 [MASK] 정말").info.tokens("source")
    location = found.pieces.index("[MASK]")
    assert found.text[slice(*found.spans[location])] == "[MASK]"
    assert (found.special[location], found.words[location]) == (0, 1)


def test_a_typed_special_piece_is_a_word(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    hf_folders.bert(tmp_path / "model", "ForSequenceClassification", ("a", "b"))
    found = trace(load(tmp_path / "model", device="cpu"), "이 [SEP] 영화").info.tokens("source")
    assert found.special == (1, *(0,) * (len(found) - 2), 1)
    assert_sound(found)
