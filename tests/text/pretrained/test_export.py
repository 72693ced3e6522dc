"""Vocabularies trained here, opened by AutoTokenizer: the same ids, the same texts."""

import csv
import io
import lzma
from pathlib import Path
from typing import Any

import pytest

from jumok.errors import InputError
from jumok.tasks.inputs.special_tokens import build_inputs, build_source
from jumok.text.pretrained.export import (
    CAUSAL_LM_TEMPLATE,
    CLASSIFICATION_TEMPLATE,
    SEQUENCE_TEMPLATE,
    TemplateStrings,
    tokenizer_files,
)
from jumok.text.ragged import Ragged
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from jumok.text.sentencepiece_proto import read_model
from tests.errors import raises
from tests.shared_data import shared_data
from tests.text.sample_texts import CORPUS, sentencepiece_model

transformers = pytest.importorskip("transformers")

ODD = [
    *("", " ", "  두  칸 ", "\t탭\n줄\r\n끝", "▁밑줄 ▁", "가" * 60),
    "e\u0301 \u1112\u1161\u11ab",  # decomposed
    *("😀😀 xyz 漢字 ㈜ … ①", "ㅋㅋㅋㅋ ㅠㅠ ㅏㅏ", "\u3000전각\u00a0공백", "a<unk>b </s> 0x41"),
]
COMMON = [text for text in CORPUS if "[MASK]" not in text]  # which is a special piece there
KINDS: dict[str, dict[str, Any]] = {
    "unigram": {},
    "unigram-bytes": {"byte_fallback": True, "size": 446},
    "unigram-plain": {"normalization": "none"},
    "unigram-digits": {"split_digits": True},
    "bpe": {"kind": "bpe"},
    "bpe-bytes": {"kind": "bpe", "byte_fallback": True, "size": 446},
    "char": {"kind": "char"},
}


def trained(name: str) -> SentencePieceTokenizer:
    options = {"size": 190, "character_coverage": 1.0} | KINDS[name]
    return SentencePieceTokenizer.train(CORPUS, VocabularyConfig(**options))


def opened(
    vocabulary: SentencePieceTokenizer,
    folder: Path,
    frames: TemplateStrings = SEQUENCE_TEMPLATE,
    longest: int = 64,
    token_types: bool = False,
) -> Any:
    for name, data in tokenizer_files(vocabulary, frames, longest, token_types=token_types).items():
        (folder / name).write_bytes(data)
    return transformers.AutoTokenizer.from_pretrained(folder)


