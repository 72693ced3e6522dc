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
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.positions import NO_ROTATION, Rotation

NORMS = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}


class ResidualNorm(nn.Module):
    """Add & Norm: norm(x + part(x)) as in the paper, or x + part(norm(x)) as in GPT-2 and T5."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.norm = NORMS[config.norm](config.d_model, eps=config.norm_eps)
        self.norm_first = config.norm_first
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        if self.norm_first:
            return self.dropout.add_residual(x, sublayer(self.norm(x)))
        return self.norm(self.dropout.add_residual(x, sublayer(x)))  # type: ignore[no-any-return]


class TransformerLayer(nn.Module):
    """BERT and GPT-2 are towers of this without `cross`; T5 and Marian decoders have it.

    >>> import torch
    >>> layer = TransformerLayer(LayerConfig(d_model=8, n_heads=2, d_ff=16))
    >>> tuple(layer(torch.zeros(1, 3, 8), NO_MASK).shape)
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

        self.self_attention = attention()
        self.self_attention_norm = ResidualNorm(config)
        self.cross_attention = attention() if cross else None
        self.cross_attention_norm = ResidualNorm(config) if cross else None
        self.feed_forward = feed_forward(
            config.d_model,
            config.d_ff,
            activation=config.activation,
            dropout=config.activation_dropout,
            bias=config.bias,
        )
        self.feed_forward_norm = ResidualNorm(config)

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        memory: Tensor | None = None,
        memory_mask: AttentionMask = NO_MASK,
        *,
        cache: KeyValueCache = NO_CACHE,
        bias: Tensor | None = None,
        rotation: Rotation = NO_ROTATION,
    ) -> Tensor:
        """x (B, T, D), memory (B, S, D) for layers with cross-attention -> (B, T, D).

        With a cache the memory may have fewer rows, each for as many neighbours in x: beams.
        """

        def self_attention(x: Tensor) -> Tensor:
            k, v = cache.update(*self.self_attention.project(x, rotation))
            return self.self_attention.attend(x, k, v, mask, bias, rotation)

        x = self.self_attention_norm(x, self_attention)
        if self.cross_attention is not None and self.cross_attention_norm is not None:
            if memory is None:
                raise ValueError("no memory came to a layer with cross-attention; encode a source")
            cross, source = self.cross_attention, memory

            def cross_attention(x: Tensor) -> Tensor:
                k, v = cache.cross_keys_values(lambda: cross.project(source))  # 2 x (N, H, S, K)
                side_by_side = x.reshape(
                    len(k), -1, x.shape[-1]
                )  # beams of a source: (N, B/N*T, D)
                return cross.attend(side_by_side, k, v, memory_mask).view_as(x)  # (B, T, D)

            x = self.cross_attention_norm(x, cross_attention)
        return self.feed_forward_norm(x, self.feed_forward)  # type: ignore[no-any-return]
