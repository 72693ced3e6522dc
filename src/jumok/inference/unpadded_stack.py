"""The layers of an encoder without padding: `jumok.nn` with fewer and larger products.

Queries, keys and values are one product, the activation is fused into the product before it, and
linear maps and norms process real tokens only. Shapes: B batch, T positions, D model width; b texts
of a group, w the length of its longest, n concatenated tokens; H heads, K head width.
"""

import copy
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.inference.linear import LinearFactory, concat_linears
from jumok.inference.unpad import PaddingLayout, group_by_length
from jumok.models.embedding import InputEmbedding
from jumok.native.encoder import NativeEncoder
from jumok.native.kernel_choice import KernelChoice
from jumok.native.packed_weights import WeightPrecision
from jumok.nn import NO_MASK, AttentionMask, TransformerLayer
from jumok.nn.attention_kernels import fused_attention
from jumok.nn.feedforward import GatedFeedForward
from jumok.nn.positions import PositionBias, Rotation
from jumok.nn.stack import TransformerStack, rotations_of_layers
from jumok.torch_ops import one_torch_thread


class StackBackend(Protocol):
    """An implementation of all layers of an encoder over concatenated tokens."""

    batch_tokens: int  # per call: enough to keep the processor busy, few enough for its caches

    def __call__(self, x: Tensor, layout: PaddingLayout, positions: Tensor) -> Tensor:
        """x (n, D) in a layout, positions (b, w) int64 -> (n, D)."""


