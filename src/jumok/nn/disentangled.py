"""Disentangled attention (DeBERTa; He et al. 2021, section 3.1, equation 4).

    score(i, j) = (q_i k_j + q_i K(i - j) + k_j Q(i - j)) scale

K and Q are the keys and queries of relative positions: content to position, position to content.

Shapes: B batch, H heads, T queries, S keys, D model width, K head width, N buckets of distances.
"""

from typing import Self

import torch
from torch import Tensor, nn

from jumok.nn.attention import MultiHeadAttention
from jumok.nn.config import LayerConfig
from jumok.nn.dropout import Dropout
from jumok.nn.hooks import HookPoint
from jumok.nn.norms import make_norm
from jumok.nn.positions import PositionBias, RelativeVectors


class RelativeEmbedding(nn.Module):
    """One trained vector for each bucket of distances, which all layers share.

    Half of the buckets are for each direction. The nearest half of these are single distances,
    longer ones share buckets logarithmically up to `max_distance` (He et al. 2023, DeBERTaV3);
    with as many buckets as distances, each distance has its own.
    """

    def __init__(self, n_buckets: int, max_distance: int, d_model: int) -> None:
        super().__init__()
        self.n_buckets, self.max_distance = n_buckets, max_distance
        self.table = nn.Embedding(n_buckets, d_model)
        nn.init.normal_(self.table.weight, std=0.02)
        self.norm: nn.Module = nn.Identity()

    def forward(self, T: int, S: int) -> RelativeVectors:
        """The vectors, and the bucket of the newest T of S positions towards all S."""
        positions = torch.arange(S, device=self.table.weight.device)
        distance = positions[S - T :, None] - positions[None, :]  # (T, S), query minus key
        return RelativeVectors(self.norm(self.table.weight), self.bucket(distance))

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance (query position minus key position), any shape, int64.

        >>> relative = RelativeEmbedding(8, 16, d_model=4)
        >>> relative.bucket(torch.tensor([-20, -3, -1, 0, 1, 2, 3, 20]))
        tensor([0, 1, 3, 4, 5, 6, 7, 7])
        """
        half = self.n_buckets // 2
        if half < self.max_distance:
            distance = self._shared(distance, half // 2)
        return (distance + half).clamp(0, self.n_buckets - 1)

    def _shared(self, distance: Tensor, n_single: int) -> Tensor:
        """Distances from `n_single` on, replaced by the numbers of their shared buckets.

        The logarithms are rounded to float32 as in the reference: at the limits it matters.
        """
        far = distance.abs().clamp(min=n_single)
        ratio = (far.float() / n_single).double().log().float()
        longest = torch.tensor((self.max_distance - 1) / n_single, device=distance.device)
        steps = ratio / longest.double().log().float() * (n_single - 1)
        shared = n_single + steps.ceil().long()
        return torch.where(distance.abs() <= n_single, distance, shared * distance.sign())


class DisentangledAttention(MultiHeadAttention):
    """Attention with scores between content and relative position, and back.

    >>> from jumok.nn.config import LayerConfig
    >>> config = LayerConfig(d_model=8, n_heads=2, attention="disentangled")
    >>> attention = DisentangledAttention.of_layer(config)
    >>> x, relative = torch.zeros(1, 3, 8), DisentangledAttention.stack_bias(config)
    >>> attention(x, x, bias=relative(3, 3)).shape  # (B, T, D)
    torch.Size([1, 3, 8])
    """

    def __init__(self, config: LayerConfig) -> None:
        super().__init__(
            *(config.d_model, config.n_heads),
            d_head=config.d_head,
            bias=config.qkv_bias,
            output_bias=config.attention_output_bias,
            dropout=config.attention_dropout,
            scale=config.score_scale,
            softcap=config.attention_softcap,
            head_norm=(config.norm, config.norm_eps) if config.qk_norm else None,
            fused_qkv=config.fused_qkv,
        )
        self.has_keys = config.position_terms != "position_to_content"
        self.has_queries = config.position_terms != "content_to_position"
        self.position_dropout = Dropout(config.dropout)

        def position_map(needed: bool) -> nn.Linear | None:
            width = config.n_heads * self.d_head
            own = needed and not config.share_position_maps
            return nn.Linear(config.d_model, width, bias=config.qkv_bias) if own else None

        self.position_key = position_map(self.has_keys)  # None: the map of the tokens
        self.position_query = position_map(self.has_queries)
        self.hook_position_scores = HookPoint()  # (B, H, T, S), scaled, before they are added

    @classmethod
    def of_layer(cls, config: LayerConfig) -> Self:
        """The attention of a layer with this config."""
        return cls(config)

    @classmethod
    def stack_bias(cls, config: LayerConfig) -> nn.Module:
        """The vectors of relative positions that all layers share."""
        buckets = config.relative_attention_num_buckets
        distance = config.relative_attention_max_distance
        made = RelativeEmbedding(buckets, distance, config.d_model)
        if config.position_norm:
            made.norm = make_norm(config.norm, config.d_model, config.norm_eps)
        return made

    def position_keys(self, vectors: Tensor) -> Tensor | None:
        """The keys of relative positions: vectors (N, D) -> (H, N, K); None without this term."""
        if not self.has_keys:
            return None
        return self._by_head(self.position_key or self.key, vectors)

    def position_queries(self, vectors: Tensor) -> Tensor | None:
        """The queries of relative positions: vectors (N, D) -> (H, N, K); None without them."""
        if not self.has_queries:
            return None
        return self._by_head(self.position_query or self.query, vectors)

    def position_scores(self, q: Tensor, k: Tensor, bias: PositionBias) -> Tensor | None:
        """The scaled scores between content and relative position: (B, H, T, S)."""
        if not isinstance(bias, RelativeVectors):
            return bias
        vectors = self.position_dropout(bias.vectors)
        shape = (*q.shape[:3], k.shape[2])  # (B, H, T, S)
        buckets = bias.buckets.expand(shape)
        keys, queries = self.position_keys(vectors), self.position_queries(vectors)
        scores = q.new_zeros(())
        if keys is not None:
            scores = (q.to(keys.dtype) @ keys.mT).gather(-1, buckets)  # (B, H, T, N) -> T, S
        if queries is not None:
            found = k.to(queries.dtype) @ queries.mT  # (B, H, S, N)
            scores = scores + found.gather(-1, buckets.mT).mT  # (B, H, T, S)
        return self.hook_position_scores(scores * self.scale)  # type: ignore[no-any-return]

    def _by_head(self, linear: nn.Linear, vectors: Tensor) -> Tensor:
        return linear(vectors).view(len(vectors), self.n_heads, -1).transpose(0, 1)  # type: ignore[no-any-return]  # (H, N, K)
