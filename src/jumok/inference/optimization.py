"""Speed as a transformation: a copy of a model whose encoder reads faster and answers the same.

    fast = optimized(model, "bfloat16")
    fast(ids, real)                          # as model(ids, real), some thousandths apart

Only the encoder and the linear maps of heads are changed, and only on the CPU. Decoders stay as
they are: `jumok.native` writes with them.
"""

import logging

import torch
from torch import nn

from jumok.errors import InputError
from jumok.inference.linear import LinearFactory, linear_factory, quantized_linear
from jumok.inference.native import NativeBackend
from jumok.inference.unpadded_stack import StackBackend, TorchBackend, UnpaddedStack
from jumok.models import Encoder
from jumok.native import KernelError, NativeEncoder, WeightPrecision
from jumok.nn import (
    Dropout,
    GatedFeedForward,
    HookPoint,
    MultiHeadAttention,
    PositionwiseFeedForward,
    RelativePositionBias,
    ResidualNorm,
    RotaryPositions,
    TransformerLayer,
    TransformerStack,
)
from jumok.nn.hooks import shared_copy

MIN_QUANTIZED_OUTPUTS = (
    256  # a head's map with fewer outputs stays in float32: it decides, and takes no time
)

logger = logging.getLogger(__name__)

LINEAR_FACTORIES: dict[WeightPrecision, LinearFactory] = {
    "float32": linear_factory(torch.float32),
    "bfloat16": linear_factory(torch.bfloat16),
    "int8": quantized_linear,
}


def optimize(model: nn.Module, precision: WeightPrecision = "float32") -> nn.Module:
    """A copy of the model that reads fast, in eval mode; the model itself is left alone.

    Takes every model of `jumok.models` that has an encoder, and an `Encoder` alone. It is called
    as before, but gradients do not pass, nobody can watch its attention, and hidden states of
    padding are 0. It is not for saving: save the model it was made of. Embeddings are shared with
    the model, linear maps are packed anew and do not follow later changes.

    float32: the plain numbers but for the order of sums (1e-5). bfloat16: weights and what passes
    between the layers rounded to 8 bits. int8: one byte a weight, each token's inputs rounded to
    a byte by a scale of its own, the rest float32; in the C++ kernel, or slower where there is no
    compiler. Errors and speeds: `benchmarks/encoder_speed.py` measures them.

    Raises InputError, in a sentence, for a model it does not know.

    >>> from jumok.models import TextClassifier, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, ids = TextClassifier(config, n_labels=2).eval(), torch.tensor([[1, 2, 3]])
    >>> torch.allclose(optimized(model)(ids), model(ids), atol=1e-5)
    True
    """
    if precision not in LINEAR_FACTORIES:
        raise InputError(
            f"precision {precision!r} is unknown; give one of {', '.join(map(repr, LINEAR_FACTORIES))}"
        )
    reason = unsupported_reason(model)
    if reason is not None:
        raise InputError(reason)
    fast = shared_copy(model).eval()
    for part in list(fast.modules()):
        if isinstance(part, Encoder):
            part.stack = UnpaddedStack(_backend(part, precision))  # type: ignore[assignment]
    if not hasattr(fast, "decoder"):
        _replace_linears(fast, LINEAR_FACTORIES[precision])
    return fast


def unsupported_reason(model: nn.Module) -> str | None:
    """Why this model cannot be optimized, in a sentence; None when it can.

    >>> print(obstacle(nn.Linear(1, 1)))
    a Linear came, which has no encoder; use the plain model
    """
    encoders = [part for part in model.modules() if isinstance(part, Encoder)]
    if not encoders:
        return f"a {type(model).__name__} came, which has no encoder; use the plain model"
    if next(model.parameters()).device.type != "cpu":
        return 'the model is not on the CPU; load it with device="cpu", or use the plain model'
    for name, part in model.named_modules():
        if part._forward_hooks or part._forward_pre_hooks:
            return f"{name} is watched, and a fast model shows nothing; use the plain model"
    for part in (part for encoder in encoders for part in encoder.stack.modules()):
        if type(part) not in _SUPPORTED:
            return (
                f"a layer has a {type(part).__name__}, which a fast model does not know; use the "
                "plain model"
            )
    return None


_SUPPORTED = (
    *(TransformerStack, TransformerLayer, ResidualNorm, MultiHeadAttention),
    *(PositionwiseFeedForward, GatedFeedForward, RelativePositionBias, RotaryPositions),
    *(Dropout, HookPoint, nn.ModuleList, nn.Identity, nn.Linear, nn.Embedding),
    *(nn.LayerNorm, nn.RMSNorm, nn.ReLU, nn.GELU, nn.SiLU),
)


def _backend(encoder: Encoder, precision: WeightPrecision) -> StackBackend:
    if precision == "int8":
        try:
            return NativeBackend(
                NativeEncoder(encoder.stack, encoder.embedding.max_length, precision)
            )
        except KernelError as error:
            logger.warning("int8 without the C++ kernel, and slower: %s", error)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    return TorchBackend(encoder.stack, LINEAR_FACTORIES[precision], dtype)


def _replace_linears(model: nn.Module, make: LinearFactory) -> None:
    """Plain linear maps of heads and embeddings become those that `make` makes."""
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if type(part) is nn.Linear:
                fitting = (
                    make
                    if part.out_features >= MIN_QUANTIZED_OUTPUTS
                    else LINEAR_FACTORIES["float32"]
                )
                setattr(parent, name, fitting(part, None))
