"""Scaled dot-product attention and multi-head attention.

"Attention Is All You Need", section 3.2. Shapes are written at the end of a line:
B batch, H heads, T query positions, S key positions, D model width, K width of one head.
"""

from typing import Self

import torch
from torch import Tensor, nn

from jumok.nn.attention_kernels import fused_attention
from jumok.nn.config import LayerConfig, check_divisible
from jumok.nn.dropout import dropout
from jumok.nn.fused_projection import fused_linear
from jumok.nn.hooks import HookPoint
from jumok.nn.masks import NO_MASK, AttentionMask, check_attention_mask
from jumok.nn.norms import make_norm
from jumok.nn.positions import NO_ROTATION, PositionBias, RelativeVectors, Rotation

KeysValues = tuple[Tensor, Tensor]  # 2 x (B, G, S, K)
QueriesKeysValues = tuple[Tensor, Tensor, Tensor]  # (B, H, T, K), 2 x (B, G, T, K)


def attention_weights(
    q: Tensor,
    k: Tensor,
    mask: AttentionMask = NO_MASK,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """softmax(Q K^T scale + bias) over the keys that the mask allows: equation (1).

    q (B, H, T, K), k (B, H, S, K), bias (B|1, H|1, T, S) -> (B, H, T, S), at least float32.
    The scale is 1 / sqrt(K) by default. A query that may attend to no key gets weights of 0.
    Raises ConfigError for a mask that is no AttentionMask.

    >>> q = torch.tensor([[[[1.0, 0.0]]]])  # (1, 1, 1, 2)
    >>> k = torch.tensor([[[[2.0, 5.0], [2.0, 7.0]]]])  # (1, 1, 2, 2)
    >>> attention_weights(q, k)
    tensor([[[[0.5000, 0.5000]]]])
    """
    check_attention_mask(mask)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    allowed = mask.hiding(q.shape[-2], k.shape[-2], q.device)
    return masked_softmax(attention_scores(q, k, bias, scale), allowed)


def attention_scores(
    q: Tensor, k: Tensor, bias: Tensor | None, scale: float, softcap: float | None = None
) -> Tensor:
    """Q K^T scale + bias, the scores before the softmax: (B, H, T, S), at least float32.

    With `softcap` c the products are c tanh(Q K^T scale / c), between -c and c (Gemma 2).
    """
    scores = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) * scale
    scores = scores if softcap is None else softcap * (scores / softcap).tanh()
    return scores if bias is None else scores + bias


