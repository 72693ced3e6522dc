"""Strings to ids and back: vocabularies, their training, sampling, streaming and measuring."""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.text.normalization import compose_hangul, nfc
    from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
    from jumok.text.streaming import StreamingDecoder
    from jumok.text.tokenizer import SPECIAL_PIECES, Tokenizer
    from jumok.text.vocabulary_report import LossyText, VocabularyReport, measure_vocabulary

__all__ = [
    "SPECIAL_PIECES",
    "LossyText",
    "SentencePieceTokenizer",
    "StreamingDecoder",
    "Tokenizer",
    "VocabularyConfig",
    "VocabularyReport",
    "compose_hangul",
    "measure_vocabulary",
    "nfc",
]

__getattr__, __dir__ = lazy_names(__name__)
