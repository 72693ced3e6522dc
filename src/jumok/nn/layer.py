"""One Transformer layer (3.1): self-attention, optional cross-attention, feed-forward.

Shapes: B batch, N sources, H heads, T and S positions, D model width, K width of one head.
"""

from collections.abc import Callable

from torch import Tensor, nn

from jumok.nn.cache import NO_CACHE, LayerCache
from jumok.nn.config import ATTENTION, LayerConfig
from jumok.nn.dropout import Dropout
from jumok.nn.feedforward import GatedFeedForward, PositionwiseFeedForward
from jumok.nn.kernel_sublayers import kernel_attention
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.norms import make_norm
from jumok.nn.positions import NO_ROTATION, PositionBias, Rotation


class ResidualNorm(nn.Module):
    """Add & Norm: norm(x + sublayer(x)) as in the paper, or x + sublayer(norm(x)) (pre-norm).

    GPT-2, T5 and Llama are pre-norm. With `sublayer_norm` the output of the sublayer is normalized:
    x + norm(sublayer(x)) in EXAONE 4, and with a pre-norm as well in Gemma.

    >>> from jumok.nn.config import LayerConfig
    >>> import torch
    >>> add_and_norm = ResidualNorm(LayerConfig(d_model=8, n_heads=2)).eval()
    >>> y = add_and_norm(torch.randn(1, 3, 8), lambda x: 2 * x)  # (B, T, D)
    >>> bool(y.mean(-1).abs().max() < 1e-5)  # normalized after the sublayer
    True
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()

        def norm(needed: bool) -> nn.Module:
            kind, width, eps = config.norm, config.d_model, config.norm_eps
            return make_norm(kind, width, eps) if needed else nn.Identity()

        self.norm = norm(config.norm_first or not config.sublayer_norm)
        self.sublayer_norm = norm(config.sublayer_norm)
        self.norm_first = config.norm_first
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x (B, T, D) -> (B, T, D)."""
        if self.norm_first:
            return self.dropout.add_residual(x, self.sublayer_norm(sublayer(self.norm(x))))
        x = self.dropout.add_residual(x, self.sublayer_norm(sublayer(x)))
        return self.norm(x)  # type: ignore[no-any-return]


class TransformerLayer(nn.Module):
    """BERT and GPT-2 stack layers without cross-attention; T5 and Marian decoders have it.

    >>> import torch
    >>> layer = TransformerLayer(LayerConfig(d_model=8, n_heads=2, d_ff=16))
    >>> tuple(layer(torch.zeros(1, 3, 8), NO_MASK).shape)
    (1, 3, 8)
    """

    def __init__(self, config: LayerConfig, *, cross: bool = False) -> None:
        super().__init__()
        feed_forward = GatedFeedForward if config.gated else PositionwiseFeedForward

        attention = ATTENTION.get(config.attention).of_layer
        self.self_attention = attention(config)
        self.self_attention_norm = ResidualNorm(config)
        self.cross_attention = attention(config) if cross else None
        self.cross_attention_norm = ResidualNorm(config) if cross else None
        self.feed_forward = feed_forward(
            *(config.d_model, config.d_ff),
            activation=config.activation,
            dropout=config.activation_dropout,
            bias=config.bias,
            projection=config.ffn_projection,
        )
        self.feed_forward_norm = ResidualNorm(config)

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        memory: Tensor | None = None,
        memory_mask: AttentionMask = NO_MASK,
        *,
        cache: LayerCache = NO_CACHE,
        bias: PositionBias = None,
        rotation: Rotation = NO_ROTATION,
    ) -> Tensor:
        """x (B, T, D), memory (B, S, D) if the layer has cross-attention -> (B, T, D).

        With a cache, memory may have fewer rows (N, S, D): each belongs to B/N consecutive rows
        of x, the beams of one source.
        """
        x = self.self_attention_norm(
            x, lambda x: self._self_attention(x, mask, cache, bias, rotation)
        )
        if self.cross_attention_norm is not None:
            x = self.cross_attention_norm(
                x, lambda x: self._cross_attention(x, memory, memory_mask, cache)
            )
        return self.feed_forward_norm(x, self.feed_forward)  # type: ignore[no-any-return]

    def _self_attention(
        self,
        x: Tensor,
        mask: AttentionMask,
        cache: LayerCache,
        bias: PositionBias,
        rotation: Rotation,
    ) -> Tensor:
        """The positions of x (B, T, D) attend to each other and to the cached ones."""
        if cache is NO_CACHE and bias is None:
            y = kernel_attention(self.self_attention, x, None, mask, rotation)
            if y is not None:
                return y
        q, k, v = self.self_attention.project_self(x, rotation)  # 3 x (B, H, T, K)
        k, v = cache.update(k, v)  # 2 x (B, H, S, K)
        return self.self_attention.attend_queries(q, k, v, mask, bias)

    def _cross_attention(
        self, x: Tensor, memory: Tensor | None, mask: AttentionMask, cache: LayerCache
    ) -> Tensor:
        """The positions of x (B, T, D) attend to the memory (N, S, D)."""
        attention = self.cross_attention
        if attention is None or memory is None:
            raise ValueError("memory must be given to a layer with cross-attention, got None")
        if cache is NO_CACHE:
            y = kernel_attention(attention, x, memory, mask)
            if y is not None:
                return y
        k, v = cache.cross_keys_values(lambda: attention.project(memory))  # 2 x (N, H, S, K)
        beams = x.reshape(len(k), -1, x.shape[-1])  # (N, B/N*T, D): a row per source
        return attention.attend(beams, k, v, mask).view_as(x)  # (B, T, D)
