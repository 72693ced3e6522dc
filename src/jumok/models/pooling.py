"""Pooling: from one vector per token to one vector per text.

Shapes: B batch, T positions, D model width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.models.config import TokenPooling

POOLERS = {"tanh": nn.Tanh, "gelu": nn.GELU, "relu": nn.ReLU}


def pool(hidden: Tensor, mask: Tensor | None, kind: TokenPooling) -> Tensor:
    """One vector per text: (B, T, D) -> (B, D); zeros for a text without tokens.

    mask (B, T) bool, True = real token; None: no padding.

    >>> hidden = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> mask = torch.tensor([[True, True, False]])
    >>> [pool(hidden, mask, kind).item() for kind in ("first", "mean", "max")]
    [1.0, 2.0, 3.0]
    """
    if mask is None:
        mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if kind == "first":
        pooled = hidden[torch.arange(hidden.shape[0], device=hidden.device), mask.int().argmax(-1)]
    elif kind == "mean":
        pooled = (hidden * mask[..., None]).sum(1) / mask.sum(-1, keepdim=True).clamp(min=1)
    else:
        pooled = hidden.masked_fill(~mask[..., None], torch.finfo(hidden.dtype).min).amax(1)
    return pooled.masked_fill(~mask.any(-1, keepdim=True), 0)  # (B, D)


def pair_features(hidden: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
    """The means u and v of the two texts of a pair, [CLS] a [SEP] b [SEP], and their differences.

    (B, T, D) -> (B, 4D): u, v, |u - v| and u * v (Conneau et al. 2017, section 3.1), without the
    special tokens, which would make all pairs similar. segments (B, T) are 0 for the tokens of the
    first text and 1 for those of the second; None: all 0.

    >>> hidden = torch.tensor([[[7.0], [1.0], [3.0], [7.0], [5.0], [7.0]]])
    >>> pair_features(hidden, None, torch.tensor([[0, 0, 0, 0, 1, 1]])).tolist()
    [[2.0, 5.0, 3.0, 10.0]]
    """
    u, v = (pool(hidden, part, "mean") for part in _pair_masks(hidden, mask, segments))  # (B, D)
    return torch.cat([u, v, (u - v).abs(), u * v], -1)


def similarity_features(hidden: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
    """Three token-wise similarities of the two texts of a pair: (B, T, D) -> (B, 3), -1 to 1.

    The cosine of the two means; the mean, over the tokens of the first text, of the cosine with the
    nearest token of the second; and the same with the texts exchanged (late interaction, Khattab
    and Zaharia 2020, section 3.3). Even untrained vectors show which tokens occur in both texts.
    The arguments are those of `pair_features`; a text without tokens gives zeros.

    >>> one, other, special = [1.0, 0.0], [0.0, 1.0], [9.0, 9.0]
    >>> hidden = torch.tensor([[special, one, other, special, other, special]])
    >>> similarity_features(hidden, None, torch.tensor([[0, 0, 0, 0, 1, 1]]))
    tensor([[0.7071, 0.5000, 1.0000]])
    """
    first, second = _pair_masks(hidden, mask, segments)  # (B, T)
    u, v = (pool(hidden, part, "mean") for part in (first, second))  # (B, D)
    unit = F.normalize(hidden, dim=-1)
    cosines = unit @ unit.mT  # (B, T, T)
    near = cosines.masked_fill(~(first[:, :, None] & second[:, None, :]), -1.0)
    both = first.any(-1) & second.any(-1)  # (B)
    features = [
        F.cosine_similarity(u, v, dim=-1),
        pool(near.amax(2)[..., None], first, "mean")[:, 0],
        pool(near.amax(1)[..., None], second, "mean")[:, 0],
    ]
    return torch.stack(features, -1).masked_fill(~both[:, None], 0)


def _pair_masks(
    hidden: Tensor, mask: Tensor | None, segments: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The tokens of the first and of the second text, without special tokens: 2 x (B, T) bool."""
    if mask is None:
        mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if segments is None:
        segments = torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    marked = segments.masked_fill(~mask, -1)  # (B, T)
    first_token = mask & (mask.cumsum(-1) == 1)
    last_tokens = marked != F.pad(marked[:, 1:], (0, 1), value=-1)  # of each segment
    inner = mask & ~first_token & ~last_tokens
    return inner & (segments == 0), inner & (segments == 1)
