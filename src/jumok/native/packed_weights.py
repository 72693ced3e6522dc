"""Packed weights of the C++ kernel, uploaded under the names of kernel/transformer.h."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn

from jumok.errors import JumokError
from jumok.models.config import MAX_TABLE_POSITIONS
from jumok.models.weights import check_finite
from jumok.native.build import KernelError
from jumok.native.gguf_quantize import BlockName, quantize, scales
from jumok.native.library import OK, OUT_OF_MEMORY, ModelDims, library
from jumok.native.quantize import quantize_rows
from jumok.nn import RelativePositionBias, TransformerLayer
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.nn.norms import OffsetRMSNorm
from jumok.nn.stack import TransformerStack

WeightPrecision = Literal["float32", "bfloat16", "int8"]
DecoderPrecision = WeightPrecision | BlockName  # `NativeEncoder` has no blocks

# In the order of c_api.cpp.
PRECISIONS: tuple[DecoderPrecision, ...] = ("float32", "bfloat16", "int8", "q8_0", "q4_0")
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")  # order of kernel/vector_math.h

_ROWS_PER_UPLOAD = 256  # converted at a time, which avoids a second copy of a large matrix

LinearLike = nn.Linear | nn.Embedding | tuple[nn.Linear, ...]  # a tuple: outputs concatenated


class PackedWeights:
    """The kernel's own copy of weights. It is immutable, so deepcopy returns the same object.

    Raises KernelError if the kernel is not available.
    """

    def __init__(
        self,
        dims: ModelDims,
        precision: DecoderPrecision,
        on_packed: Callable[[Tensor], None] = lambda weight: None,
    ) -> None:
        if precision not in PRECISIONS:
            raise KernelError(
                "kernel.unknown_precision",
                "precision must be one of {precisions}, got {precision!r}",
                precisions=PRECISIONS,
                precision=precision,
            )
        self.precision, self.on_packed = precision, on_packed
        self.library = library()
        self.handle: int = self.library.jumok_create_model(
            ctypes.byref(dims), PRECISIONS.index(precision)
        )

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.library.jumok_free_model(self.handle)

    def __deepcopy__(self, memo: dict[int, object]) -> "PackedWeights":
        return self

    @property
    def bytes(self) -> int:
        """The memory of the packed weights."""
        return int(self.library.jumok_weight_bytes(self.handle))

    def upload_linear(self, name: str, linear: LinearLike) -> None:
        """Pack a linear map or an embedding table; JumokError when memory runs out."""
        parts = linear if isinstance(linear, tuple) else (linear,)
        weights = [part.weight.detach() for part in parts]  # (N, K) each
        biases = [getattr(part, "bias", None) for part in parts]
        outputs, inputs = sum(map(len, weights)), weights[0].shape[1]
        biased = any(bias is not None for bias in biases)
        status = self.library.jumok_allocate_linear(
            self.handle, name.encode(), outputs, inputs, biased
        )
        _check_status(status, name)
        first = 0
        for weight, bias in zip(weights, biases, strict=True):
            for start in range(0, len(weight), _ROWS_PER_UPLOAD):
                rows = slice(start, start + _ROWS_PER_UPLOAD)
                row_bias = None if bias is None else bias[rows]
                self._upload_rows(name, first + start, weight[rows], row_bias)
            first += len(weight)
            self.on_packed(weight)

    def _upload_rows(self, name: str, first: int, weight: Tensor, bias: Tensor | None) -> None:
        """Pack rows (n, K) of a linear map, starting at output `first`, with their biases (n)."""
        weight, scale = weight.cpu(), None
        if self.precision == "int8":
            check_finite({name: weight}, "a packed model")
            packed, scale = quantize_rows(weight)
        elif self.precision in ("q8_0", "q4_0"):
            check_finite({name: weight}, "a packed model")
            blocks = quantize(weight.float().numpy(), self.precision)
            packed = torch.from_numpy(blocks)
            halves = torch.from_numpy(scales(blocks, self.precision))
            check_finite({name: halves}, "a packed model")  # the scales of huge weights are not
        else:
            packed = weight.to(getattr(torch, self.precision))
            check_finite({name: packed}, "a packed model")  # a huge float32 is not in bfloat16
        packed = packed.contiguous()
        if bias is not None:
            bias = bias.detach().float().cpu().contiguous()
            check_finite({f"{name}.bias": bias}, "a packed model")
        status = self.library.jumok_set_rows(
            *(self.handle, name.encode(), first, len(packed)),
            *(_address(packed), _address(scale), _address(bias)),
        )
        assert status == OK, name

    def set_decoder_layer(self, layer: int, window: int, rotary: int) -> None:
        """The window of a decoder layer (0: none); rotary is 0 none, 1 shared, 2 local."""
        self.library.jumok_set_decoder_layer(self.handle, layer, window, rotary)

    def upload_vector(self, name: str, vector: Tensor) -> None:
        """Copy a vector or a table that stays in float32."""
        values = vector.detach().float().cpu().contiguous()
        check_finite({name: values}, "a packed model")
        status = self.library.jumok_set_vector(
            self.handle, name.encode(), values.numel(), _address(values)
        )
        _check_status(status, name)


def _check_status(status: int, name: str) -> None:
    if status == OUT_OF_MEMORY:
        raise JumokError(
            "kernel.out_of_memory_in_packing",
            "memory ran out while the weights of {name} were packed; free memory, or use a "
            "smaller precision",
            name=name,
        )
    assert status == OK, name


def layers_of(stack: TransformerStack) -> list[TransformerLayer]:
    """The layers of a stack."""
    return list(stack.layers)  # type: ignore[arg-type]


def layer_dims(layer: TransformerLayer) -> dict[str, int | float]:
    """The fields of `ModelDims` that one layer determines, read from its modules."""
    attention, residual_norm = layer.self_attention, layer.self_attention_norm
    has_norm = not isinstance(residual_norm.norm, nn.Identity)
    norm: Any = residual_norm.norm if has_norm else residual_norm.sublayer_norm
    return {
        "n_heads": attention.n_heads,
        "n_kv_heads": attention.n_kv_heads,
        "d_head": attention.query.out_features // attention.n_heads,
        "d_ff": layer.feed_forward.up.out_features,
        "cross": layer.cross_attention is not None,
        "activation": ACTIVATIONS.index(_activation(layer.feed_forward)),
        "gated": isinstance(layer.feed_forward, GatedFeedForward),
        "rms": isinstance(norm, nn.RMSNorm),
        "norm_first": residual_norm.norm_first,
        "sublayer_norm": not isinstance(residual_norm.sublayer_norm, nn.Identity),
        "qk_norm": not isinstance(attention.query_norm, nn.Identity),
        "norm_eps": norm.eps,
        "attention_scale": attention.scale,
    }


def _activation(feed_forward: PositionwiseFeedForward) -> str:
    match feed_forward.activation:
        case nn.ReLU():
            return "relu"
        case nn.GELU(approximate="tanh"):
            return "gelu_tanh"
        case nn.GELU():
            return "gelu"
        case _:
            return "silu"


def stack_linears(side: str, stack: TransformerStack) -> Iterator[tuple[str, LinearLike]]:
    """Every linear map of a stack, by name."""
    for index, layer in enumerate(layers_of(stack)):
        prefix = f"{side}.{index}."
        attention, cross, feed_forward = (
            layer.self_attention,
            layer.cross_attention,
            layer.feed_forward,
        )
        yield prefix + "query_key_value", (attention.query, attention.key, attention.value)
        yield prefix + "output", attention.output
        if isinstance(cross, MultiHeadAttention):
            yield prefix + "cross_query", cross.query
            yield prefix + "cross_key_value", (cross.key, cross.value)
            yield prefix + "cross_output", cross.output
        yield prefix + "up", feed_forward.up
        if isinstance(feed_forward, GatedFeedForward):
            yield prefix + "gate", feed_forward.gate
        yield prefix + "down", feed_forward.down


def table_positions(max_length: int) -> int:
    """The positions that the kernel's tables have: all that a model claims, up to 131,072.

    A file of 100 kB may claim 2^31 positions, whose tables would take gigabytes.
    """
    return min(max_length, MAX_TABLE_POSITIONS)


def stack_vectors(
    side: str, stack: TransformerStack, max_length: int
) -> Iterator[tuple[str, Tensor]]:
    """The norms of a stack and its position tables for `max_length` positions, by name."""
    yield from norm_vectors(f"{side}.norm", stack.norm)
    for index, layer in enumerate(layers_of(stack)):
        prefix = f"{side}.{index}."
        yield from norm_vectors(prefix + "self_attention_norm", layer.self_attention_norm.norm)
        if layer.cross_attention_norm is not None:
            cross_norm = layer.cross_attention_norm.norm
            yield from norm_vectors(prefix + "cross_attention_norm", cross_norm)
        yield from norm_vectors(prefix + "feed_forward_norm", layer.feed_forward_norm.norm)
        for sublayer in ("self_attention", "feed_forward"):
            residual = getattr(layer, f"{sublayer}_norm")
            yield from norm_vectors(f"{prefix}{sublayer}_sublayer_norm", residual.sublayer_norm)
        yield from norm_vectors(prefix + "query_norm", layer.self_attention.query_norm)
        yield from norm_vectors(prefix + "key_norm", layer.self_attention.key_norm)
    if stack.rotary is not None:
        rotary = stack.rotary.cpu()(torch.arange(max_length)[None])
        yield f"{side}.cosine", rotary.cosine
        yield f"{side}.sine", rotary.sine
    if stack.local_rotary is not None and stack.local_rotary is not stack.rotary:
        rotary = stack.local_rotary.cpu()(torch.arange(max_length)[None])
        yield f"{side}.local_cosine", rotary.cosine
        yield f"{side}.local_sine", rotary.sine
    if isinstance(stack.relative, RelativePositionBias):
        yield f"{side}.relative", _relative(stack.relative, max_length)


def norm_vectors(name: str, norm: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weight of a norm, and its bias if it has one; nothing for nn.Identity."""
    if isinstance(norm, OffsetRMSNorm):
        yield f"{name}.weight", 1.0 + norm.weight
    elif isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        yield f"{name}.weight", norm.weight
    if isinstance(norm, nn.LayerNorm):
        yield f"{name}.bias", norm.bias


def _relative(bias: RelativePositionBias, max_length: int) -> Tensor:
    """The bias of every distance from 1 - max_length to max_length - 1: (H, 2 max_length - 1)."""
    distance = torch.arange(1 - max_length, max_length, device=bias.bias.weight.device)
    return bias.bias(bias.bucket(distance)).T  # type: ignore[no-any-return]


def _address(tensor: Tensor | None) -> int | None:
    """The address of a tensor's data; null for None."""
    return None if tensor is None else tensor.data_ptr()