def plain(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    rows: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return rows


def likelihoods(vocabulary: SentencePieceTokenizer, rows: list[list[int]]) -> list[float]:
    """The log-probability of each row's pieces under a unigram model."""
    scores = read_model(vocabulary.to_bytes()).scores
    return [sum(scores[i] for i in row) for row in rows]


def assert_same(
    vocabulary: SentencePieceTokenizer, tokenizer: Any, texts: list[str], ties: int = 0
) -> None:
    """The same ids of all texts but for so many whose two cuts are equally likely."""
    actual, reference = vocabulary.encode_batch(texts), plain(tokenizer, texts)
    other = [i for i, (a, b) in enumerate(zip(actual, reference, strict=True)) if a != b]
    assert len(other) <= ties, [texts[i] for i in other]
    for i in other:
        one, two = likelihoods(vocabulary, [actual[i], reference[i]])
        assert one == pytest.approx(two, abs=1e-4), texts[i]
    known = tokenizer.batch_decode(actual, skip_special_tokens=True)
    assert vocabulary.decode_batch(actual) == known


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_ids(tmp_path: Path, kind: str) -> None:
    vocabulary = trained(kind)
    tokenizer = opened(vocabulary, tmp_path)
    assert len(tokenizer) == len(vocabulary)
    assert_same(vocabulary, tokenizer, [*COMMON, *ODD])
    for name, i in vocabulary.special_ids.items():
        assert tokenizer.convert_tokens_to_ids(name) == i
        assert getattr(tokenizer, f"{name.strip('[]').lower()}_token_id") == i


@pytest.mark.slow
def test_reviews_are_segmented_the_same_except_for_ties(tmp_path: Path) -> None:
    packed = shared_data("nsmc/ratings_test.txt.xz").read_bytes()
    text = io.StringIO(lzma.decompress(packed).decode(), newline="")
    rows = csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
    lines = [row["document"] for row, _ in zip(rows, range(4_000), strict=False)]
    for kind, ties in (("unigram", 15), ("bpe", 0)):
        config = VocabularyConfig(kind=kind, size=2_000)
        vocabulary = SentencePieceTokenizer.train(lines[:2_000], config)
        assert_same(vocabulary, opened(vocabulary, tmp_path), lines, ties)


TEXTS = ["이 영화 정말 재미있어요", "", "연기가 " * 20]


def test_special_tokens_before_and_after_a_text(tmp_path: Path) -> None:
    vocabulary = trained("unigram")
    rows = Ragged.from_lists(vocabulary.encode_batch(TEXTS))
    texts = build_inputs(vocabulary, rows, None, 16)
    sources = build_source(vocabulary, rows, 16)
    for frames, expected in ((CLASSIFICATION_TEMPLATE, texts), (SEQUENCE_TEMPLATE, sources)):
        found = opened(vocabulary, tmp_path, frames, 16)(TEXTS, truncation=True)
        assert found["input_ids"] == [row.tolist() for row in expected]
        assert "token_type_ids" not in found
    continued = opened(vocabulary, tmp_path, CAUSAL_LM_TEMPLATE)(TEXTS[:2])["input_ids"]
    assert continued == [[vocabulary.bos_id, *row] for row in vocabulary.encode_batch(TEXTS[:2])]


def test_token_type_ids_of_pairs(tmp_path: Path) -> None:
    vocabulary = trained("unigram")
    firsts, seconds = ["이 영화", "", "연기가 " * 9], ["재미있어요", "음악이", "좋다"]
    both = [Ragged.from_lists(vocabulary.encode_batch(texts)) for texts in (firsts, seconds)]
    expected = build_inputs(vocabulary, both[0], both[1], 24)
    tokenizer = opened(vocabulary, tmp_path, CLASSIFICATION_TEMPLATE, 24, token_types=True)
    found = tokenizer(firsts, seconds, truncation=True)
    assert found["input_ids"] == [row.tolist() for row in expected]
    sep = vocabulary.sep_id
    for ids, segments in zip(found["input_ids"], found["token_type_ids"], strict=True):
        first = ids.index(sep) + 1
        assert segments == [0] * first + [1] * (len(ids) - first)


def test_a_typed_special_piece_is_special_in_transformers(tmp_path: Path) -> None:
    vocabulary = trained("unigram")
    tokenizer = opened(vocabulary, tmp_path)
    assert vocabulary.mask_id not in vocabulary.encode("영화 [MASK]")
    assert vocabulary.mask_id in tokenizer("영화 [MASK]")["input_ids"]
    spelled = trained("unigram-bytes")  # a byte has no other name there
    byte = spelled.id("<0x41>")
    assert byte not in spelled.encode("<0x41>")
    assert byte in plain(opened(spelled, tmp_path), ["<0x41>"])[0]
    assert tokenizer.padding_side == "right"
    batch = tokenizer(["영화", "영화 음악"], padding=True)
    assert batch["input_ids"][0][-1] == vocabulary.pad_id
    assert batch["attention_mask"][0][-1] == 0


@pytest.mark.parametrize(
    "options",
    [{}, {"model_type": "word", "vocab_size": 40}, {"normalization_rule_name": "nfkc"}],
)
def test_other_models_are_refused(options: dict[str, Any]) -> None:
    vocabulary = SentencePieceTokenizer(sentencepiece_model(**options))
    with raises(InputError, "tokenizer.not_exported"):
        tokenizer_files(vocabulary, SEQUENCE_TEMPLATE, 16, token_types=False)
