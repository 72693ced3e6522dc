"""Optimize a model for inference: a copy whose encoder runs faster on the CPU.

    fast = optimize(model, "bfloat16")
    fast(ids, mask)                          # close to model(ids, mask)

Only encoders and the large linear maps of heads are replaced. Decoders do not change:
`jumok.native` decodes with them.
"""

import torch
from torch import nn

from jumok.config_io import check_choice
from jumok.device import has_fast_bfloat16
from jumok.errors import InputError, Message
from jumok.inference.fast_stacks import NativeStack, OneThreadEmbedding, TorchStack
from jumok.inference.row_by_row import RowByRow
from jumok.inference.text_session import attach_session
from jumok.models import (
    CharacterClassifier,
    Encoder,
    PairClassifier,
    TextClassifier,
    TokenClassifier,
)
from jumok.native import KernelError, NativeEncoder, WeightPrecision
from jumok.native.choice import check_faster, warn_once
from jumok.native.measured import is_compiled
from jumok.native.quantize import QuantizedLinear
from jumok.nn import (
    Dropout,
    GatedFeedForward,
    HookPoint,
    MultiHeadAttention,
    PointwiseConv,
    PositionwiseFeedForward,
    RelativePositionBias,
    ResidualNorm,
    RotaryPositions,
    TransformerLayer,
    TransformerStack,
)
from jumok.nn.disentangled import DisentangledAttention, RelativeEmbedding
from jumok.nn.hooks import shared_copy
from jumok.nn.stack import LayerList

_ROW_HEADS = (TextClassifier, PairClassifier, TokenClassifier, CharacterClassifier)

MIN_QUANTIZED_OUTPUTS = 256  # smaller head maps stay in float32: quantizing them saves no time


def optimize(model: nn.Module, precision: WeightPrecision = "float32") -> nn.Module:
    """A copy of the model in eval mode that runs faster on the CPU; the model does not change.

    Supports an `Encoder` and every model of `jumok.models` that has one. The copy is called like
    the model, but its layers have no gradients and call no hooks. Do not save the copy: save the
    model. Embeddings are shared with the model; later changes of its layers do not change the copy.

    The C++ kernel computes the layers where it is available: in float32 if one is compiled. Then
    masks may hide nothing but padding, whose hidden states are 0, and hidden states do not depend
    on the batch. Without it PyTorch computes them in the same precision.

    float32: differs only in the order of summation (1e-5). bfloat16: rounds weights and activations
    between layers to 8 bits. int8: quantizes weights per output and inputs per token to one byte,
    and computes the rest in float32. `benchmarks/encoder_speed.py` measures errors and speed.

    Raises InputError if the model is not supported.

    >>> from jumok.models import TextClassifier, TransformerConfig
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model, ids = TextClassifier(config, n_labels=2).eval(), torch.tensor([[1, 2, 3]])
    >>> torch.allclose(optimize(model)(ids), model(ids), atol=1e-5)
    True
    """
    check_choice("precision", precision, WeightPrecision)
    reason = unsupported_reason(model)
    if reason is not None:
        raise InputError(reason)
    fast = shared_copy(model).eval()
    for module in list(fast.modules()):
        if isinstance(module, Encoder):
            stack = _stack(module, precision)
            module.stack = stack  # type: ignore[assignment]
            if isinstance(stack, NativeStack) and not hasattr(model, "decoder"):
                attach_session(fast, model, stack.encoder)
            if has_invariant_states(module):  # no projection, which needs all threads
                module.embedding.__class__ = OneThreadEmbedding
    if precision == "int8" and not hasattr(fast, "decoder"):
        _quantize_large_maps(fast)
    is_native = any(isinstance(each, NativeStack) for each in fast.modules())
    if is_native and isinstance(fast, _ROW_HEADS):
        fast.head = RowByRow(fast.head)  # type: ignore[method-assign, assignment]
    return fast


def is_batch_invariant(model: nn.Module) -> bool:
    """Whether the logits of a text have the same bits alone and in any batch.

    True of optimized classifiers of texts, tokens or characters with `has_invariant_states`.
    """
    return isinstance(getattr(model, "head", None), RowByRow) and has_invariant_states(model)