class UnpaddedStack(nn.Module):
    """Replaces the `TransformerStack` of an encoder; the hidden states of padding are 0."""

    def __init__(self, backend: StackBackend, precision: WeightPrecision) -> None:
        super().__init__()
        self.backend, self.precision = backend, precision

    @property
    def kernel_choice(self) -> KernelChoice:
        """What computes the layers."""
        kernel: Literal["torch", "native"] = "native" if self.is_native else "torch"
        return KernelChoice(kernel, self.precision, "an encoder without padding")

    @property
    def is_native(self) -> bool:
        """Whether the C++ kernel computes the layers."""
        return isinstance(self.backend, NativeBackend)

    @torch.no_grad()
    def forward(self, x: Tensor, positions: Tensor, mask: AttentionMask = NO_MASK) -> Tensor:
        """x (B, T, D) at positions (B|1, T) -> (B, T, D)."""
        B, T, D = x.shape
        padding_mask = _padding_mask(mask, B, T)
        tokens, positions = x.reshape(B * T, D), positions.expand(B, T)
        if padding_mask is None:  # the mask hides more than padding and is kept
            layout = PaddingLayout(B, T, None, mask)
            return self.backend(tokens, layout, positions).view(B, T, D)
        if B * T and bool(padding_mask.all()):
            return self._without_padding(x, positions)
        positions = positions.flatten()
        with self._for_copies():
            y = torch.zeros_like(tokens)
        for index, group_mask in group_by_length(padding_mask, self.backend.batch_tokens):
            real = index[group_mask]  # (n)
            layout = PaddingLayout.from_mask(group_mask)
            with self._for_copies():
                group = tokens[real]
            hidden = self.backend(group, layout, positions[index])
            with self._for_copies():
                y[real] = hidden
        return y.view(B, T, D)

    def _without_padding(self, x: Tensor, positions: Tensor) -> Tensor:
        """The output of the stack for rows without padding: x (B, T, D) at positions (B, T)."""
        B, T, D = x.shape
        rows = max(1, self.backend.batch_tokens // T)
        groups = []
        for first in range(0, B, rows):
            part, at = x[first : first + rows], positions[first : first + rows]
            layout = PaddingLayout(len(part), T, None, NO_MASK)
            groups.append(self.backend(part.flatten(0, 1), layout, at))
        with self._for_copies():
            return torch.cat(groups).view(B, T, D)

    def _for_copies(self) -> AbstractContextManager[None]:
        """One thread of PyTorch where the kernel's threads need the processor alone."""
        return one_torch_thread() if self.is_native else nullcontext()


class OneThreadEmbedding(InputEmbedding):
    """The embedding in front of the kernel, whose threads need the processor alone."""

    def forward(
        self,
        ids: Tensor,
        positions: Tensor,
        segments: Tensor | None = None,
        mask: AttentionMask = NO_MASK,
    ) -> Tensor:
        """Embed the ids in parts whose intermediate results stay in the caches.

        An offset of the positions needs the mask of the whole batch.
        """
        B, T = ids.shape
        rows = max(1, NativeBackend.batch_tokens // max(1, T))
        with one_torch_thread():
            if rows >= B or (self.positions is not None and self.positions.offset):
                return super().forward(ids, positions, segments, mask)
            positions = positions.expand(B, T)
            segments = None if segments is None else segments.expand(B, T)
            parts = []
            for first in range(0, B, rows):
                part = slice(first, first + rows)
                of_part = None if segments is None else segments[part]
                parts.append(super().forward(ids[part], positions[part], of_part))
            return torch.cat(parts)


def _padding_mask(mask: AttentionMask, B: int, T: int) -> Tensor | None:
    """The real tokens (B, T) bool of a mask that hides only padding; None for other masks."""
    if mask.causal:
        return None
    if mask.allowed is None:
        return torch.ones(B, T, dtype=torch.bool)
    if mask.allowed.shape[1] > 1 or mask.allowed.shape[2] > 1:
        return None
    return mask.allowed[:, 0, 0].expand(B, T)


class NativeBackend(nn.Module):
    """The layers in the C++ kernel, which supports padding masks only."""

    batch_tokens = 512

    def __init__(self, encoder: NativeEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, x: Tensor, layout: PaddingLayout, positions: Tensor) -> Tensor:
        """x (n, D) in a layout, positions (b, w) -> (n, D), in the dtype of x."""
        if not layout.is_padding_only:
            raise InputError(
                "inference.mask_not_of_padding",
                "the mask must hide only padding for the kernel; pad texts instead of packing "
                'them, or optimize with precision="float32" and without padding_only',
            )
        if self.encoder.has_windows and not layout.is_contiguous:
            raise InputError(
                "inference.padding_inside_of_windows",
                "padding must be before or after the tokens of a text for the kernel, which counts "
                "its windows in tokens; move it to one side, or use the unoptimized model",
            )
        token_positions = layout.unpad(positions)  # (n)
        return self.encoder(x, layout.lengths, token_positions, layout.columns).to(x.dtype)


class TorchBackend(nn.Module):
    """The layers in PyTorch, computed in the dtype of `make_linear`'s maps."""

    batch_tokens = 1024

    def __init__(
        self, stack: TransformerStack, make_linear: LinearFactory, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.dtype = dtype
        self.layers = nn.ModuleList(
            FusedQKVLayer(layer, make_linear, dtype)  # type: ignore[arg-type]
            for layer in stack.layers
        )
        self.norm = stack.norm
        self.kinds, self.sliding_window = stack.kinds, stack.sliding_window
        self.rotary, self.local_rotary = stack.rotary, stack.local_rotary
        self.relative = stack.relative

    def forward(self, x: Tensor, layout: PaddingLayout, positions: Tensor) -> Tensor:
        """x (n, D) in a layout, positions (b, w) -> (n, D), in the dtype of x."""
        w = layout.width
        bias = None if self.relative is None else self.relative(w, w)  # (1, H, w, w) or vectors
        rotations = rotations_of_layers(self.rotary, self.local_rotary, positions)
        local = replace(layout, mask=layout.mask.within(self.sliding_window))
        hidden = x.to(self.dtype)
        for kind, layer in zip(self.kinds, self.layers, strict=True):
            hidden = layer(hidden, local if kind == "L" else layout, bias, rotations[kind])
        return self.norm(hidden.to(x.dtype))  # type: ignore[no-any-return]


class FusedQKVLayer(nn.Module):
    """One encoder layer (3.1) over concatenated tokens."""

    def __init__(
        self, layer: TransformerLayer, make_linear: LinearFactory, dtype: torch.dtype
    ) -> None:
        super().__init__()
        attention, feed_forward = layer.self_attention, layer.feed_forward
        self.n_heads, self.scale = attention.n_heads, attention.scale
        self.position_scores = attention.position_scores  # with maps in float32
        qkv = [attention.query, attention.key, attention.value]
        self.query_key_value = make_linear(concat_linears(qkv), None)
        self.output = make_linear(attention.output, None)
        self.up = make_linear(feed_forward.up, feed_forward.activation)
        self.gate = (
            make_linear(feed_forward.gate, None)
            if isinstance(feed_forward, GatedFeedForward)
            else None
        )
        self.down = make_linear(feed_forward.down, None)
        self.norm_first = layer.self_attention_norm.norm_first
        self.attention_norm = _cast_norm(layer.self_attention_norm.norm, dtype)
        self.feed_forward_norm = _cast_norm(layer.feed_forward_norm.norm, dtype)

    def forward(
        self, x: Tensor, layout: PaddingLayout, bias: PositionBias, rotation: Rotation
    ) -> Tensor:
        """x (n, D), bias (1, H, w, w) -> (n, D)."""
        if self.norm_first:
            x = self.attention(self.attention_norm(x), layout, bias, rotation).add_(x)
            return self.feed_forward(self.feed_forward_norm(x)).add_(x)
        x = self.attention_norm(self.attention(x, layout, bias, rotation).add_(x))
        return self.feed_forward_norm(self.feed_forward(x).add_(x))  # type: ignore[no-any-return]

    def attention(
        self, x: Tensor, layout: PaddingLayout, bias: PositionBias, rotation: Rotation
    ) -> Tensor:
        """Self-attention within each text: (n, D) -> (n, D)."""
        qkv = layout.pad(self.query_key_value(x))  # (b, w, 3*H*K)
        qkv = qkv.view(layout.n_rows, layout.width, 3, self.n_heads, -1)  # (b, w, 3, H, K)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # 3 x (b, H, w, K)
        q, k = rotation(q), rotation(k)
        added = self.position_scores(q, k, bias)  # (b|1, H|1, w, w)
        y = fused_attention(q, k, v, layout.mask, added, self.scale, 0.0)  # (b, H, w, K)
        return self.output(layout.unpad(y.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]

    def feed_forward(self, x: Tensor) -> Tensor:
        """FFN(x), equation (2): (n, D) -> (n, D)."""
        hidden = self.up(x)  # (n, F)
        if self.gate is not None:
            hidden = hidden.mul_(self.gate(x))
        return self.down(hidden)  # type: ignore[no-any-return]


def _cast_norm(norm: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy of a norm in another dtype."""
    return copy.deepcopy(norm).to(dtype)
