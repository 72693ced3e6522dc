"""Dropout (5.4) from cheap random bytes: on a CPU the usual one takes a seventh of the step."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

LEVELS = 256  # a byte decides: probabilities are multiples of 1/256


class Dropout(nn.Module):
    """Zero each number with probability `p` in training, scale the others up; else the identity.

    On the CPU one random byte decides, so p is rounded to a multiple of 1/256 and the scale uses
    the rounded p: the mean is kept exactly. Elsewhere torch's own kernel does it.

    >>> Dropout(0.5).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """The same shape as x."""
        return dropout(x, self.p if self.training else 0.0)

    def extra_repr(self) -> str:
        """What print(module) shows."""
        return f"p={self.p}"


def dropout(x: Tensor, p: float) -> Tensor:
    """Dropout of every number of x with probability p; x itself when p is 0."""
    if p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    hidden = min(max(round(p * LEVELS), 1), LEVELS - 1)
    return _ByteDropout.apply(x, hidden)  # type: ignore[no-any-return, no-untyped-call]


class _ByteDropout(torch.autograd.Function):
    """x * kept * scale, remembering one byte a number."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, hidden: int) -> Tensor:
        kept = random_bytes(x.numel()).view(x.shape) >= hidden
        ctx.scale = LEVELS / (LEVELS - hidden)  # type: ignore[attr-defined]
        ctx.save_for_backward(kept)
        return (x * kept).mul_(ctx.scale)  # type: ignore[attr-defined]

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return (gradient * kept).mul_(ctx.scale), None  # type: ignore[attr-defined]


def random_bytes(n: int) -> Tensor:
    """n uniform bytes (uint8) of torch's CPU generator: eight from every 64-bit draw."""
    words = torch.empty(-(-n // 8), dtype=torch.int64)
    return words.random_(-(2**63), None).view(torch.uint8)[:n]
