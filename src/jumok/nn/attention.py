"""Attention: every position asks, and every position it may attend to answers.

"Attention Is All You Need", section 3.2. Shapes stand at the end of a line:
B batch, H heads, T positions asking (queries), S positions attended to (keys), D model width,
K width of one head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.nn.bmm_attention import bmm_attention
from jumok.nn.cache import KeysValues
from jumok.nn.dropout import dropout
from jumok.nn.hooks import HookPoint
from jumok.nn.masks import NO_MASK, AttentionMask
from jumok.nn.positions import NO_ROTATION, Rotation

MAX_BMM_KEYS = 256  # up to so many keys a batched matmul beats the CPU's fused kernel (docs/LOG.md)


def attention_weights(
    q: Tensor, k: Tensor, mask: AttentionMask, bias: Tensor | None, scale: float
) -> Tensor:
    """softmax(Q K^T scale + bias) over what each query may attend to: equation (1), written out.

    q (B, H, T, K), k (B, H, S, K), bias (B|1, H|1, T, S) -> (B, H, T, S), in float32 at least.
    The weights of a query that may see nothing are all 0.
    """
    table = mask.dense(q.shape[-2], k.shape[-2], q.device)
    return masked_softmax(attention_scores(q, k, bias, scale), table)


def attention_scores(q: Tensor, k: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """Q K^T scale + bias, how much each query asks of each key: (B, H, T, S), float32 at least."""
    scores = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)) * scale
    return scores if bias is None else scores + bias


def masked_softmax(scores: Tensor, table: Tensor | None) -> Tensor:
    """The softmax of scores (B, H, T, S) over the keys where the table, (T, S) at least, is True.

    >>> masked_softmax(torch.zeros(2, 2), torch.tensor([[True, False], [True, True]]))
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    if table is None:
        return scores.softmax(-1)
    lowest = torch.finfo(scores.dtype).min  # -inf would give NaN to a query that may see nothing
    return scores.masked_fill(~table, lowest).softmax(-1).masked_fill(~table, 0)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: AttentionMask,
    bias: Tensor | None,
    scale: float,
    p_dropout: float,
) -> Tensor:
    """The same mathematics without keeping the weights: (B, H, T, K).

    The one door to speed. Short rows on a CPU go through two batched matrix products, everything
    else through one kernel that never stores the weights (FlashAttention).
    """
    T, S = q.shape[-2], k.shape[-2]
    short = q.device.type == "cpu" and S <= MAX_BMM_KEYS
    if short and not torch.compiler.is_compiling():  # a compiler traces no derivative of our own
        table = mask.dense(T, S, q.device)
        return bmm_attention(q, k, v, table, bias, scale, p_dropout)
    # T == S: is_causal aligns the triangle top left, a cache's newest queries want it bottom right.
    triangle = mask.causal and mask.allowed is None and bias is None and T == S
    table = None if triangle else mask.dense(T, S, q.device)
    if bias is not None:
        bias = bias.to(q.dtype)
        # -inf is safe here: the kernel answers a row of it with 0, a row of finfo.min with a mean.
        table = bias if table is None else bias.masked_fill(~table, float("-inf"))
    return F.scaled_dot_product_attention(
        q, k, v, table, p_dropout, is_causal=triangle, scale=scale
    )


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own subspace (3.2.2).

        attention(x, x, mask)               self-attention
        attention(x, memory, mask)          cross-attention
        attention.attend(x, k, v, mask)     the same, over keys and values kept from earlier

    While somebody watches one of its hook points, equation (1) runs written out and each of them
    is passed; otherwise the fused kernel runs. A head is switched off by a hook on `weights`.

    >>> attention = MultiHeadAttention(d_model=8, n_heads=2)
    >>> x = torch.zeros(1, 3, 8)
    >>> tuple(attention(x, x).shape)
    (1, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        d_head: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        self.n_heads = n_heads
        d_head = d_head or d_model // n_heads
        self.scale = d_head**-0.5 if scale is None else scale  # T5 was trained with scale 1
        self.dropout = dropout
        self.query = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.key = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.value = nn.Linear(d_model, n_heads * d_head, bias=bias)
        self.output = nn.Linear(n_heads * d_head, d_model, bias=bias)
        self.hook_q = HookPoint()  # (B, H, T, K), turned where positions are rotary
        self.hook_k = HookPoint()  # (B, H, S, K), the same
        self.hook_v = HookPoint()  # (B, H, S, K)
        self.hook_scores = HookPoint()  # (B, H, T, S) before the mask, bias included
        self.hook_mask = HookPoint()  # (..., T, S) bool: the mask
        self.hook_pattern = HookPoint()  # (B, H, T, S) after the softmax

    @property
    def has_hooks(self) -> bool:
        """Whether anybody watches what happens inside."""
        points = (
            self.hook_q,
            self.hook_k,
            self.hook_v,
            self.hook_scores,
            self.hook_mask,
            self.hook_pattern,
        )
        return any(point.has_hooks for point in points)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        mask: AttentionMask = NO_MASK,
        bias: Tensor | None = None,
        rotation: Rotation = NO_ROTATION,
    ) -> Tensor:
        """What the positions of x (B, T, D) find in source (B, S, D): (B, T, D)."""
        return self.attend(x, *self.project(source, rotation), mask, bias, rotation)

    def project(self, source: Tensor, rotation: Rotation = NO_ROTATION) -> KeysValues:
        """The keys and values of `source`, ready to be attended to or kept in a cache."""
        k = rotation(self.split(self.key(source)))  # (B, H, S, K)
        return k, self.split(self.value(source))  # 2 x (B, H, S, K)

    def attend(
        self,
        x: Tensor,
        k: Tensor,
        v: Tensor,
        mask: AttentionMask = NO_MASK,
        bias: Tensor | None = None,
        rotation: Rotation = NO_ROTATION,
    ) -> Tensor:
        """What the positions of x (B, T, D) find among keys and values (B, H, S, K)."""
        q = rotation(self.split(self.query(x)))  # (B, H, T, K)
        p_dropout = self.dropout if self.training else 0.0
        if self.has_hooks:
            y = self._explicit_attention(q, k, v, mask, bias, p_dropout)  # (B, H, T, K)
        else:
            y = fused_attention(q, k, v, mask, bias, self.scale, p_dropout)  # (B, H, T, K)
        return self.output(y.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]  # (B, T, D)

    def _explicit_attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: AttentionMask,
        bias: Tensor | None,
        p_dropout: float,
    ) -> Tensor:
        """Equation (1), everybody who watches looking on: (B, H, T, K)."""
        q, k, v = self.hook_q(q), self.hook_k(k), self.hook_v(v)
        T, S = q.shape[-2], k.shape[-2]
        scores = self.hook_scores(attention_scores(q, k, bias, self.scale))  # (B, H, T, S)
        table = mask.dense(T, S, q.device)
        if self.hook_mask.has_hooks:
            table = self.hook_mask(
                scores.new_ones(T, S, dtype=torch.bool) if table is None else table
            )
        weights = self.hook_pattern(masked_softmax(scores, table))  # (B, H, T, S)
        return dropout(weights, p_dropout).to(v.dtype) @ v

    def split(self, x: Tensor) -> Tensor:
        """One row for all heads -> one row a head."""
        B, T, _ = x.shape
        return x.view(B, T, self.n_heads, -1).transpose(1, 2)  # (B, T, H*K) -> (B, H, T, K)
