"""What C++ computes in a training on a CPU: switched on by the trainer, in its process alone.

The functions of `nn` that have a form there ask `training_kernel` for it. Without a compiler, on
other devices, for other types, under transforms of torch.func and while torch compiles, they
compute with operations of PyTorch.

Shapes: B batch, H heads, T queries, S keys, K head width; N tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from jumok.torch_ops import has_transforms

DTYPES = (torch.float32, torch.bfloat16)


class TrainingKernel(Protocol):
    """The functions in C++; tensors are on the CPU and float32, logits also bfloat16."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        """softmax(Q K^T scale) V: (B, H, T, K) and the weights (B, H, T, S).

        allowed (B|1, H|1, T|1, S) bool or fewer dimensions; a query without a key gets zeros.
        """

    def attend_backward_(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        weights: Tensor,
        dy: Tensor,
        scale: float,
        gradients: Sequence[Tensor],
    ) -> None:
        """Write the gradients by q, k and v."""

    def rotate_rows_(self, x: Tensor, cosine: Tensor, sine: Tensor, sign: float) -> None:
        """Rotate all heads of the rows x (B*T, H*K) by the angles (B|1, 1, T, K); -1: back."""

    def cross_entropy_(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The loss of each token (N,) float32; logits (N, V) become their gradient."""


_kernel: TrainingKernel | None = None


def training_kernel(x: Tensor) -> TrainingKernel | None:
    """The kernel, if one is switched on and computes tensors like x.

    >>> training_kernel(torch.ones(1)) is None
    True
    """
    if _kernel is None or x.device.type != "cpu" or x.dtype not in DTYPES:
        return None
    if torch.is_inference_mode_enabled():  # an evaluation computes what `jumok evaluate` does
        return None
    return None if has_transforms() or torch.compiler.is_compiling() else _kernel


def active_kernel() -> TrainingKernel | None:
    """The kernel that is switched on, whatever it computes."""
    return _kernel


@contextmanager
def use_training_kernel(kernel: TrainingKernel | None) -> Iterator[None]:
    """Context in which `training_kernel` returns this kernel; None: no kernel."""
    global _kernel  # as torch.set_num_threads: a training has the process to itself
    before, _kernel = _kernel, kernel
    try:
        yield
    finally:
        _kernel = before
