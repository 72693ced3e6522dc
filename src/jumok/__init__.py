"""Transformers you can read, train and see.

    import jumok
    model = jumok.load("runs/nsmc")
    model("이 영화 정말 재미있어요")

Importing jumok is fast: each name is imported on first access.
"""

from jumok.lazy import lazy_names

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
    from jumok.registry import register
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
    "register",
    "resume",
    "trace",
    "train",
]

_get, __dir__ = lazy_names(__name__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("jumok")
    if name == "load":
        from jumok.extras import import_attribute, is_installed

        if not is_installed("torch"):
            return import_attribute("jumok", "jumok.engine.without_torch", name)
    return _get(name)
