"""Whole models: the encoder and decoder of figure 1 and the heads of each task."""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.models.character_classifier import CharacterClassifier, Characters
    from jumok.models.config import TransformerConfig
    from jumok.models.decoder import Decoder
    from jumok.models.encoder import Encoder
    from jumok.models.encoder_decoder import EncoderDecoder
    from jumok.models.heads import (
        EncoderDecoderClassifier,
        LanguageModel,
        MaskedLanguageModel,
        PairClassifier,
        ReplacedTokenDetector,
        SentenceEncoder,
        TextClassifier,
        TokenClassifier,
        text_classifier,
    )
    from jumok.models.pooling import pool

__all__ = [
    "CharacterClassifier",
    "Characters",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "EncoderDecoderClassifier",
    "LanguageModel",
    "MaskedLanguageModel",
    "PairClassifier",
    "ReplacedTokenDetector",
    "SentenceEncoder",
    "TextClassifier",
    "TokenClassifier",
    "TransformerConfig",
    "pool",
    "text_classifier",
]

__getattr__, __dir__ = lazy_names(__name__)  # imported on first access: a config needs no torch
