"""Transformers you can read, train and see.

    import jumok
    model = jumok.load("runs/nsmc")
    model("이 영화 정말 재미있어요")

Importing jumok is fast: each name is imported on first access.
"""

from importlib import import_module
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

    __version__: str

__all__ = [
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "GeneratedText",
    "JumokError",
    "LanguageModel",
    "MaskedLanguageModel",
    "Pipeline",
    "Prediction",
    "RegressionOutput",
    "SentencePieceTokenizer",
    "TextClassifier",
    "TokenClassification",
    "TokenClassifier",
    "Trace",
    "TransformerConfig",
    "__version__",
    "load",
    "record",
    "trace",
]

_MODULES = {
    "Decoder": "jumok.models",
    "Encoder": "jumok.models",
    "EncoderDecoder": "jumok.models",
    "GeneratedText": "jumok.tasks.pipeline.outputs",
    "JumokError": "jumok.errors",
    "LanguageModel": "jumok.models",
    "MaskedLanguageModel": "jumok.models",
    "Pipeline": "jumok.tasks.pipeline.pipeline",
    "Prediction": "jumok.tasks.pipeline.outputs",
    "RegressionOutput": "jumok.tasks.pipeline.outputs",
    "SentencePieceTokenizer": "jumok.text.sentencepiece",
    "TextClassifier": "jumok.models",
    "TokenClassification": "jumok.tasks.pipeline.outputs",
    "TokenClassifier": "jumok.models",
    "Trace": "jumok.interpret.trace",
    "TransformerConfig": "jumok.models",
    "load": "jumok.tasks.runs.load",
    "record": "jumok.nn.hooks",
    "trace": "jumok.interpret.tracing",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("jumok")
    if name not in _MODULES:
        raise AttributeError(f"module 'jumok' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
