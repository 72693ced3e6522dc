"""Strings to ids and back: vocabularies, their training, sampling, streaming and measuring."""

from jumok.text.normalization import compose_hangul, nfc
from jumok.text.sentencepiece import SentencePieceVocabulary, VocabularyConfig
from jumok.text.streaming import StreamingDecoder
from jumok.text.tokenizer import SPECIAL_PIECES, Vocabulary
from jumok.text.vocabulary_report import Loss, VocabularyReport, report

__all__ = [
    "SPECIAL_PIECES",
    "Loss",
    "SentencePieceVocabulary",
    "StreamingDecoder",
    "Vocabulary",
    "VocabularyConfig",
    "VocabularyReport",
    "compose_hangul",
    "nfc",
    "report",
]
