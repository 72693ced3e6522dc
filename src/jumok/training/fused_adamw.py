"""AdamW with clipping and the moving average in one pass over memory, by the C++ kernel.

A step of `torch.optim.AdamW(fused=True)` reads and writes gradients for clipping, then weights and
moments, then weights and averages: for a vocabulary of 32,000 that takes as long as a layer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumok.native.training import ADAMW_TENSOR, CpuTrainingKernel
from jumok.nn.training_kernel import active_kernel


class FusedAdamW(torch.optim.AdamW):
    """AdamW whose `fused_step` is its step where the kernel is switched on."""

    def __init__(self, groups: Any, **options: Any) -> None:
        super().__init__(groups, fused=True, **options)
        self.counts: dict[Tensor, tuple[Tensor, float]] = {}  # "step" of each weight, its number
        self.steps = torch.empty(0)  # of all weights: "step" of each is a part of it

    def fused_step(
        self, scale: float, averages: Mapping[Tensor, Tensor], average_weight: float
    ) -> list[Tensor]:
        """Update by gradients times `scale`, and average the weights in; those that it updated.

        `averages` are by weight. Nothing is done where the kernel cannot: then the list is empty.
        """
        groups = [(group, [p for p in group["params"] if p.grad is not None])
                  for group in self.param_groups]  # fmt: skip
        updated = [weight for _, weights in groups for weight in weights]
        kernel = kernel_of([*updated, *(weight.grad for weight in updated)])
        if kernel is None:
            self.counts.clear()  # `step` counts on
            return []
        rows = [
            self._row(weight, group, averages.get(weight))
            for group, weights in groups
            for weight in weights
        ]
        self._count(updated)
        first = self.param_groups[0]
        kernel.adamw(
            np.array(rows, ADAMW_TENSOR), first["betas"], first["eps"], scale, average_weight
        )
        return updated

    def _count(self, updated: Sequence[Tensor]) -> None:
        """Add 1 to "step" of these weights: in one operation if they are all of them."""
        steps = [self.state[weight]["step"] for weight in updated]
        if len(steps) != len(self.steps) or any(each._base is not self.steps for each in steps):
            self.steps = torch.stack(steps)
            for weight, step in zip(updated, self.steps, strict=True):
                self.state[weight]["step"] = step
                self.counts[weight] = step, self.counts[weight][1]
        self.steps.add_(1)

    def _row(
        self, weight: Tensor, group: Mapping[str, Any], average: Tensor | None
    ) -> tuple[float, ...]:
        """A row of ADAMW_TENSOR."""
        state, gradient = self.state[weight], weight.grad
        assert gradient is not None
        if not state:
            state["step"] = torch.tensor(0.0)
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(weight) for _ in range(2))
        tensor, count = self.counts.get(weight, (None, 0.0))
        count = 1 + (count if tensor is state["step"] else state["step"].item())
        self.counts[weight] = state["step"], count
        rate, (beta1, beta2) = group["lr"], group["betas"]
        return (
            *(weight.data_ptr(), state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr()),
            *(0 if average is None else average.data_ptr(), gradient.data_ptr(), weight.numel()),
            *(1 - rate * group["weight_decay"], rate / (1 - beta1**count)),
            (1 - beta2**count) ** 0.5,
        )


def kernel_of(tensors: Sequence[Tensor | None]) -> CpuTrainingKernel | None:
    """The kernel, if it is switched on and computes tensors like these."""
    kernel = active_kernel()
    if not isinstance(kernel, CpuTrainingKernel):
        return None
    usable = all(
        each is not None
        and type(each) in (Tensor, torch.nn.Parameter)  # not a part of a sharded one
        and each.dtype == torch.float32
        and each.device.type == "cpu"
        and each.is_contiguous()
        for each in tensors
    )
    return kernel if usable else None


def gradient_norm(gradients: Sequence[Tensor]) -> Tensor:
    """The norm of all gradients together: ()."""
    kernel = kernel_of(gradients)
    if kernel is not None:
        return torch.tensor(kernel.norm(gradients))
    return torch.nn.utils.get_total_norm(gradients)
