"""Transformers you can read, train and see.

    import jumok
    model = jumok.load("runs/nsmc")
    model("이 영화 정말 재미있어요")

Importing jumok is fast: each name is imported on first access.
"""

TYPE_CHECKING = False  # typing would be imported from the current folder by `python -m jumok`

if TYPE_CHECKING:
    from jumok.errors import JumokError
    from jumok.fonts import plot_style
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
        MultiLabelPrediction,
        Prediction,
        RegressionOutput,
        TokenClassification,
    )
    from jumok.tasks.pipeline.pipeline import Pipeline
    from jumok.tasks.recipe.recipe import Recipe
    from jumok.tasks.runs.api import Run, evaluate, resume, train
    from jumok.tasks.runs.history import History
    from jumok.tasks.runs.load import load
    from jumok.text.sentencepiece import SentencePieceTokenizer
    from jumok.training.callbacks import Callback, TrainingStatus

    __version__: str

__all__ = [
    "Callback",
    "Decoder",
    "Encoder",
    "EncoderDecoder",
    "GeneratedText",
    "History",
    "JumokError",
    "LanguageModel",
    "MaskedLanguageModel",
    "MultiLabelPrediction",
    "Pipeline",
    "Prediction",
    "Recipe",
    "RegressionOutput",
    "Run",
    "SentencePieceTokenizer",
    "TextClassifier",
    "TokenClassification",
    "TokenClassifier",
    "Trace",
    "TrainingStatus",
    "TransformerConfig",
    "__version__",
    "evaluate",
    "load",
    "plot_style",
    "record",
    "resume",
    "trace",
    "train",
]

_MODULES = {
    "Callback": "jumok.training.callbacks",
    "Decoder": "jumok.models",
    "Encoder": "jumok.models",
    "EncoderDecoder": "jumok.models",
    "GeneratedText": "jumok.tasks.pipeline.outputs",
    "History": "jumok.tasks.runs.history",
    "JumokError": "jumok.errors",
    "LanguageModel": "jumok.models",
    "MaskedLanguageModel": "jumok.models",
    "MultiLabelPrediction": "jumok.tasks.pipeline.outputs",
    "Pipeline": "jumok.tasks.pipeline.pipeline",
    "Prediction": "jumok.tasks.pipeline.outputs",
    "Recipe": "jumok.tasks.recipe.recipe",
    "RegressionOutput": "jumok.tasks.pipeline.outputs",
    "Run": "jumok.tasks.runs.api",
    "SentencePieceTokenizer": "jumok.text.sentencepiece",
    "TextClassifier": "jumok.models",
    "TokenClassification": "jumok.tasks.pipeline.outputs",
    "TokenClassifier": "jumok.models",
    "Trace": "jumok.interpret.trace",
    "TrainingStatus": "jumok.training.callbacks",
    "TransformerConfig": "jumok.models",
    "evaluate": "jumok.tasks.runs.api",
    "load": "jumok.tasks.runs.load",
    "plot_style": "jumok.fonts",
    "record": "jumok.nn.hooks",
    "resume": "jumok.tasks.runs.api",
    "trace": "jumok.interpret.tracing",
    "train": "jumok.tasks.runs.api",
}
_WITHOUT_TORCH = {"load": "jumok.engine.without_torch"}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("jumok")
    if name not in _MODULES:
        raise AttributeError(f"module 'jumok' has no attribute {name!r}")
    from jumok.extras import import_attribute, is_installed

    module = _MODULES[name]
    if name in _WITHOUT_TORCH and not is_installed("torch"):
        module = _WITHOUT_TORCH[name]
    return import_attribute("jumok", module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
