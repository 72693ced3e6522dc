"""An optimized model of texts in the C++ kernel: from ids to the outputs of its head."""

from torch import nn

from jumok.models import PairClassifier, SentenceEncoder, TextClassifier
from jumok.native.encoder import NativeEncoder
from jumok.native.session import Head
from jumok.native.torch_weights import TensorArrays, activation_name


def attach_session(fast: nn.Module, model: nn.Module, encoder: NativeEncoder) -> None:
    """Give the optimized copy `fast` of a model of texts its session."""
    if not encoder.reads_ids:
        return
    head = head_of(model)
    if head is not None:
        encoder.session.add_head(head, TensorArrays(model))
    fast.session = encoder.session  # type: ignore[assignment]


def head_of(model: nn.Module) -> Head | None:
    """The head of a model with one output per text; None for others."""
    if type(model) is SentenceEncoder:
        return Head(model.pooling, normalize=True)
    if type(model) not in (TextClassifier, PairClassifier):
        return None
    assert isinstance(model, TextClassifier | PairClassifier)
    pooling = model.pooling if isinstance(model, TextClassifier) else "compare"
    if isinstance(model.pooler, nn.Identity):
        return Head(pooling, "output")
    assert isinstance(model.pooler, nn.Sequential)
    norm = "pooler.2" if len(model.pooler) > 2 else ""
    return Head(pooling, "output", "pooler.0", activation_name(model.pooler[1]), norm=norm)
