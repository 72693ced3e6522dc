"""Transformers you can read, train and see.

    import jumok
    model = jumok.load("runs/nsmc")
    model("이 영화 정말 재미있어요")

Importing jumok is quick: each name is fetched when it is first asked for.
"""

from importlib import import_module, metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumok.errors import JumokError
    from jumok.interpret.trace import Trace
    from jumok.interpret.tracing import trace
    from jumok.models import (
        Decoder,
        Encoder,
        EncoderDecoder,
        LanguageModel,
        MaskedLanguageModel,
        TextClassifier,
        TokenClassifier,
        TransformerConfig,
    )
    from jumok.nn.hooks import record
    from jumok.tasks.pipeline.outputs import Estimate, Prediction, Rewriting, Tagging
    from jumok.tasks.pipeline.pipeline import Loaded
    from jumok.tasks.runs.load import load
    from jumok.text.sentencepiece import SentencePieceVocabulary

__version__ = metadata.version("jumok")

__all__ = [
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "Estimate",
    "JumokError",
    "LanguageModel",
    "Loaded",
    "MaskedLanguageModel",
    "Prediction",
    "Rewriting",
    "SentencePieceVocabulary",
    "Tagging",
    "TextClassifier",
    "TokenClassifier",
    "Trace",
    "TransformerConfig",
    "__version__",
    "load",
    "record",
    "trace",
]

_HOMES = {
    "Decoder": "jumok.models",
    "Encoder": "jumok.models",
    "EncoderDecoder": "jumok.models",
    "Estimate": "jumok.tasks.pipeline.outputs",
    "JumokError": "jumok.errors",
    "LanguageModel": "jumok.models",
    "Loaded": "jumok.tasks.pipeline.pipeline",
    "MaskedLanguageModel": "jumok.models",
    "Prediction": "jumok.tasks.pipeline.outputs",
    "Rewriting": "jumok.tasks.pipeline.outputs",
    "SentencePieceVocabulary": "jumok.text.sentencepiece",
    "Tagging": "jumok.tasks.pipeline.outputs",
    "TextClassifier": "jumok.models",
    "TokenClassifier": "jumok.models",
    "Trace": "jumok.interpret.trace",
    "TransformerConfig": "jumok.models",
    "load": "jumok.tasks.runs.load",
    "record": "jumok.nn.hooks",
    "trace": "jumok.interpret.tracing",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'jumok' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
