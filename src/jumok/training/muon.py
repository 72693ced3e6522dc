"""Muon (Jordan et al. 2024) for the matrices of layers.

`torch.optim.Muon` (torch 2.9 and newer) orthogonalizes in bfloat16 on every processor; with AVX2
alone that takes 7 s a step where float32 takes 0.24 s (docs/LOG.md). Here the type is a parameter.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the quintic polynomial of Jordan et al.
ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Momentum whose updates are orthogonal matrices, with decoupled weight decay.

    With the gradient G the momentum B becomes 0.95 B + 0.05 G, and then the weight W becomes
    (1 - rate * decay) W - rate * 0.2 sqrt(max(rows, columns)) orthogonalize(0.95 B + 0.05 G),
    which is Nesterov momentum. The factor gives updates the root mean square of AdamW's, so that
    both have the same learning rates (Liu et al. 2025, "Muon is Scalable for LLM Training", 2.2).

    `groups` are those of any torch optimizer, of matrices only; `dtype` is the type in which
    updates are orthogonalized.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], learning_rate: float, dtype: torch.dtype
    ) -> None:
        super().__init__(groups, {"lr": learning_rate, "weight_decay": 0.0})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update all weights that have a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group["lr"], group["weight_decay"])

    def _update(self, weight: Tensor, gradient: Tensor, rate: float, decay: float) -> None:
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        momentum = state["momentum_buffer"].lerp_(gradient, 1 - MOMENTUM)
        update = orthogonalize(gradient.lerp(momentum, MOMENTUM), self.dtype)
        weight.mul_(1 - rate * decay)
        weight.add_(update, alpha=-0.2 * max(weight.shape) ** 0.5 * rate)


def orthogonalize(matrix: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix with the singular vectors of this one and singular values near 1, from 0.7 to 1.2.

    Newton-Schulz iterations X <- a X + (b X Xᵀ + c (X Xᵀ)²) X. Singular values below about 0.01 of
    the norm of the matrix stay smaller; a zero matrix stays zero. `matrix` (m, n) -> (m, n).

    >>> matrix = torch.tensor([[3.0, 0.0], [0.0, -2.0]])
    >>> orthogonalize(matrix, torch.float32).sign()
    tensor([[ 1.,  0.],
            [ 0., -1.]])
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x = (matrix.T if tall else matrix).to(dtype)  # (m, n), m <= n: the smaller product
    x = x / x.norm().clamp(min=1e-7)  # no singular value above 1
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = x @ x.T  # (m, m)
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.T if tall else x).to(matrix.dtype)
