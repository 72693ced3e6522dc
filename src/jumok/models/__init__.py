"""Whole models: the towers of figure 1 and what is asked of them."""

from jumok.models.config import TransformerConfig
from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import (
    EncoderDecoderClassifier,
    LanguageModel,
    MaskedLanguageModel,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
)
from jumok.models.pooling import pool

__all__ = [
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "EncoderDecoderClassifier",
    "LanguageModel",
    "MaskedLanguageModel",
    "ReplacedTokenDetector",
    "TextClassifier",
    "TokenClassifier",
    "TransformerConfig",
    "pool",
]
