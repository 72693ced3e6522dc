"""Whole models: the encoder and decoder of figure 1 and the heads of each task."""

from typing import TYPE_CHECKING

from jumok.extras import import_attribute

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

_NAMES = {  # imported on first access: a config needs no torch
    "character_classifier": (
        "CharacterClassifier",
        "Characters",
    ),
    "config": ("TransformerConfig",),
    "decoder": ("Decoder",),
    "encoder": ("Encoder",),
    "encoder_decoder": ("EncoderDecoder",),
    "heads": (
        "EncoderDecoderClassifier",
        "LanguageModel",
        "MaskedLanguageModel",
        "PairClassifier",
        "ReplacedTokenDetector",
        "SentenceEncoder",
        "TextClassifier",
        "TokenClassifier",
        "text_classifier",
    ),
    "pooling": ("pool",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'jumok.models' has no attribute {name!r}")
    return import_attribute("jumok.models", f"jumok.models.{_MODULES[name]}", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
