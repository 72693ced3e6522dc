"""Vocabularies against SentencePiece itself: trained, loaded, encoded, decoded, refused."""

import hashlib
import re
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError, StorageError
from jumok.text import SPECIAL_PIECES, SentencePieceTokenizer, Tokenizer, VocabularyConfig
from jumok.text.sentencepiece_proto import PieceType, read_model
from tests.errors import raises
from tests.shared_data import shared_data
from tests.text.sample_texts import SENTENCES, kowiki_like, sentencepiece_model, trained

KINDS = ["unigram", "bpe"]
SPECIAL = ["pad_id", "unk_id", "bos_id", "eos_id", "sep_id", "cls_id", "mask_id"]


def reviews(n: int = 2000) -> list[str]:
    lines = shared_data("nsmc/mini-train.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[1] for line in lines[1 : n + 1]]


def peer(data: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=data)


# -- training ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_give_the_same_bytes(kind: str) -> None:
    texts = reviews(200)
    config = VocabularyConfig(kind=kind, size=900)
    one = SentencePieceTokenizer.train(texts, config)
    two = SentencePieceTokenizer.train(iter(texts), config)
    assert one.to_bytes() == two.to_bytes()
    assert one.fingerprint == hashlib.sha256(one.to_bytes()).hexdigest() == two.fingerprint


def test_another_process_gives_the_same_bytes_and_nothing_is_left_behind(tmp_path: Path) -> None:
    code = (
        "from tests.text.sample_texts import trained\n"
        "print(trained('unigram').fingerprint, trained('bpe').fingerprint)"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{root}:{root / 'src'}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [trained("unigram").fingerprint, trained("bpe").fingerprint]
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_seven_special_pieces_and_the_requested_size(kind: str) -> None:
    vocabulary = trained(kind)
    assert len(vocabulary) == 200
    assert vocabulary.kind == kind
    assert vocabulary.normalization == "nfc"
    assert list(vocabulary.special_ids) == list(SPECIAL_PIECES)
    for name, attribute in zip(SPECIAL_PIECES, SPECIAL, strict=True):
        assert getattr(vocabulary, attribute) == vocabulary.id(name)
        assert vocabulary.piece(vocabulary.id(name)) == name


def test_laughter_and_symbols_are_pieces_with_any_coverage() -> None:
    texts = [*["영화 배우 연기 음악"] * 300, "뗀 ㅋㅋ"]
    config = VocabularyConfig("bpe", size=30, character_coverage=0.98)
    vocabulary = SentencePieceTokenizer.train(texts, config)
    assert vocabulary.unk_id in vocabulary.encode("뗀")
    text = "ㅋㅎㅠㅜ…㈜\n\t"
    assert vocabulary.unk_id not in vocabulary.encode(text)
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_digits_can_be_split() -> None:
    texts = [f"{year}년 값 {year}원" for year in range(2000, 2030)]
    whole = SentencePieceTokenizer.train(texts, VocabularyConfig("bpe", size=40))
    split = SentencePieceTokenizer.train(texts, VocabularyConfig("bpe", 30, split_digits=True))
    assert len(whole.pieces("2026")) < 5
    assert split.pieces("2026") == ["▁", "2", "0", "2", "6"]


def test_texts_full_of_special_pieces_train_words_not_specials() -> None:
    texts = ["[CLS] 한글 [CLS] [PAD] [MASK] 글 <s> [SEP]", "[C L S M A K P D E ]"] * 50
    vocabulary = SentencePieceTokenizer.train(texts, VocabularyConfig("bpe", size=32))
    ids = vocabulary.encode("한글[CLS]한글 [CLS] [PAD]")
    assert not set(ids) & set(vocabulary.special_ids.values())
    assert vocabulary.decode(ids) == "한글[CLS]한글 [CLS] [PAD]"


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_the_default_size_is_what_the_texts_allow(
    kind: Literal["unigram", "bpe"], byte_fallback: bool
) -> None:
    texts = ["가나다", "나다라"] * 20
    found = len(
        SentencePieceTokenizer.train(texts, VocabularyConfig(kind, byte_fallback=byte_fallback))
    )
    with raises(InputError, f"vocabulary.size must be at most {found} for these texts, got 7999"):
        more = VocabularyConfig(kind, 7999, byte_fallback=byte_fallback)
        SentencePieceTokenizer.train(texts, more, "vocabulary.size")


@pytest.mark.parametrize(
    ("texts", "config", "message"),
    [
        ([], VocabularyConfig(), "text.no_training_text"),
        (["", " \n"], VocabularyConfig(), "text.no_training_text"),
        (
            ["가나"],
            VocabularyConfig(size=9),
            "text.vocabulary_too_small",
        ),
        (["가나"], VocabularyConfig(size=7999), "text.vocabulary_too_large"),
        (["가나", "다\0"], VocabularyConfig(), "text.nul"),
    ],
)
def test_training_errors_are_explained(
    texts: list[str], config: VocabularyConfig, message: str
) -> None:
    with raises(InputError, message):
        SentencePieceTokenizer.train(texts, config)


def test_errors_of_the_texts_are_not_replaced() -> None:
    def broken() -> Iterator[str]:
        yield "가나다"
        raise ConnectionError("the line went dead")

    with pytest.raises(ConnectionError, match="the line went dead"):
        SentencePieceTokenizer.train(broken())


@pytest.mark.parametrize(
    "make",
    [
        lambda: VocabularyConfig(kind="wordpiece"),
        lambda: VocabularyConfig(normalization="nfkc"),
        lambda: VocabularyConfig(character_coverage=0.5),
        lambda: VocabularyConfig(size=0),
        lambda: VocabularyConfig(size=10**12),
    ],
)
def test_an_impossible_config_is_refused(make: Callable[[], VocabularyConfig]) -> None:
    with pytest.raises(InputError, match=r"must be .*got"):
        make()


# -- encoding and decoding -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_real_reviews_are_encoded_as_by_sentencepiece(kind: str) -> None:
    texts = reviews()
    vocabulary = SentencePieceTokenizer.train(texts, VocabularyConfig(kind=kind, size=2500))
    itself = peer(vocabulary.to_bytes())
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    rows = vocabulary.encode_batch(texts)
    assert rows == itself.encode(composed, out_type=int)
    assert rows[:50] == [vocabulary.encode(text) for text in texts[:50]]
    for text, row, back in zip(composed, rows, vocabulary.decode_batch(rows), strict=True):
        if vocabulary.unk_id not in row:
            assert back == itself.decode(row) == text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_spaces_line_breaks_and_symbols_round_trip(kind: str, byte_fallback: bool) -> None:
    vocabulary = trained(kind, byte_fallback)
    for text in ["", " ", "  이 영화   ", "가볍지\n\n\t않구나 ", *SENTENCES]:
        assert vocabulary.decode(vocabulary.encode(text)) == text


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0▁")))
def test_with_byte_fallback_every_text_round_trips_composed(text: str) -> None:
    vocabulary = trained("bpe", byte_fallback=True)
    assert vocabulary.decode(vocabulary.encode(text)) == unicodedata.normalize("NFC", text)


def test_decomposed_input_gives_the_same_ids() -> None:
    vocabulary = trained()
    apart = [unicodedata.normalize("NFD", text) for text in SENTENCES]
    assert vocabulary.encode_batch(apart) == vocabulary.encode_batch(SENTENCES)
    assert vocabulary.encode(apart[0]) == vocabulary.encode(SENTENCES[0])


def test_without_normalisation_nothing_is_composed() -> None:
    apart = unicodedata.normalize("NFD", "한글 나라")
    config = VocabularyConfig(size=24, normalization="none", character_coverage=1.0)
    vocabulary = SentencePieceTokenizer.train([apart], config)
    assert SentencePieceTokenizer(vocabulary.to_bytes()).normalization == "none"
    assert vocabulary.decode(vocabulary.encode(apart)) == apart
    assert vocabulary.unk_id in vocabulary.encode("한글")


@pytest.mark.parametrize("data", [trained().to_bytes(), trained("bpe").to_bytes(), kowiki_like()])
@pytest.mark.parametrize("name", SPECIAL_PIECES)
def test_a_typed_special_piece_is_ordinary_text(data: bytes, name: str) -> None:
    vocabulary = SentencePieceTokenizer(data)
    for text in [name, f"이 영화{name}정말", f" {name} 재미", f"{name}{name}"]:
        for ids in [
            vocabulary.encode(text),
            vocabulary.encode_batch([text])[0],
            vocabulary.sample_batch([text], alpha=0.1, seed=1)[0],
        ]:
            assert not set(ids) & (set(vocabulary.special_ids.values()) - {vocabulary.unk_id})


def test_decode_leaves_special_pieces_out() -> None:
    vocabulary = trained()
    ids = vocabulary.encode("더빙 진짜")
    around = [vocabulary.cls_id, vocabulary.bos_id, *ids, vocabulary.eos_id, vocabulary.unk_id]
    assert vocabulary.decode(around + [vocabulary.pad_id] * 3) == "더빙 진짜"
    assert vocabulary.decode([]) == vocabulary.decode([vocabulary.pad_id]) == ""


@pytest.mark.parametrize("wrong", [-1, 200, 10**9])
def test_an_id_out_of_range_is_refused(wrong: int) -> None:
    with pytest.raises(InputError, match=f"in a vocabulary of 200 ids, got {wrong}"):
        trained().decode([5, wrong])
    with raises(InputError, "tokenizer.id_range"):
        trained().piece(wrong)


def test_an_unknown_piece_is_never_silently_unk() -> None:
    with raises(InputError, "tokenizer.no_such_piece"):
        trained().id("[XYZ]")


def test_nul_and_lone_surrogates_are_refused_by_every_method() -> None:
    vocabulary = trained()
    for text in ["가\0나", "가\ud800나"]:
        for refuse in [
            lambda text=text: vocabulary.encode(text),
            lambda text=text: vocabulary.pieces(text),
            lambda text=text: vocabulary.encode_batch(["가", text]),
            lambda text=text: vocabulary.sample_batch([text], alpha=0.1, seed=0),
        ]:
            with pytest.raises(InputError, match="as character 2"):
                refuse()


def test_one_text_for_a_list_of_texts_is_refused() -> None:
    with raises(InputError, "tokenizer.one_string"):
        trained().encode_batch("한글")


# -- files ---------------------------------------------------------------------------------------


def test_saved_and_loaded_is_the_same(tmp_path: Path) -> None:
    vocabulary = trained()
    vocabulary.save(tmp_path / "vocabulary.model")
    assert [path.name for path in tmp_path.iterdir()] == ["vocabulary.model"]
    again: Tokenizer = SentencePieceTokenizer.load(tmp_path / "vocabulary.model")
    assert again.fingerprint == vocabulary.fingerprint
    assert again.encode_batch(SENTENCES) == vocabulary.encode_batch(SENTENCES)
    assert repr(again) == "SentencePieceTokenizer(unigram, 200 pieces, nfc normalization)"


def test_a_model_trained_as_in_korean_tutorials() -> None:
    data = kowiki_like()
    assert PieceType.USER_DEFINED in read_model(data).types
    vocabulary = SentencePieceTokenizer(data)
    assert [getattr(vocabulary, name) for name in SPECIAL] == [0, 1, 2, 3, 4, 5, 6]
    assert vocabulary.normalization == "nmt_nfkc"
    assert vocabulary.to_bytes() == data
    plain = [text for text in SENTENCES if "[" not in text]
    assert vocabulary.encode_batch(plain) == peer(data).encode(plain, out_type=int)
    apart = [unicodedata.normalize("NFD", text) for text in plain]
    assert vocabulary.encode_batch(apart) == vocabulary.encode_batch(plain)
    assert vocabulary.decode(vocabulary.encode("ㅋㅋ")) == "ᄏᄏ"  # its rule, not ours


def test_other_names_and_ids() -> None:
    data = sentencepiece_model(pad_id=3, control_symbols=["<cls>", "<sep>", "<mask>"])
    vocabulary = SentencePieceTokenizer(data)
    assert [getattr(vocabulary, name) for name in SPECIAL] == [3, 0, 1, 2, 5, 4, 6]


def test_a_missing_special_piece_is_named() -> None:
    vocabulary = SentencePieceTokenizer(sentencepiece_model())  # <unk> <s> </s> alone
    assert (vocabulary.unk_id, vocabulary.bos_id, vocabulary.eos_id) == (0, 1, 2)
    for attribute, name in [("pad_id", "[PAD]"), ("cls_id", "[CLS]"), ("mask_id", "[MASK]")]:
        with pytest.raises(InputError, match=re.escape(f"the vocabulary has no {name} piece")):
            getattr(vocabulary, attribute)


def test_other_user_defined_pieces_stay_whole() -> None:
    data = sentencepiece_model(user_defined_symbols=["<제목>", "[SEP]"])
    vocabulary = SentencePieceTokenizer(data)
    assert vocabulary.id("<제목>") in vocabulary.encode("이 영화<제목>정말")
    assert vocabulary.sep_id not in vocabulary.encode("이 영화[SEP]정말")
    assert "<제목>" in vocabulary.decode(vocabulary.encode("이 영화<제목>정말"))


@pytest.mark.parametrize("kind", ["word", "char"])
def test_word_and_character_models_load_but_do_not_sample(kind: str) -> None:
    options = {"vocab_size": 40} if kind == "word" else {}
    vocabulary = SentencePieceTokenizer(sentencepiece_model(model_type=kind, **options))
    assert vocabulary.kind == kind
    assert vocabulary.encode("더빙 진짜")
    with pytest.raises(InputError, match=f"a {kind} vocabulary has one segmentation of every text"):
        vocabulary.sample_batch(["더빙"], alpha=0.1, seed=0)


def test_damaged_models_are_refused() -> None:
    data = trained().to_bytes()
    broken = [b"", b"hello", b"\0" * 40, data[:-5], data[: len(data) // 2], b"PK\x03\x04" + data]
    for wrong in broken:
        with pytest.raises(InputError, match="model"):
            SentencePieceTokenizer(wrong)


def test_a_file_that_is_not_a_model_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.model"
    path.write_text("이것은 모델이 아니다", encoding="utf-8")
    with pytest.raises(
        InputError, match=r"x\.model: these \d+ bytes are not a SentencePiece model"
    ):
        SentencePieceTokenizer.load(path)
    with pytest.raises(StorageError, match=r"missing\.model: cannot be read"):
        SentencePieceTokenizer.load(tmp_path / "missing.model")


def test_a_denormalizer_and_long_pieces_are_refused() -> None:
    """The table of a denormalizer is read when ids are decoded."""
    data = trained("unigram").to_bytes()
    table = bytes([0, 4, 0, 0]) + bytes(4 * 256) + b"a" * 5_000
    with pytest.raises(InputError, match="got 5,000 bytes"):
        read_model(data + _field(5, _field(2, table)))
    with pytest.raises(InputError, match="a piece must have at most 1,000 characters, got 2,000"):
        read_model(data + _field(1, _field(1, b"a" * 2_000)))


def _field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def test_the_size_of_a_vocabulary_of_single_characters_is_a_limit() -> None:
    """There are no longer pieces to fill it, and rare characters are bytes."""
    config = VocabularyConfig(size=5_000, max_piece_length=1, byte_fallback=True)
    vocabulary = SentencePieceTokenizer.train(["세 시에 만나요"] * 3, config)
    assert 256 < len(vocabulary) < 300
    assert vocabulary.pieces("세 시 뷁")[:4] == ["▁", "세", "▁", "시"]
    assert vocabulary.decode(vocabulary.encode("세 시 뷁 鋹 😂")) == "세 시 뷁 鋹 😂"
