"""Dropout (5.4) from random bytes: on a CPU, F.dropout takes a seventh of a training step."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from jumok.torch_ops import has_transforms, has_vmap

BYTE_LEVELS = 256  # one random byte per number: probabilities are multiples of 1/256


class Dropout(nn.Module):
    """In training, zero each number with probability `p` and scale up the rest; else the identity.

    On the CPU one random byte per number is compared, so p is rounded to a multiple of 1/256 and
    the scale uses the rounded p: the mean is kept, except for the rounding of bfloat16 (0.3 % at
    p = 0.1). Other devices use torch's kernel.

    >>> Dropout(0.5).eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """x with dropout, in the same shape."""
        return dropout(x, self.p if self.training else 0.0)

    def add_residual(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y), in one pass over memory: the residual sum of Add & Norm."""
        p = self.p if self.training else 0.0
        if p == 0.0 or not _uses_bytes(y) or has_transforms():
            return x + dropout(y, p)
        return _DropoutAdd.apply(x, y, dropout_mask(y, p))  # type: ignore[no-any-return, no-untyped-call]

    def extra_repr(self) -> str:
        """The arguments that print(module) shows."""
        return f"p={self.p}"


def dropout(x: Tensor, p: float) -> Tensor:
    """Dropout of every number of x with probability p; x itself when p is 0."""
    if p == 0.0:
        return x
    if not _uses_bytes(x):
        return F.dropout(x, p)
    return x * dropout_mask(x, p)


def dropout_mask(like: Tensor, p: float) -> Tensor:
    """The factors of dropout: 0 with probability p, else 1 / (1 - p), p rounded to 1/256.

    The mask has the shape and dtype of `like`. It is computed without branches or Booleans, which
    cost more on a CPU than the random bytes themselves (docs/LOG.md).

    >>> mask = dropout_mask(torch.empty(1000), p=0.25)
    >>> mask.unique()
    tensor([0.0000, 1.3333])
    """
    if has_vmap():  # torch's own kernel draws for each entry as the `randomness` of vmap demands
        return F.dropout(torch.ones_like(like), p)
    dropped = min(max(round(p * BYTE_LEVELS), 1), BYTE_LEVELS - 1)  # of 256 byte values
    scale = BYTE_LEVELS / (BYTE_LEVELS - dropped)
    kept = (random_bytes(like.numel()) >= dropped).view(torch.uint8)
    return kept.to(like.dtype).mul_(scale).view(like.shape)


def random_bytes(n: int) -> Tensor:
    """n uniform bytes (uint8) from torch's CPU generator: eight from each 64-bit draw."""
    words = torch.empty(-(-n // 8), dtype=torch.int64)
    return words.random_(-(2**63), None).view(torch.uint8)[:n]


def _uses_bytes(x: Tensor) -> bool:
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


class _DropoutAdd(torch.autograd.Function):
    """x + y * mask; its gradients are linear too, so PyTorch differentiates the backward pass."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return torch.addcmul(x, y, mask)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors  # type: ignore[attr-defined]
        return gradient, (gradient * mask).to(mask.dtype), None
