"""How far two tensors are apart, and how far they may be."""

from typing import TypeVar

import torch
from torch import Tensor, nn

Module = TypeVar("Module", bound=nn.Module)

FLOAT64 = 1e-12  # rounding stays near 1e-15, an error of logic near 1e-3: nothing lives between
FLOAT32 = 1e-5
BFLOAT16 = 2e-2  # one rounding is 2^-9 = 0.002; a layer makes a few in a row


def relative_error(a: Tensor, b: Tensor) -> float:
    """max|a - b| / max(1, max|b|)."""
    assert a.shape == b.shape, (tuple(a.shape), tuple(b.shape))
    if not b.numel():
        return 0.0
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1))


def close(a: Tensor, b: Tensor, tolerance: float = FLOAT32) -> bool:
    """Whether a is b up to rounding; NaN is close to nothing."""
    far = relative_error(a, b)
    assert far <= tolerance, f"{far:.1e} apart, {tolerance:.0e} allowed"
    return True


def randomized(module: Module, seed: int = 0) -> Module:
    """`module` with every parameter random, so that no term hides behind a 0 or a 1."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
            gain = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(gain + 0.4 * noise)
    return module


def gradients(module: nn.Module) -> dict[str, Tensor]:
    """A copy of each parameter's gradient; parameters that got none are left out."""
    return {
        name: parameter.grad.clone()
        for name, parameter in module.named_parameters()
        if parameter.grad is not None
    }
