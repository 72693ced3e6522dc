"""Weights on their way into the C++ kernel, under the names of kernel/transformer.h."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from jumok.errors import JumokError
from jumok.native.build import KernelError
from jumok.native.library import OK, OUT_OF_MEMORY, ModelDims, library
from jumok.native.quantize import quantize_rows
from jumok.nn import RelativePositionBias, TransformerLayer
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.nn.stack import TransformerStack

WeightPrecision = Literal["float32", "bfloat16", "int8"]

PRECISIONS: tuple[WeightPrecision, ...] = (
    "float32",
    "bfloat16",
    "int8",
)  # as door.cpp numbers them
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")  # as mathematics.h numbers them

_ROWS_PER_UPLOAD = (
    256  # at a time are converted and given: nobody holds a second copy of a large table
)

LinearLike = nn.Linear | nn.Embedding | tuple[nn.Linear, ...]  # several: their outputs side by side


class PackedWeights:
    """The kernel's own copy of weights; they do not change any more, so a copy of it is itself.

    Raises KernelError when the kernel cannot be had.
    """

    def __init__(
        self,
        dims: ModelDims,
        precision: WeightPrecision,
        on_packed: Callable[[Tensor], None] = lambda weight: None,
    ) -> None:
        if precision not in PRECISIONS:
            raise KernelError(f"precision {precision!r} is unknown; take one of {PRECISIONS}")
        self.precision, self.on_packed = precision, on_packed
        self.library = library()
        self.handle: int = self.library.jumok_model(ctypes.byref(dims), PRECISIONS.index(precision))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.library.jumok_free_model(self.handle)

    def __deepcopy__(self, memo: dict[int, object]) -> "PackedWeights":
        return self

    @property
    def bytes(self) -> int:
        """What they take in memory."""
        return int(self.library.jumok_bytes(self.handle))

    def upload_linear(self, name: str, maps: LinearLike) -> None:
        """A linear map or a table of embeddings; JumokError where memory does not hold it."""
        together = maps if isinstance(maps, tuple) else (maps,)
        weights = [part.weight.detach() for part in together]  # (N, K) each
        biases = [getattr(part, "bias", None) for part in together]
        outputs, inputs = sum(map(len, weights)), weights[0].shape[1]
        biased = any(bias is not None for bias in biases)
        answer = self.library.jumok_linear(self.handle, name.encode(), outputs, inputs, biased)
        self._check_status(answer, name)
        first = 0
        for weight, bias in zip(weights, biases, strict=True):
            for start in range(0, len(weight), _ROWS_PER_UPLOAD):
                some = slice(start, start + _ROWS_PER_UPLOAD)
                its = None if bias is None else bias[some]
                self._upload_rows(name, first + start, weight[some], its)
            first += len(weight)
            self.on_packed(weight)

    def _upload_rows(self, name: str, first: int, weight: Tensor, bias: Tensor | None) -> None:
        """Some rows of a linear map (n, K), from output `first` on, with their biases (n)."""
        scale = None
        if self.precision == "int8":
            packed, scale = quantize_rows(weight.cpu())
        else:
            packed = weight.cpu().to(getattr(torch, self.precision))
        packed = packed.contiguous()
        if bias is not None:
            bias = bias.detach().float().cpu().contiguous()
        answer = self.library.jumok_rows(
            self.handle,
            name.encode(),
            first,
            len(packed),
            _address(packed),
            _address(scale),
            _address(bias),
        )
        assert answer == OK, name

    def upload_vector(self, name: str, vector: Tensor) -> None:
        """A vector, or a table of numbers that stay in float32."""
        numbers = vector.detach().float().cpu().contiguous()
        answer = self.library.jumok_vector(
            self.handle, name.encode(), numbers.numel(), _address(numbers)
        )
        self._check_status(answer, name)

    @staticmethod
    def _check_status(answer: int, name: str) -> None:
        if answer == OUT_OF_MEMORY:
            raise JumokError(
                f"memory ran out while the weights of {name} were packed; free some, or take a "
                "smaller precision"
            )
        assert answer == OK, name


def layers_of(stack: TransformerStack) -> list[TransformerLayer]:
    """The layers of a stack."""
    return list(stack.layers)  # type: ignore[arg-type]


def layer_dims(layer: TransformerLayer) -> dict[str, int | float]:
    """What one layer tells of `Measures`: whatever made it, its modules are the truth."""
    attention, around = layer.self_attention, layer.self_attention_norm
    return {
        "n_heads": attention.n_heads,
        "d_head": attention.query.out_features // attention.n_heads,
        "d_ff": layer.feed_forward.up.out_features,
        "cross": layer.cross_attention is not None,
        "activation": ACTIVATIONS.index(_activation(layer.feed_forward)),
        "gated": isinstance(layer.feed_forward, GatedFeedForward),
        "rms": isinstance(around.norm, nn.RMSNorm),
        "norm_first": around.norm_first,
        "norm_eps": around.norm.eps,
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
    """Every linear map of a stack."""
    for number, layer in enumerate(layers_of(stack)):
        here = f"{side}.{number}."
        own, cross, feed_forward = layer.self_attention, layer.cross_attention, layer.feed_forward
        yield here + "query_key_value", (own.query, own.key, own.value)
        yield here + "output", own.output
        if isinstance(cross, MultiHeadAttention):
            yield here + "cross_query", cross.query
            yield here + "cross_key_value", (cross.key, cross.value)
            yield here + "cross_output", cross.output
        yield here + "up", feed_forward.up
        if isinstance(feed_forward, GatedFeedForward):
            yield here + "gate", feed_forward.gate
        yield here + "down", feed_forward.down


def stack_vectors(
    side: str, stack: TransformerStack, max_length: int
) -> Iterator[tuple[str, Tensor]]:
    """Norms of a stack, and what its layers know of `max_length` positions."""
    yield from norm_vectors(f"{side}.norm", stack.norm)
    for number, layer in enumerate(layers_of(stack)):
        here = f"{side}.{number}.around_"
        yield from norm_vectors(here + "attention", layer.self_attention_norm.norm)
        if layer.cross_attention_norm is not None:
            yield from norm_vectors(here + "cross", layer.cross_attention_norm.norm)
        yield from norm_vectors(here + "feed_forward", layer.feed_forward_norm.norm)
    if stack.rotary is not None:
        turn = stack.rotary.cpu()(torch.arange(max_length)[None])
        yield f"{side}.cosine", turn.cosine
        yield f"{side}.sine", turn.sine
    if stack.relative is not None:
        yield f"{side}.relative", _relative(stack.relative, max_length)


def norm_vectors(name: str, norm: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The gain of a norm, and its shift if it has one; nothing where there is no norm."""
    if isinstance(norm, nn.LayerNorm | nn.RMSNorm):
        yield f"{name}.gain", norm.weight
    if isinstance(norm, nn.LayerNorm):
        yield f"{name}.shift", norm.bias


def _relative(bias: RelativePositionBias, max_length: int) -> Tensor:
    """The bias of every distance from 1 - max_length to max_length - 1: (H, 2 max_length - 1)."""
    distance = torch.arange(1 - max_length, max_length, device=bias.bias.weight.device)
    return bias.bias(bias.bucket(distance)).T  # type: ignore[no-any-return]


def _address(tensor: Tensor | None) -> int | None:
    """The address of a tensor's numbers; null for none."""
    return None if tensor is None else tensor.data_ptr()
