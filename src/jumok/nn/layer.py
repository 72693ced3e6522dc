"""One layer of a Transformer (3.1): self-attention, perhaps cross-attention, feed-forward.

Shapes: B batch, H heads, T positions, S positions of the memory, D model width.
"""

from collections.abc import Callable

from torch import Tensor, nn

from jumok.nn.attention import MultiHeadAttention
from jumok.nn.cache import NO_CACHE, KeyValueCache
from jumok.nn.config import LayerConfig
from jumok.nn.dropout import Dropout
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.nn.masks import EVERYTHING, AttentionMask
from jumok.nn.positions import NO_ROTATION, Rotation

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


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
            activation=config.activation,
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
