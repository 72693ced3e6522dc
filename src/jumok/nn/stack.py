"""A stack of layers (3.1) and the position encodings that act inside the layers.

Shapes: B batch, H heads, T positions, S positions including cached ones, D model width.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, overload

from torch import Tensor, nn

from jumok.errors import ConfigError
from jumok.nn.attention import MultiHeadAttention
from jumok.nn.cache import NO_DECODER_CACHE, StackCache
from jumok.nn.config import ATTENTION, LayerConfig
from jumok.nn.layer import TransformerLayer
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.norms import OffsetRMSNorm, make_norm
from jumok.nn.positions import (
    NO_ROTATION,
    POSITIONS,
    RelativePositionBias,
    RotaryPositions,
    Rotation,
)
from jumok.nn.rope import DEFAULT_ROPE


class LayerList(nn.ModuleList):
    """An nn.ModuleList whose items are typed as the layers that they are."""

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, idx: slice) -> "LayerList": ...

        @overload
        def __getitem__(self, idx: int) -> TransformerLayer: ...

        def __getitem__(self, idx: int | slice) -> "TransformerLayer | LayerList": ...

        def __iter__(self) -> Iterator[TransformerLayer]: ...


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
        positions: str = "none",
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.layers = LayerList(TransformerLayer(config, cross=cross) for _ in range(n_layers))
        if not config.first_norm:
            self.layers[0].self_attention_norm.norm = nn.Identity()
        final_norm = make_norm(config.norm, config.d_model, config.norm_eps)
        unnormalized = config.norm_first or config.sublayer_norm
        self.norm = final_norm if unnormalized else nn.Identity()
        self.kinds = config.layer_kinds(n_layers)  # a letter for each layer: G, L or N
        self.sliding_window = config.sliding_window
        d_head = config.d_head or config.d_model // config.n_heads
        encoding, local = POSITIONS.get(positions)(), config.local_rope
        self.rotary = encoding.rotation(d_head, config.rope)
        self.local_rotary = encoding.rotation(d_head, local) if local else self.rotary
        own = ATTENTION.get(config.attention).stack_bias(config)
        self.relative = encoding.bias(config, bidirectional=bidirectional) or own
        if own is not None and cross:
            raise ConfigError(
                "nn.disentangled_cross_attention",
                'attention must be "softmax" in a stack with cross-attention, whose keys have no '
                'positions relative to the queries, got "{attention}"',
                attention=config.attention,
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
        bias = (
            None if self.relative is None else self.relative(T, cache.length + T)
        )  # (1, H, T, S) or vectors
        masks = {"L": mask.within(self.sliding_window)}
        rotations = rotations_of_layers(self.rotary, self.local_rotary, positions)
        caches = cache.layers(len(self.layers))
        for kind, layer, layer_cache in zip(self.kinds, self.layers, caches, strict=True):
            x = layer(
                *(x, masks.get(kind, mask), memory, memory_mask),
                cache=layer_cache,
                bias=bias,
                rotation=rotations[kind],
            )
        return self.norm(x)  # type: ignore[no-any-return]

    def extensions(self) -> tuple[str, ...]:
        """What the layers have beyond those of the paper, BERT, GPT-2 and T5, in words."""
        if not len(self.layers):
            return ()
        from jumok.nn.disentangled import DisentangledAttention, RelativeEmbedding

        layer = self.layers[0]
        attention, norm = layer.self_attention, layer.self_attention_norm
        found = {
            "attention of an extension": type(attention)
            not in (MultiHeadAttention, DisentangledAttention),
            "disentangled attention": type(attention) is DisentangledAttention,
            "grouped key/value heads": attention.n_kv_heads != attention.n_heads,
            "norms of queries and keys": not isinstance(attention.query_norm, nn.Identity),
            "an attention softcap": attention.softcap is not None,
            "norms after sublayers": not isinstance(norm.sublayer_norm, nn.Identity),
            "positions of an extension": any(
                each is not None
                and type(each) not in (RotaryPositions, RelativePositionBias, RelativeEmbedding)
                for each in (self.rotary, self.local_rotary, self.relative)
            ),
            "norms of an extension": any(
                type(each) not in (nn.LayerNorm, nn.RMSNorm, OffsetRMSNorm, nn.Identity)
                for each in (norm.norm, norm.sublayer_norm)
            ),
            "norms with a weight relative to 1": isinstance(self.norm, OffsetRMSNorm),
            "norms without a bias": any(
                isinstance(each, nn.LayerNorm) and each.bias is None
                for each in (norm.norm, norm.sublayer_norm, self.norm)
            ),
            "a first layer without a norm": norm.norm_first and isinstance(norm.norm, nn.Identity),
            "local layers": "L" in self.kinds,
            "layers without rotation": "N" in self.kinds,
            "a rope base or scaling": any(
                isinstance(rotary, RotaryPositions) and rotary.config != DEFAULT_ROPE
                for rotary in (self.rotary, self.local_rotary)
            ),
            "biases of queries, keys and values alone": (attention.query.bias is None)
            != (attention.output.bias is None),
        }
        return tuple(name for name, has in found.items() if has)


def rotations_of_layers(
    rotary: nn.Module | None, local: nn.Module | None, positions: Tensor
) -> dict[str, Rotation]:
    """The rotation of the layers of each kind at positions (B, T)."""
    if rotary is None or local is None:
        return dict.fromkeys("GLN", NO_ROTATION)
    shared = rotary(positions)
    return {"G": shared, "L": shared if local is rotary else local(positions), "N": NO_ROTATION}
