"""A stack of layers (3.1) and the position encodings that act inside the layers.

Shapes: B batch, H heads, T positions, S positions including cached ones, D model width.
"""

from typing import Literal

from torch import Tensor, nn

from jumok.nn.attention import MultiHeadAttention
from jumok.nn.cache import NO_DECODER_CACHE, StackCache
from jumok.nn.config import LayerConfig
from jumok.nn.layer import TransformerLayer
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.norms import OffsetRMSNorm, make_norm
from jumok.nn.positions import NO_ROTATION, RelativePositionBias, RotaryPositions, Rotation
from jumok.nn.rope import DEFAULT_ROPE

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
        final_norm = make_norm(config.norm, config.d_model, config.norm_eps)
        unnormalized = config.norm_first or config.sublayer_norm
        self.norm = final_norm if unnormalized else nn.Identity()
        self.kinds = config.layer_kinds(n_layers)  # a letter for each layer: G, L or N
        self.sliding_window = config.sliding_window
        d_head = config.d_head or config.d_model // config.n_heads
        rotary = layer_positions == "rotary"
        local = config.local_rope
        self.rotary = RotaryPositions(d_head, config.rope) if rotary else None
        self.local_rotary = RotaryPositions(d_head, local) if rotary and local else self.rotary
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
        masks = {"L": mask.within(self.sliding_window)}
        rotations = self.rotations(positions)
        caches = cache.layers(len(self.layers))
        for kind, layer, layer_cache in zip(self.kinds, self.layers, caches, strict=True):
            x = layer(
                *(x, masks.get(kind, mask), memory, memory_mask),
                cache=layer_cache,
                bias=bias,
                rotation=rotations[kind],
            )
        return self.norm(x)  # type: ignore[no-any-return]

    def rotations(self, positions: Tensor) -> dict[str, Rotation]:
        """The rotation of the layers of each kind at positions (B, T)."""
        rotary, local = self.rotary, self.local_rotary
        if rotary is None or local is None:
            return dict.fromkeys("GLN", NO_ROTATION)
        shared = rotary(positions)
        return {"G": shared, "L": shared if local is rotary else local(positions), "N": NO_ROTATION}

    def extensions(self) -> tuple[str, ...]:
        """What the layers have beyond those of the paper, BERT, GPT-2 and T5, in words."""
        layer = self.layers[0]
        assert isinstance(layer, TransformerLayer)
        attention, norm = layer.self_attention, layer.self_attention_norm
        found = {
            "attention of an extension": type(attention) is not MultiHeadAttention,
            "grouped key/value heads": attention.n_kv_heads != attention.n_heads,
            "norms of queries and keys": not isinstance(attention.query_norm, nn.Identity),
            "an attention softcap": attention.softcap is not None,
            "norms after sublayers": not isinstance(norm.sublayer_norm, nn.Identity),
            "norms with a weight relative to 1": isinstance(self.norm, OffsetRMSNorm),
            "local layers": "L" in self.kinds,
            "layers without rotation": "N" in self.kinds,
            "a rope base or scaling": any(
                rotary is not None and rotary.config != DEFAULT_ROPE
                for rotary in (self.rotary, self.local_rotary)
            ),
            "biases of queries, keys and values alone": (attention.query.bias is None)
            != (attention.output.bias is None),
        }
        return tuple(name for name, has in found.items() if has)
