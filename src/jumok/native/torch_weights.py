"""The weights of a PyTorch model as numpy arrays by name, and the dimensions of its layers."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from jumok.models.embedding import InputEmbedding
from jumok.native.layout import (
    ACTIVATIONS,
    Array,
    Floats,
    distance_buckets,
    encoder_windows,
    rotary_tables,
)
from jumok.nn import (
    LearnedPositions,
    RelativePositionBias,
    RotaryPositions,
    SegmentEmbedding,
    SinusoidalPositions,
    TokenEmbedding,
    TransformerLayer,
)
from jumok.nn.disentangled import DisentangledAttention, RelativeEmbedding
from jumok.nn.feedforward import GatedFeedForward
from jumok.nn.norms import OffsetRMSNorm
from jumok.nn.rope import DEFAULT_ROPE
from jumok.nn.stack import TransformerStack


class TensorArrays(Mapping[str, Array]):
    """The weights of a module as arrays by name: views of tensors on the CPU, else copies.

    bfloat16 is an array of uint16. A tied weight has all of its names.

    >>> arrays = TensorArrays(nn.Linear(2, 1).bfloat16())
    >>> arrays["weight"].shape, arrays["weight"].dtype
    ((1, 2), dtype('uint16'))
    """

    def __init__(self, module: nn.Module) -> None:
        self._tensors = dict(module.named_parameters(remove_duplicate=False))

    def __getitem__(self, name: str) -> Array:
        return as_array(self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def tensor(self, name: str) -> Tensor:
        """The tensor itself, without its gradient."""
        return self._tensors[name].detach()


def as_array(tensor: Tensor) -> Array:
    """A tensor as an array, a view where it is on the CPU."""
    values = tensor.detach().cpu()
    if values.dtype == torch.bfloat16:
        return values.view(torch.uint16).numpy()
    found: Array = values.numpy()
    return found


def layers_of(stack: TransformerStack) -> list[TransformerLayer]:
    """The layers of a stack."""
    return list(stack.layers)  # type: ignore[arg-type]


def has_offset_norms(stack: TransformerStack) -> bool:
    """Whether the weights of the norms are relative to 1."""
    return any(isinstance(module, OffsetRMSNorm) for module in stack.modules())


def layer_dims(layer: TransformerLayer) -> dict[str, int | float]:
    """The fields of `ModelDims` that one layer determines, read from its modules."""
    attention, residual_norm = layer.self_attention, layer.feed_forward_norm
    has_norm = not isinstance(residual_norm.norm, nn.Identity)
    norm: Any = residual_norm.norm if has_norm else residual_norm.sublayer_norm
    return {
        "n_heads": attention.n_heads,
        "n_kv_heads": attention.n_kv_heads,
        "d_head": attention.query.out_features // attention.n_heads,
        "d_ff": layer.feed_forward.up.out_features,
        "cross": layer.cross_attention is not None,
        "activation": ACTIVATIONS.index(activation_name(layer.feed_forward.activation)),
        "gated": isinstance(layer.feed_forward, GatedFeedForward),
        "rms": isinstance(norm, nn.RMSNorm),
        "norm_first": residual_norm.norm_first,
        "sublayer_norm": not isinstance(residual_norm.sublayer_norm, nn.Identity),
        "qk_norm": not isinstance(attention.query_norm, nn.Identity),
        "norm_eps": norm.eps,
        "attention_scale": attention.scale,
    }


def activation_name(activation: nn.Module) -> str:
    """The name of an activation in the kernel."""
    match activation:
        case nn.Tanh():
            return "tanh"
        case nn.ReLU():
            return "relu"
        case nn.GELU(approximate="tanh"):
            return "gelu_tanh"
        case nn.GELU():
            return "gelu"
        case _:
            return "silu"


def rotation_tables(
    side: str, stack: TransformerStack, max_length: int
) -> Iterator[tuple[str, Floats]]:
    """The tables of rotary and relative positions of a stack, and the windows of its layers.

    By their names in the kernel.
    """
    local = stack.local_rotary if stack.local_rotary is not stack.rotary else None
    for prefix, rotary in (("", stack.rotary), ("local_", local)):
        if rotary is None:
            continue
        if isinstance(rotary, RotaryPositions) and rotary.config == DEFAULT_ROPE:
            cosine, sine = rotary_tables(max_length, rotary.d_head)
        else:
            rotation = rotary.cpu()(torch.arange(max_length)[None])
            cosine, sine = as_array(rotation.cosine), as_array(rotation.sine)
        yield f"{side}.{prefix}cosine", cosine
        yield f"{side}.{prefix}sine", sine
    if side == "encoder":
        yield from encoder_windows(stack.kinds, stack.sliding_window)
    if isinstance(stack.relative, RelativeEmbedding):
        yield from _relative_vectors(side, stack, stack.relative, max_length)
    if isinstance(stack.relative, RelativePositionBias):
        yield f"{side}.relative", _relative(stack.relative, max_length)


def _relative_vectors(
    side: str, stack: TransformerStack, relative: RelativeEmbedding, max_length: int
) -> Iterator[tuple[str, Floats]]:
    """The buckets of distances, and the keys and queries of relative positions of each layer."""
    buckets, distance = relative.n_buckets, relative.max_distance
    yield f"{side}.buckets", distance_buckets(max_length, buckets, distance)
    vectors = relative(1, 1).vectors
    for index, layer in enumerate(layers_of(stack)):
        attention = layer.self_attention
        assert isinstance(attention, DisentangledAttention)
        for name, found in (
            ("position_key", attention.position_keys(vectors)),
            ("position_query", attention.position_queries(vectors)),
        ):
            if found is not None:
                yield f"{side}.{index}.{name}", as_array(found.float().contiguous())


def _relative(bias: RelativePositionBias, max_length: int) -> Floats:
    """The bias of every distance from 1 - max_length to max_length - 1: (H, 2 max_length - 1)."""
    distance = torch.arange(1 - max_length, max_length, device=bias.bias.weight.device)
    found = bias.bias(bias.bucket(distance)).T.float().contiguous()
    return as_array(found)


def is_plain(embedding: InputEmbedding, layer: TransformerLayer) -> bool:
    """Whether the kernel computes this embedding: parts of jumok, and the norm of the layers."""
    of_layers: Any = layer.feed_forward_norm.norm
    norm: Any = embedding.norm
    same_norm = type(norm) is nn.Identity or (
        type(norm) is type(of_layers)
        and type(norm) in (nn.LayerNorm, nn.RMSNorm)
        and norm.eps == of_layers.eps
    )
    return (
        same_norm
        and type(embedding.tokens) is TokenEmbedding
        and type(embedding.positions) in (type(None), SinusoidalPositions, LearnedPositions)
        and type(embedding.segments) in (type(None), SegmentEmbedding)
        and type(embedding.projection) in (nn.Identity, nn.Linear)
        and embedding.tokens.weight.device.type == "cpu"
        and embedding.tokens.weight.dtype in (torch.float32, torch.bfloat16, torch.float16)
    )


def embedding_tables(embedding: InputEmbedding, n: int) -> Iterator[tuple[str, Floats]]:
    """The tables of absolute positions, from position 0, and of segments: (n, E) float32."""
    positions = embedding.positions
    if isinstance(positions, SinusoidalPositions | LearnedPositions):
        learned = isinstance(positions, LearnedPositions)
        table: Tensor = positions.weight if learned else positions.table  # type: ignore[assignment]
        yield "positions", as_array(table[positions.offset :][:n].float().contiguous())
    if embedding.segments is not None:
        yield "segments", as_array(embedding.segments.weight.float().contiguous())