def masked_softmax(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """The softmax of scores (B, H, T, S) over the keys where `allowed`, at least (T, S), is True.

    A key with a score of -inf is not attended to either, and a query without keys has weights of 0.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [True, True]]))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    hidden = scores == float("-inf")
    hidden = hidden if allowed is None else hidden | ~allowed
    lowest = torch.finfo(scores.dtype).min  # -inf would give NaN to a query without keys
    return scores.masked_fill(hidden, lowest).softmax(-1).masked_fill(hidden, 0)


class MultiHeadAttention(nn.Module):
    """Attention in several heads, each in its own subspace (3.2.2).

    With `n_kv_heads` below `n_heads`, G = n_kv_heads keys and values serve H / G consecutive heads
    each (grouped-query attention, Ainslie et al. 2023). With `head_norm` (a norm and its epsilon)
    queries and keys are normalized, then rotated. `fused_qkv`: x [Wq Wk Wv] in one product.

        attention(x, x, mask)               self-attention
        attention(x, memory, mask)          cross-attention
        attention.attend(x, k, v, mask)     the same, with cached keys and values

    If one of its hook points has a hook, equation (1) is computed step by step through every hook
    point; otherwise the fused kernel runs. A hook on `hook_pattern` can mute a head.

    >>> attention = MultiHeadAttention(d_model=8, n_heads=2)
    >>> x = torch.zeros(1, 3, 8)
    >>> tuple(attention(x, x).shape)
    (1, 3, 8)

    Raises ConfigError for a mask that is no AttentionMask, and for a d_model that n_heads does not
    divide, unless d_head is given.
    """

    @classmethod
    def of_layer(cls, config: LayerConfig) -> Self:
        """The attention of a layer with this config."""
        return cls(
            *(config.d_model, config.n_heads),
            n_kv_heads=config.n_kv_heads,
            d_head=config.d_head,
            bias=config.qkv_bias,
            output_bias=config.attention_output_bias,
            dropout=config.attention_dropout,
            scale=config.attention_scale,
            softcap=config.attention_softcap,
            head_norm=(config.norm, config.norm_eps) if config.qk_norm else None,
            fused_qkv=config.fused_qkv,
        )

    @classmethod
    def stack_bias(cls, config: LayerConfig) -> nn.Module | None:
        """A module from T, S to the bias that all layers of a stack share; None: there is none."""
        return None

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        n_kv_heads: int | None = None,
        d_head: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        softcap: float | None = None,
        head_norm: tuple[str, float] | None = None,
        fused_qkv: bool = False,
    ) -> None:
        super().__init__()
        if d_head is None:
            check_divisible(d_model, n_heads)
        self.n_heads, self.n_kv_heads = n_heads, n_kv_heads or n_heads
        d_head = self.d_head = d_head or d_model // n_heads
        self.scale = d_head**-0.5 if scale is None else scale  # T5 was trained with scale 1
        self.dropout, self.softcap, self.fused_qkv = dropout, softcap, fused_qkv
        self.query = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.key = nn.Linear(d_model, self.n_kv_heads * d_head, bias=bias)
        self.value = nn.Linear(d_model, self.n_kv_heads * d_head, bias=bias)
        output_bias = bias if output_bias is None else output_bias
        self.output = nn.Linear(n_heads * d_head, d_model, bias=output_bias)
        kind, eps = head_norm or ("rms", 0.0)
        self.query_norm = make_norm(kind, d_head, eps) if head_norm else nn.Identity()
        self.key_norm = make_norm(kind, d_head, eps) if head_norm else nn.Identity()
        self.hook_q = HookPoint()  # (B, H, T, K), rotated if positions are rotary
        self.hook_k = HookPoint()  # (B, G, S, K), rotated likewise
        self.hook_v = HookPoint()  # (B, G, S, K)
        self.hook_scores = HookPoint()  # (B, H, T, S) before the mask, with the bias
        self.hook_mask = HookPoint()  # (..., T, S) bool, True = may attend
        self.hook_pattern = HookPoint()  # (B, H, T, S), the weights after the softmax

    @property
    def is_plain(self) -> bool:
        """Whether it is equation (1) between four linear maps, rotated or not, and nothing else."""
        return (
            type(self) is MultiHeadAttention
            and not (self.dropout and self.training)
            and self.n_heads == self.n_kv_heads
            and self.softcap is None
            and type(self.query_norm) is nn.Identity
            and not self.has_hooks
        )

    @property
    def has_hooks(self) -> bool:
        """Whether any hook point has a hook."""
        return any(each.has_hooks for each in self.children() if isinstance(each, HookPoint))

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        mask: AttentionMask = NO_MASK,
        bias: PositionBias = None,
        rotation: Rotation = NO_ROTATION,
    ) -> Tensor:
        """The positions of x (B, T, D) attend to source (B, S, D) -> (B, T, D)."""
        if source is x:
            return self.attend_queries(*self.project_self(x, rotation), mask, bias)
        return self.attend(x, *self.project(source, rotation), mask, bias, rotation)

    def project(self, source: Tensor, rotation: Rotation = NO_ROTATION) -> KeysValues:
        """The keys and values of `source`, to attend to or to cache."""
        k = rotation(self.key_norm(self.split(self.key(source))))  # (B, G, S, K)
        return k, self.split(self.value(source))  # 2 x (B, G, S, K)

    def project_self(self, x: Tensor, rotation: Rotation = NO_ROTATION) -> QueriesKeysValues:
        """Queries, keys and values of the same positions: 3 x (B, H|G, T, K)."""
        maps = (self.query, self.key, self.value)
        q, k, v = map(self.split, fused_linear(x, maps) if self.fused_qkv else (m(x) for m in maps))
        return rotation(self.query_norm(q)), rotation(self.key_norm(k)), v

    def attend(
        self,
        x: Tensor,
        k: Tensor,
        v: Tensor,
        mask: AttentionMask = NO_MASK,
        bias: PositionBias = None,
        rotation: Rotation = NO_ROTATION,
    ) -> Tensor:
        """The positions of x (B, T, D) attend to keys and values (B, G, S, K) -> (B, T, D)."""
        q = rotation(self.query_norm(self.split(self.query(x))))  # (B, H, T, K)
        return self.attend_queries(q, k, v, mask, bias)

    def attend_queries(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, bias: PositionBias = None
    ) -> Tensor:
        """Queries (B, H, T, K) attend to keys and values (B, G, S, K) -> (B, T, D)."""
        check_attention_mask(mask)
        p_dropout = self.dropout if self.training else 0.0
        own_weights = type(self).weights is not MultiHeadAttention.weights
        if self.has_hooks or self.softcap is not None or own_weights:
            y = self._explicit_attention(q, k, v, mask, bias, p_dropout)  # (B, H, T, K)
        else:
            added = self.position_scores(q, k, bias)  # (B|1, H|1, T, S)
            k, v = self._for_each_head(k), self._for_each_head(v)  # 2 x (B, H, S, K)
            y = fused_attention(q, k, v, mask, added, self.scale, p_dropout)  # (B, H, T, K)
        return self.output(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]  # (B, T, D)

    def _explicit_attention(
        self, q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, bias: PositionBias, p: float
    ) -> Tensor:
        """Equation (1), unfused, through every hook point: (B, H, T, K)."""
        q, k, v = self.hook_q(q), self.hook_k(k), self.hook_v(v)
        added = self.position_scores(q, k, bias)  # (B|1, H|1, T, S)
        k, v = self._for_each_head(k), self._for_each_head(v)  # 2 x (B, H, S, K)
        T, S = q.shape[-2], k.shape[-2]
        scores = attention_scores(q, k, added, self.scale, self.softcap)  # (B, H, T, S)
        scores = self.hook_scores(scores)
        allowed = mask.hiding(T, S, q.device)
        if self.hook_mask.has_hooks:
            everything = scores.new_ones(T, S, dtype=torch.bool)
            allowed = self.hook_mask(everything if allowed is None else allowed)
        weights = self.hook_pattern(self.weights(scores, allowed))  # (B, H, T, S)
        return dropout(weights, p).to(v.dtype) @ v

    def position_scores(self, q: Tensor, k: Tensor, bias: PositionBias) -> Tensor | None:
        """What positions add to the scores (B|1, H|1, T, S): the bias; other kinds override it."""
        assert not isinstance(bias, RelativeVectors)
        return bias

    def weights(self, scores: Tensor, allowed: Tensor | None) -> Tensor:
        """The weights of scores (B, H, T, S), 0 where not `allowed`; other kinds override it."""
        return masked_softmax(scores, allowed)

    def split(self, x: Tensor) -> Tensor:
        """Split the last dimension into heads."""
        return x.view(*x.shape[:2], -1, self.d_head).transpose(1, 2)  # (B, H, T, K)

    def _for_each_head(self, x: Tensor) -> Tensor:
        """Keys or values (B, G, S, K), repeated for the heads that share them: (B, H, S, K)."""
        shared_by = self.n_heads // self.n_kv_heads
        return x if shared_by == 1 else x.repeat_interleave(shared_by, 1)
