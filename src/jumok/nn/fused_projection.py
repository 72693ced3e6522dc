"""Several linear maps of the same input in one matrix product: x [W1 W2 W3]."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def fused_linear(x: Tensor, maps: Sequence[nn.Linear]) -> tuple[Tensor, ...]:
    """The outputs of the maps of x (B, T, D), in one product with their weights concatenated.

    Maps of another class, such as those with LoRA, are computed one after the other. Hooks on the
    maps themselves are not called.

    >>> x, maps = torch.rand(1, 3, 4), [nn.Linear(4, 4), nn.Linear(4, 2)]
    >>> [tuple(y.shape) for y in fused_linear(x, maps)]
    [(1, 3, 4), (1, 3, 2)]
    """
    if any(type(each) is not nn.Linear for each in maps):
        return tuple(each(x) for each in maps)
    weight = torch.cat(tuple(each.weight for each in maps))  # (sum of widths, D)
    biases = tuple(each.bias for each in maps if each.bias is not None)
    y = F.linear(x, weight, torch.cat(biases) if biases else None)
    return torch.split(y, [each.out_features for each in maps], -1)
