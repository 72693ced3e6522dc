"""How far the numbers of two models are apart."""

import math
from collections.abc import Iterable

from torch import Tensor


def difference(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """max |a - b| / max(1, max |b|) over all numbers of all pairs a, b of one shape each.

    NaN when one of them is NaN or infinite.

    >>> import torch
    >>> difference([(torch.tensor([2.0, 4.0]), torch.tensor([2.0, 5.0]))])
    0.2
    """
    apart, largest = 0.0, 1.0
    for a, b in pairs:
        if not (a.isfinite().all() and b.isfinite().all()):
            return math.nan
        if b.numel():
            apart = max(apart, float((a - b).abs().max()))
            largest = max(largest, float(b.abs().max()))
    return apart / largest