def has_invariant_states(model: nn.Module) -> bool:
    """Whether the hidden states of a text have the same bits alone and in any batch.

    True of encoders whose layers are computed by the C++ kernel, unless the embedding has a
    projection, which PyTorch computes.
    """
    encoder = getattr(model, "encoder", model)
    return (
        isinstance(encoder, Encoder)
        and isinstance(encoder.stack, NativeStack)
        and isinstance(encoder.embedding.projection, nn.Identity)
    )


def unsupported_reason(model: nn.Module) -> Message | None:
    """Why this model cannot be optimized, in one sentence; None if it can.

    >>> print(unsupported_reason(nn.Linear(1, 1)))
    the model must have an encoder, got Linear; use the unoptimized model
    """
    encoders = [module for module in model.modules() if isinstance(module, Encoder)]
    if not encoders:
        return Message(
            "inference.no_encoder",
            "the model must have an encoder, got {kind}; use the unoptimized model",
            kind=type(model).__name__,
        )
    if not all(len(encoder.stack.layers) for encoder in encoders if _is_plain(encoder)):
        return Message(
            "inference.no_layers",
            "the encoder must have layers, got none; use the unoptimized model",
        )
    device = next(model.parameters()).device
    if device.type != "cpu":
        return Message(
            "inference.not_on_cpu",
            'the model must be on the CPU, got {device}; load it with device="cpu", or use the '
            "unoptimized model",
            device=str(device),
        )
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks:
            return Message(
                "inference.hooks",
                "the model must have no hooks, got one on {name}: an optimized model does not "
                "call them; use the unoptimized model",
                name=name,
            )
    for encoder in encoders:
        if not _is_plain(encoder):
            continue
        for extension in encoder.stack.extensions():
            if extension not in _COMPUTED:
                return Message(
                    "inference.unsupported_encoder",
                    "an encoder with {extension} cannot be optimized; use the unoptimized model",
                    extension=extension,
                )
    for module in (module for encoder in encoders for module in encoder.stack.modules()):
        if type(module) not in _SUPPORTED:
            return Message(
                "inference.unsupported_module",
                "a layer has {kind}, which cannot be optimized; use the unoptimized model",
                kind=type(module).__name__,
            )
    return None


def _is_plain(encoder: Encoder) -> bool:
    return type(encoder.stack) is TransformerStack


_COMPUTED = (  # of what the layers may have beyond those of the paper and of BERT
    *("local layers", "a rope base or scaling"),
    *("norms without a bias", "a first layer without a norm", "disentangled attention"),
)

_SUPPORTED = (
    *(TransformerStack, TransformerLayer, ResidualNorm, MultiHeadAttention),
    *(DisentangledAttention, RelativeEmbedding),
    *(PositionwiseFeedForward, GatedFeedForward, PointwiseConv, RelativePositionBias),
    *(Dropout, HookPoint, LayerList, nn.Identity, nn.Linear, nn.Embedding, RotaryPositions),
    *(nn.LayerNorm, nn.RMSNorm, nn.ReLU, nn.GELU, nn.SiLU),
)


def _stack(encoder: Encoder, precision: WeightPrecision) -> NativeStack | TorchStack:
    reason = "no kernel for float32 is compiled"
    if precision != "float32" or is_compiled(precision):
        try:
            check_faster(precision)
            native = NativeEncoder(
                *(encoder.stack, encoder.embedding.max_length, precision, encoder.embedding)
            )
            return NativeStack(native, precision)
        except KernelError as error:
            reason = str(error)
            if precision == "int8":
                warn_once(
                    Message(
                        "inference.int8_without_kernel",
                        "precision int8 may be slower than float32 without the C++ kernel, which "
                        "is not used: {error}",
                        error=error,
                    )
                )
    if precision == "bfloat16" and not has_fast_bfloat16(torch.device("cpu")):
        warn_once(
            Message(
                "inference.slow_bfloat16",
                "precision bfloat16 is slower than float32 on this processor, which has no "
                "instructions for it; use float32 or int8",
            )
        )
    return TorchStack(encoder.stack, precision, reason)


def _quantize_large_maps(model: nn.Module) -> None:
    """Quantize the large linear maps of heads, such as that to a vocabulary."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear and child.out_features >= MIN_QUANTIZED_OUTPUTS:
                setattr(parent, name, QuantizedLinear(child))
