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
    RelativeLayout,
    encoder_windows,
    relative_vectors,
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
from jumok.nn.rope import RopeConfig
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
        base = rotary.config.base if isinstance(rotary, RotaryPositions) else 1.0
        if isinstance(rotary, RotaryPositions) and rotary.config == RopeConfig(base=base):
            cosine, sine = rotary_tables(max_length, rotary.d_head, base)
        else:
            rotation = rotary.cpu()(torch.arange(max_length)[None])
            cosine, sine = as_array(rotation.cosine), as_array(rotation.sine)
        yield f"{side}.{prefix}cosine", cosine
        yield f"{side}.{prefix}sine", sine
    if side == "encoder":
        yield from encoder_windows(stack.kinds, stack.sliding_window)
    if isinstance(stack.relative, RelativeEmbedding):
        where = _relative_layout(stack, stack.relative)
        yield from relative_vectors(side, TensorArrays(stack), "", max_length, where)
    if isinstance(stack.relative, RelativePositionBias):
        yield f"{side}.relative", _relative(stack.relative, max_length)


def _relative_layout(stack: TransformerStack, relative: RelativeEmbedding) -> RelativeLayout:
    """Where the relative positions of a stack with disentangled attention are."""
    layers = stack.layers
    attention, norm = layers[0].self_attention, relative.norm
    assert isinstance(attention, DisentangledAttention)
    key = "key" if attention.position_key is None else "position_key"
    query = "query" if attention.position_query is None else "position_query"
    terms = [("position_key", key)] * attention.has_keys
    terms += [("position_query", query)] * attention.has_queries
    eps: float = getattr(norm, "eps", None) or 0.0  # 0 without a norm
    rms = isinstance(norm, nn.RMSNorm)
    return RelativeLayout(
        *(len(layers), attention.n_heads, relative.max_distance, eps, rms, tuple(terms))
    )


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
