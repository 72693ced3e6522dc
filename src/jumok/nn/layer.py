"""One layer of a Transformer (3.1): self-attention, perhaps cross-attention, feed-forward.

Shapes: B batch, H heads, T positions, S positions of the memory, D model width.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from torch import Tensor, nn

from jumok.errors import InputError
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.cache import NO_CACHE, KeyValueCache
from jumok.nn.dropout import Dropout
from jumok.nn.feedforward import Activation, GatedFeedForward, PositionwiseFeedForward
from jumok.nn.masks import EVERYTHING, AttentionMask
from jumok.nn.positions import NO_ROTATION, Rotation

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}

LARGEST: Final = 2**31  # of a measure


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """The measures of one layer; as they stand, those of the base model in the paper (table 3)."""

    d_model: int = 512
    n_heads: int = 8
    d_head: int | None = None  # None: d_model / n_heads; T5 chooses it freely
    d_ff: int = 2048
    activation: Activation = "relu"
    gated: bool = False  # True in T5 v1.1
    bias: bool = True  # False in T5: no linear map has one
    norm: Literal["layer", "rms"] = "layer"
    norm_first: bool = False  # True in GPT-2 and T5
    norm_eps: float = 1e-5
    attention_scale: float | None = None  # None: 1/sqrt(d_head); 1.0 in T5
    relative_buckets: int = 32  # of relative positions: how many numbers a head learns
    relative_distance: int = 128  # from here on all distances share the last bucket
    dropout: float = 0.1  # on the result of each part (5.4)
    attention_dropout: float = 0.0  # on the weights; 0.1 in BERT
    activation_dropout: float = 0.0  # inside the feed-forward; 0.1 in T5

    def __post_init__(self) -> None:
        _refuse_no_measures(self)
        for name in ("d_model", "n_heads", "d_ff"):
            refuse_no_size(name, getattr(self, name))
        if self.d_head is None and self.d_model % self.n_heads:
            raise InputError(
                f"d_model {self.d_model} does not divide into {self.n_heads} heads; "
                f"try {_nearest_divisor(self.d_model, self.n_heads)}"
            )
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(
                    f"{name} {getattr(self, name)} is not a probability; give 0 or more, below 1"
                )


def refuse_no_size(name: str, size: int) -> None:
    """Raises InputError for what is no measure of a model: below 1, or beyond every machine."""
    if size < 1:
        raise InputError(f"{name} {size} is not a size; give 1 or more")
    if size > LARGEST:
        raise InputError(
            f"{name} {str(size)[:24]} is beyond every machine; give {LARGEST:,} or less"
        )


def _nearest_divisor(n: int, wanted: int) -> int:
    """The divisor of n nearest to `wanted`, the larger of two.

    >>> _nearest_divisor(512, 7)
    8
    """
    smaller = (i for i in range(1, math.isqrt(n) + 1) if n % i == 0)
    divisors = (divisor for i in smaller for divisor in (i, n // i))
    return min(divisors, key=lambda i: (abs(i - wanted), -i))


class AddNorm(nn.Module):
    """Add & Norm: norm(x + part(x)) as in the paper, or x + part(norm(x)) as in GPT-2 and T5."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = NORMS[config.norm](config.d_model, eps=config.norm_eps)
        self.norm_first = config.norm_first
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        if self.norm_first:
            return self.dropout.add(x, part(self.norm(x)))
        return self.norm(self.dropout.add(x, part(x)))  # type: ignore[no-any-return]


class TransformerLayer(nn.Module):
    """BERT and GPT-2 are towers of this without `cross`; T5 and Marian decoders have it.

    >>> import torch
    >>> layer = TransformerLayer(LayerConfig(d_model=8, n_heads=2, d_ff=16))
    >>> tuple(layer(torch.zeros(1, 3, 8), EVERYTHING).shape)
    (1, 3, 8)
    """

    def __init__(self, config: LayerConfig, *, cross: bool = False) -> None:
        super().__init__()
        feed_forward = GatedFeedForward if config.gated else PositionwiseFeedForward

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(
                config.d_model,
                config.n_heads,
                d_head=config.d_head,
                bias=config.bias,
                dropout=config.attention_dropout,
                scale=config.attention_scale,
            )

        self.attention = attention()
        self.around_attention = AddNorm(config)
        self.cross = attention() if cross else None
        self.around_cross = AddNorm(config) if cross else None
        self.feed_forward = feed_forward(
            config.d_model,
            config.d_ff,
            bend=config.activation,
            dropout=config.activation_dropout,
            bias=config.bias,
        )
        self.around_feed_forward = AddNorm(config)

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        memory: Tensor | None = None,
        memory_mask: AttentionMask = EVERYTHING,
        *,
        cache: KeyValueCache = NO_CACHE,
        bias: Tensor | None = None,
        rotation: Rotation = NO_ROTATION,
    ) -> Tensor:
        """x (B, T, D), memory (B, S, D) for layers with cross-attention -> (B, T, D).

        With a cache the memory may have fewer rows, each for as many neighbours in x: beams.
        """

        def self_attention(x: Tensor) -> Tensor:
            k, v = cache.extend(*self.attention.project(x, rotation))
            return self.attention.attend(x, k, v, mask, bias, rotation)

        x = self.around_attention(x, self_attention)
        if self.cross is not None and self.around_cross is not None:
            if memory is None:
                raise ValueError("no memory came to a layer with cross-attention; encode a source")
            cross, source = self.cross, memory

            def cross_attention(x: Tensor) -> Tensor:
                k, v = cache.recall(lambda: cross.project(source))  # 2 x (N, H, S, K)
                side_by_side = x.reshape(
                    len(k), -1, x.shape[-1]
                )  # beams of a source: (N, B/N*T, D)
                return cross.attend(side_by_side, k, v, memory_mask).view_as(x)  # (B, T, D)

            x = self.around_cross(x, cross_attention)
        return self.around_feed_forward(x, self.feed_forward)  # type: ignore[no-any-return]


def _refuse_no_measures(config: LayerConfig) -> None:
    """Raises InputError for measures of attention and of norms that compute nothing."""
    if config.d_head is not None:
        refuse_no_size("d_head", config.d_head)
    for name in ("norm_eps", "attention_scale"):
        value = getattr(config, name)
        if value is not None and not 0.0 < value < math.inf:
            raise InputError(f"{name} {value}: give a number above 0, or leave it out")
    buckets, distance = config.relative_buckets, config.relative_distance
    if buckets < 4 or distance <= buckets // 2 or max(buckets, distance) > LARGEST:
        raise InputError(
            f"relative_buckets {buckets} and relative_distance {distance} came; give 4 buckets or "
            f"more, and a distance beyond half of them, {LARGEST:,} or less"
        )
