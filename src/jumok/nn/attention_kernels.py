"""The mathematics of `attention.py` without its weights, by the fastest kernel for the length.

Shapes: B batch, H heads, T query positions, S key positions, K width of one head.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from jumok.nn.bmm_attention import bmm_attention
from jumok.nn.masks import AttentionMask

MAX_BMM_KEYS = 256  # up to here batched matmuls are faster than the fused CPU kernel (docs/LOG.md)


def fused_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: AttentionMask,
    bias: Tensor | None,
    scale: float,
    p_dropout: float,
) -> Tensor:
    """Equation (1) and the weighted sum, without returning the weights: (B, H, T, K).

    Short rows on a CPU use two batched matrix products, all others one FlashAttention kernel.

    q (B, H, T, K), k and v (B, H, S, K), bias (B|1, H|1, T, S); `p_dropout` of the weights are 0.

    >>> from jumok.nn.masks import NO_MASK
    >>> q, k, v = torch.ones(3, 1, 2, 4, 8)  # 3 x (B, H, T, K)
    >>> fused_attention(q, k, v, NO_MASK, None, scale=8**-0.5, p_dropout=0.0).shape
    torch.Size([1, 2, 4, 8])
    """
    T, S = q.shape[-2], k.shape[-2]
    short = q.device.type == "cpu" and S <= MAX_BMM_KEYS
    if short and not torch.compiler.is_compiling():  # torch.compile cannot trace our own backward
        allowed = mask.hiding(T, S, q.device)
        if bias is not None:  # a row of -inf gets 0, as below, also next to padding
            finite = bias != float("-inf")
            allowed = finite if allowed is None else allowed & finite
        return bmm_attention(q, k, v, allowed, bias, scale, p_dropout)
    # is_causal aligns the triangle top left; the newest T of S > T queries need it bottom right.
    triangle = mask.is_triangle(S) and bias is None and T == S
    attn_mask = None if triangle else mask.hiding(T, S, q.device)
    if bias is not None:
        bias = bias.to(q.dtype)
        # -inf is safe: the kernel returns 0 for a row of -inf, but a mean for a row of finfo.min.
        attn_mask = bias if attn_mask is None else bias.masked_fill(~attn_mask, float("-inf"))
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask, p_dropout, is_causal=triangle, scale=scale
    )
