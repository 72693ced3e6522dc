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
    from jumok.tasks.pipeline.outputs import (
        GeneratedText,
        Prediction,
        RegressionOutput,
        TokenClassification,
    )
    from jumok.tasks.pipeline.pipeline import Pipeline
    from jumok.tasks.runs.load import load
    from jumok.text.sentencepiece import SentencePieceTokenizer

__version__ = metadata.version("jumok")

__all__ = [
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "RegressionOutput",
    "JumokError",
    "LanguageModel",
    "Pipeline",
    "MaskedLanguageModel",
    "Prediction",
    "GeneratedText",
    "SentencePieceTokenizer",
    "TokenClassification",
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
    "RegressionOutput": "jumok.tasks.pipeline.outputs",
    "JumokError": "jumok.errors",
    "LanguageModel": "jumok.models",
    "Pipeline": "jumok.tasks.pipeline.pipeline",
    "MaskedLanguageModel": "jumok.models",
    "Prediction": "jumok.tasks.pipeline.outputs",
    "GeneratedText": "jumok.tasks.pipeline.outputs",
    "SentencePieceTokenizer": "jumok.text.sentencepiece",
    "TokenClassification": "jumok.tasks.pipeline.outputs",
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
