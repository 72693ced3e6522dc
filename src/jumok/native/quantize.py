"""Weights in eight bits: one scale for each output of a linear map, exact where it matters.

    w = scale * q,   q in -127 ... 127,   scale = max|w| / 127 over the weights of one output

Symmetric: 0 stays 0, and no offset has to be carried through the sums.
"""

import torch
from torch import Tensor

MOST = 127


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """weight (N, K) -> q (N, K) int8 and scale (N) float32 with weight close to scale * q.

    No weight moves by more than half a scale. A row of zeros gets scale 1.

    >>> q, scale = quantize_rows(torch.tensor([[1.27, -0.5], [0.0, 0.0]]))
    >>> q.tolist(), scale.tolist()
    ([[127, -50], [0, 0]], [0.009999999776482582, 1.0])
    """
    weight = weight.float()
    scale = weight.abs().amax(1) / MOST  # (N)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    q = (weight / scale[:, None]).round().clamp(-MOST, MOST)
    return q.to(torch.int8), scale
