"""Pooling: the vectors of a text's tokens become one vector of the text.

Shapes: B batch, T positions, D model width, N texts packed in rows.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Pooling = Literal["first", "mean", "max", "compare"]

# A layer of its own behind the pooling: tanh in BERT, gelu in ELECTRA, relu in DistilBERT.
Pooler = Literal["none", "tanh", "gelu", "relu"]
POOLERS = {"tanh": nn.Tanh, "gelu": nn.GELU, "relu": nn.ReLU}


def pool(hidden: Tensor, real: Tensor | None, kind: Literal["first", "mean", "max"]) -> Tensor:
    """One vector a text: (B, T, D) -> (B, D); a text without tokens gives 0.

    real (B, T) bool is None without padding.

    >>> hidden = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> real = torch.tensor([[True, True, False]])
    >>> [pool(hidden, real, kind).item() for kind in ("first", "mean", "max")]
    [1.0, 2.0, 3.0]
    """
    if real is None:
        real = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if kind == "first":
        pooled = hidden[torch.arange(hidden.shape[0], device=hidden.device), real.int().argmax(-1)]
    elif kind == "mean":
        pooled = (hidden * real[..., None]).sum(1) / real.sum(-1, keepdim=True).clamp(min=1)
    else:
        pooled = hidden.masked_fill(~real[..., None], torch.finfo(hidden.dtype).min).amax(1)
    return pooled.masked_fill(~real.any(-1, keepdim=True), 0)  # (B, D)


def pool_packed(
    hidden: Tensor,
    texts: Tensor,
    positions: Tensor,
    n_texts: int,
    kind: Literal["first", "mean", "max"],
) -> Tensor:
    """One vector for each of `n_texts` texts packed end to end in rows: (B, T, D) -> (N, D).

    texts (B, T) int64: the number of the text each token belongs to, -1 on padding;
    positions (B, T) int64 begin at 0 with every text. A text without tokens gives 0.

    >>> hidden = torch.tensor([[[1.0], [3.0], [9.0], [7.0]]])
    >>> texts, positions = torch.tensor([[0, 0, 1, -1]]), torch.tensor([[0, 1, 0, 0]])
    >>> [pool_packed(hidden, texts, positions, 2, kind).tolist() for kind in ("first", "mean")]
    [[[1.0], [9.0]], [[2.0], [9.0]]]
    """
    inside = texts >= 0
    rows, owner = hidden[inside], texts[inside]  # (tokens, D), (tokens,)
    pooled = rows.new_zeros(n_texts, rows.shape[-1])  # (N, D)
    if kind == "first":
        first = positions[inside] == 0
        return pooled.index_copy(0, owner[first], rows[first])
    reduce = {"mean": "mean", "max": "amax"}[kind]
    return pooled.scatter_reduce(
        0, owner[:, None].expand_as(rows), rows, reduce, include_self=False
    )


def pair_features(hidden: Tensor, real: Tensor | None, segments: Tensor | None) -> Tensor:
    """The means u and v of the two texts of a pair, [CLS] a [SEP] b [SEP], and what parts them.

    (B, T, D) -> (B, 4D): u, v, |u - v| and u * v (Conneau et al. 2017, section 3.1), of the texts'
    own tokens: those that frame them would make all pairs alike. segments (B, T) are 0 for tokens
    of the first text and 1 for those of the second; None: all are 0.

    >>> hidden = torch.tensor([[[7.0], [1.0], [3.0], [7.0], [5.0], [7.0]]])
    >>> compare(hidden, None, torch.tensor([[0, 0, 0, 0, 1, 1]])).tolist()
    [[2.0, 5.0, 3.0, 10.0]]
    """
    u, v = (pool(hidden, own, "mean") for own in _both(hidden, real, segments))  # (B, D)
    return torch.cat([u, v, (u - v).abs(), u * v], -1)


def similarity_features(hidden: Tensor, real: Tensor | None, segments: Tensor | None) -> Tensor:
    """How alike the two texts of a pair are, token by token: (B, T, D) -> (B, 3), -1 to 1.

    The cosine of their means; of each token of the first with the nearest of the second, the mean;
    and the other way round (late interaction, Khattab and Zaharia 2020, section 3.3). Vectors that
    nobody trained yet tell already which tokens both texts hold. Arguments as of `compare`; a text
    without tokens is like none.

    >>> one, other, frame = [1.0, 0.0], [0.0, 1.0], [9.0, 9.0]
    >>> hidden = torch.tensor([[frame, one, other, frame, other, frame]])
    >>> likeness(hidden, None, torch.tensor([[0, 0, 0, 0, 1, 1]]))
    tensor([[0.7071, 0.5000, 1.0000]])
    """
    first, second = _both(hidden, real, segments)  # (B, T)
    u, v = (pool(hidden, own, "mean") for own in (first, second))  # (B, D)
    unit = F.normalize(hidden, dim=-1)
    cosines = unit @ unit.mT  # (B, T, T)
    near = cosines.masked_fill(~(first[:, :, None] & second[:, None, :]), -1.0)
    some = first.any(-1) & second.any(-1)  # (B)
    found = [
        F.cosine_similarity(u, v, dim=-1),
        pool(near.amax(2)[..., None], first, "mean")[:, 0],
        pool(near.amax(1)[..., None], second, "mean")[:, 0],
    ]
    return torch.stack(found, -1).masked_fill(~some[:, None], 0)


def _both(hidden: Tensor, real: Tensor | None, segments: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which tokens are the first text's own, and which the second's: 2 x (B, T) bool."""
    if real is None:
        real = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if segments is None:
        segments = torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    marked = segments.masked_fill(~real, -1)  # (B, T)
    begins = real & (real.cumsum(-1) == 1)
    ends = marked != F.pad(marked[:, 1:], (0, 1), value=-1)
    inside = real & ~begins & ~ends
    return inside & (segments == 0), inside & (segments == 1)
