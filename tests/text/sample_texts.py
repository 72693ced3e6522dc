"""Texts and vocabularies that the tests of `jumok.text` share."""

import io
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Literal

import sentencepiece

from jumok.text import SentencePieceTokenizer, VocabularyConfig

SENTENCES = (
    "아 더빙.. 진짜 짜증나네요 목소리",
    "흠...포스터보고 초딩영화줄....오버연기조차 가볍지 않구나",
    "교도소 이야기구먼 ..솔직히 재미는 없다..평점 조정",
    "이 영화 정말 재미있어요 ㅋㅋㅋ 또 볼래요 ㅠㅠ",
    "㈜한글과컴퓨터 … 2026년 11월 20일, 값은 3,500원!",
    "막 걸음마 뗀 3세부터 초등학교 1학년생인 8살용영화.ㅋㅋㅋ...별반개도 아까움.",
    "원작의 긴장감을 제대로 살려내지못했다. [CLS] [MASK] [P A D S E U N K B O C L M] 라고 쓴 글",
    "The Transformer, based solely on attention (주목), is good 👍",
)

STEMS = ["영화", "배우", "연기", "음악", "이야기", "감독", "목소리", "포스터", "평점", "원작"]
ENDINGS = [
    "가",
    "이",
    "는",
    "은",
    "를",
    "을",
    "도",
    "만",
    "와",
    "과",
    "에서",
    "에게",
    "처럼",
    "보다",
]
CORPUS = (
    *SENTENCES,
    *(f"{stem}{ending} {stem} 진짜{ending}" for stem in STEMS for ending in ENDINGS),
)


@cache
def trained(
    kind: Literal["unigram", "bpe"] = "unigram", byte_fallback: bool = False
) -> SentencePieceTokenizer:
    """A small vocabulary of the sentences above."""
    size = 200 + 256 * byte_fallback
    config = VocabularyConfig(
        kind=kind, size=size, byte_fallback=byte_fallback, character_coverage=1.0
    )
    return SentencePieceTokenizer.train(CORPUS, config)


def sentencepiece_model(
    texts: Iterable[str] = CORPUS, **options: str | int | Sequence[str]
) -> bytes:
    """A model as others train it: SentencePiece's own NMT-NFKC rule and these options."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        minloglevel=2,
        num_threads=1,
        **({"vocab_size": 190, "character_coverage": 1.0} | options),
    )
    return model.getvalue()


@cache
def kowiki_like() -> bytes:
    """As the Korean tutorials do: [PAD] 0, [UNK] 1, [BOS] 2, [EOS] 3, the rest user-defined."""
    return sentencepiece_model(
        pad_id=0,
        pad_piece="[PAD]",
        unk_id=1,
        unk_piece="[UNK]",
        bos_id=2,
        bos_piece="[BOS]",
        eos_id=3,
        eos_piece="[EOS]",
        user_defined_symbols=["[SEP]", "[CLS]", "[MASK]"],
    )
