"""A stack of layers (3.1) and the position encodings that act inside the layers.

Shapes: B batch, H heads, T positions, S positions including cached ones, D model width.
"""

from typing import Literal

from torch import Tensor, nn

from jumok.nn.cache import NO_DECODER_CACHE, StackCache
from jumok.nn.config import LayerConfig
from jumok.nn.layer import NORMS, TransformerLayer
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.positions import NO_ROTATION, RelativePositionBias, RotaryPositions

LayerPositions = Literal["none", "rotary", "relative"]  # positions that act inside the layers


class TransformerStack(nn.Module):
    """Layers in sequence; pre-norm layers are followed by a final norm.

    >>> import torch
    >>> stack = TransformerStack(LayerConfig(d_model=8, n_heads=2, d_ff=16), n_layers=2)
    >>> x = torch.zeros(1, 3, 8)
    >>> tuple(stack(x, torch.arange(3)[None]).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        config: LayerConfig,
        n_layers: int,
        *,
        cross: bool = False,
        layer_positions: LayerPositions = "none",
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TransformerLayer(config, cross=cross) for _ in range(n_layers))
        final_norm = NORMS[config.norm](config.d_model, eps=config.norm_eps)
        self.norm = final_norm if config.norm_first else nn.Identity()
        d_head = config.d_head or config.d_model // config.n_heads
        self.rotary = RotaryPositions(d_head) if layer_positions == "rotary" else None
        self.relative = (
            RelativePositionBias(
                config.n_heads,
                bidirectional=bidirectional,
                n_buckets=config.relative_attention_num_buckets,
                max_distance=config.relative_attention_max_distance,
            )
            if layer_positions == "relative"
            else None
        )

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        mask: AttentionMask = NO_MASK,
        memory: Tensor | None = None,
        memory_mask: AttentionMask = NO_MASK,
        cache: StackCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """x (B, T, D) at positions (B, T) -> (B, T, D).

        With a cache, x holds the newest T positions and the mask covers all S.
        """
        T = x.shape[1]
        bias = None if self.relative is None else self.relative(T, cache.length + T)  # (1, H, T, S)
        rotation = NO_ROTATION if self.rotary is None else self.rotary(positions)
        for layer, layer_cache in zip(self.layers, cache.layers(len(self.layers)), strict=True):
            x = layer(x, mask, memory, memory_mask, cache=layer_cache, bias=bias, rotation=rotation)
        return self.norm(x)  # type: ignore[no-any-return]
