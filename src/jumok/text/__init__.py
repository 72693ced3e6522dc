"""Strings to ids and back: vocabularies, their training, sampling, streaming and measuring."""

from jumok.text.normalization import compose_hangul, nfc
from jumok.text.report import Loss, VocabularyReport, report
from jumok.text.sentencepiece import SentencePieceVocabulary, VocabularyConfig
from jumok.text.streaming import StreamingDecoder
from jumok.text.vocabulary import SPECIAL_PIECES, Vocabulary

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
