"""An encoder's layers for reading: the equations of `jumok.nn`, with fewer and larger products.

Queries, keys and values are one product, an activation is done inside the product before it, and
linear maps and norms see real tokens alone. Shapes: B batch, T positions, D model width; b texts of
a group, w the width of its longest, n tokens end to end; H heads, K head width.
"""

import copy
from typing import Protocol

import torch
from torch import Tensor, nn

from jumok.inference.linear import LinearFactory, concat_linears
from jumok.inference.unpad import PaddingLayout, group_by_length
from jumok.nn import NO_MASK, AttentionMask, TransformerLayer
from jumok.nn.attention import fused_attention
from jumok.nn.feedforward import GatedFeedForward
from jumok.nn.positions import NO_ROTATION, Rotation
from jumok.nn.stack import TransformerStack


class StackBackend(Protocol):
    """All layers of an encoder, over texts whose tokens stand end to end."""

    batch_tokens: int  # so many keep the processor busy and stay in its caches

    def __call__(self, x: Tensor, seats: PaddingLayout, positions: Tensor) -> Tensor:
        """x (n, D) on seats, positions (b, w) int64 -> (n, D)."""


class UnpaddedStack(nn.Module):
    """In the place of an encoder's `TransformerStack`; what stands on padding is 0."""

    def __init__(self, layers: StackBackend) -> None:
        super().__init__()
        self.backend = layers

    @torch.no_grad()
    def forward(self, x: Tensor, positions: Tensor, mask: AttentionMask = NO_MASK) -> Tensor:
        """x (B, T, D) at positions (B|1, T) -> (B, T, D)."""
        B, T, D = x.shape
        real = _padding_mask(mask, B, T)
        tokens, positions = x.reshape(B * T, D), positions.expand(B, T).flatten()
        if real is None:  # not a matter of padding: who sees whom stays as it is
            seats = PaddingLayout(B, T, None, mask)
            return self.backend(tokens, seats, positions.view(B, T)).view(B, T, D)
        y = torch.zeros_like(tokens)
        for places, some in group_by_length(real, self.backend.batch_tokens):
            here = places[some]  # (n)
            y[here] = self.backend(tokens[here], PaddingLayout.from_mask(some), positions[places])
        return y.view(B, T, D)


def _padding_mask(mask: AttentionMask, B: int, T: int) -> Tensor | None:
    """The real tokens (B, T) bool of a mask that hides padding or nothing; None for other masks."""
    if mask.causal:
        return None
    if mask.allowed is None:
        return torch.ones(B, T, dtype=torch.bool)
    if mask.allowed.shape[1] > 1 or mask.allowed.shape[2] > 1:
        return None
    return mask.allowed[:, 0, 0].expand(B, T)


class TorchBackend(nn.Module):
    """The layers with torch's own operations, in the type that `make`'s maps compute in."""

    batch_tokens = 1024

    def __init__(self, stack: TransformerStack, make: LinearFactory, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.layers = nn.ModuleList(
            FusedQKVLayer(layer, make, dtype)  # type: ignore[arg-type]
            for layer in stack.layers
        )
        self.norm = stack.norm
        self.rotary = stack.rotary
        self.relative = stack.relative

    def forward(self, x: Tensor, seats: PaddingLayout, positions: Tensor) -> Tensor:
        """x (n, D) on seats, positions (b, w) -> (n, D), in the type of x."""
        w = seats.width
        bias = None if self.relative is None else self.relative(w, w)  # (1, H, w, w)
        rotation = NO_ROTATION if self.rotary is None else self.rotary(positions)
        hidden = x.to(self.dtype)
        for part in self.layers:
            hidden = part(hidden, seats, bias, rotation)
        return self.norm(hidden.to(x.dtype))  # type: ignore[no-any-return]


class FusedQKVLayer(nn.Module):
    """One encoder layer (3.1) over tokens that stand end to end."""

    def __init__(self, layer: TransformerLayer, make: LinearFactory, dtype: torch.dtype) -> None:
        super().__init__()
        attention, feed_forward = layer.self_attention, layer.feed_forward
        self.n_heads, self.scale = attention.n_heads, attention.scale
        maps = [attention.query, attention.key, attention.value]
        self.query_key_value = make(concat_linears(maps), None)
        self.output = make(attention.output, None)
        self.up = make(feed_forward.up, feed_forward.activation)
        self.gate = (
            make(feed_forward.gate, None) if isinstance(feed_forward, GatedFeedForward) else None
        )
        self.down = make(feed_forward.down, None)
        self.norm_first = layer.self_attention_norm.norm_first
        self.attention_norm = _cast_norm(layer.self_attention_norm.norm, dtype)
        self.feed_forward_norm = _cast_norm(layer.feed_forward_norm.norm, dtype)

    def forward(
        self, x: Tensor, seats: PaddingLayout, bias: Tensor | None, rotation: Rotation
    ) -> Tensor:
        """x (n, D), bias (1, H, w, w) -> (n, D)."""
        if self.norm_first:
            x = self.attention(self.attention_norm(x), seats, bias, rotation).add_(x)
            return self.feed_forward(self.feed_forward_norm(x)).add_(x)
        x = self.attention_norm(self.attention(x, seats, bias, rotation).add_(x))
        return self.feed_forward_norm(self.feed_forward(x).add_(x))  # type: ignore[no-any-return]

    def attention(
        self, x: Tensor, seats: PaddingLayout, bias: Tensor | None, rotation: Rotation
    ) -> Tensor:
        """What each token finds in its own text: (n, D) -> (n, D)."""
        three = seats.pad(self.query_key_value(x))  # (b, w, 3*H*K)
        three = three.view(seats.n_rows, seats.width, 3, self.n_heads, -1)  # (b, w, 3, H, K)
        q, k, v = three.permute(2, 0, 3, 1, 4)  # 3 x (b, H, w, K)
        y = fused_attention(
            rotation(q), rotation(k), v, seats.mask, bias, self.scale, 0.0
        )  # (b, H, w, K)
        return self.output(seats.unpad(y.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]

    def feed_forward(self, x: Tensor) -> Tensor:
        """FFN(x), equation (2): (n, D) -> (n, D)."""
        wide = self.up(x)  # (n, F)
        if self.gate is not None:
            wide = wide.mul_(self.gate(x))
        return self.down(wide)  # type: ignore[no-any-return]


def _cast_norm(norm: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A norm's own copy in another type."""
    return copy.deepcopy(norm).to(dtype)
