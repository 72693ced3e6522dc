"""The distance of two tensors, and tolerances for it."""

from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)

FLOAT64 = 1e-12  # rounding stays near 1e-15, logic errors near 1e-3
FLOAT32 = 1e-5
BFLOAT16 = 2e-2  # one rounding is 2^-9 = 0.002; a layer has several


def relative_error(a: Tensor, b: Tensor) -> float:
    """max|a - b| / max(1, max|b|)."""
    assert a.shape == b.shape, (tuple(a.shape), tuple(b.shape))
    if not b.numel():
        return 0.0
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))


def close(a: Tensor, b: Tensor, tolerance: float = FLOAT32) -> bool:
    """Asserts that a equals b up to rounding; NaN is never close."""
    error = relative_error(a, b)
    assert error <= tolerance, f"error {error:.1e}, tolerance {tolerance:.0e}"
    return True


def randomized(module: Module, seed: int = 0) -> Module:
    """`module` with random parameters, so that no 0 or 1 hides a missing term."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            gain = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(gain + 0.4 * noise)
    return module


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """A copy of each parameter's gradient; parameters without one are left out."""
    return {
        name: parameter.grad.clone()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
