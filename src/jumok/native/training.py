"""The functions of the C++ kernel that a training calls, over tensors of PyTorch.

They run on the threads of PyTorch's OpenMP runtime; results do not depend on their number.
"""

import ctypes
import logging
import math
from collections.abc import Sequence
from ctypes import c_double, c_float, c_int, c_int32, c_int64, c_void_p
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.errors import InputError
from jumok.native.build import KernelError, kernel_path
from jumok.torch_ops import openmp_functions

logger = logging.getLogger(__name__)

# The struct AdamWTensor of kernel/training/adamw.h.
ADAMW_TENSOR = np.dtype(
    [
        *((name, np.uint64) for name in ("weight", "mean", "square", "average", "gradient")),
        ("size", np.int64),
        *((name, np.float32) for name in ("decay", "step_size", "root")),
    ],
    align=True,
)


class AdamWSettings(ctypes.Structure):
    """The struct of the same name in kernel/training/adamw.h."""

    _fields_ = tuple(
        (name, c_float) for name in ("beta1", "beta2", "epsilon", "scale", "average_weight")
    )


class HeadRows(ctypes.Structure):
    """The struct of the same name in kernel/training/short_attention.h."""

    _fields_ = (
        ("data", c_void_p),
        *((name, c_int64) for name in ("batch", "head", "row")),
    )


class AttentionCall(ctypes.Structure):
    """The struct of the same name in kernel/training/short_attention.h."""

    _fields_ = (
        *((name, HeadRows) for name in ("q", "k", "v", "y", "dq", "dk", "dv")),
        ("allowed", c_void_p),
        *((name, c_int64) for name in ("allowed_batch", "allowed_head", "allowed_row")),
        ("weights", c_void_p),
        *((name, c_int32) for name in "BHTSK"),
        ("scale", c_float),
    )


SIGNATURES = {
    "jumok_use_openmp": (None, (c_void_p, c_void_p, c_void_p)),
    "jumok_adamw": (None, (c_void_p, c_int, c_void_p, c_int)),
    "jumok_square_sum": (c_double, (c_void_p, c_void_p, c_int, c_int)),
    "jumok_cross_entropy": (
        c_int,
        (c_int, c_void_p, c_void_p, c_int64, c_int, c_float, c_void_p, c_void_p, c_int),
    ),
    "jumok_short_attention": (None, (c_int, c_void_p, c_int)),
    "jumok_rotate": (
        None,
        (*(c_void_p,) * 3, *(c_int64,) * 3, c_int, c_int, c_float, c_int),
    ),
}


class CpuTrainingKernel:
    """`nn.training_kernel.TrainingKernel` in C++, and the pass of the optimizer."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        for name, (result, arguments) in SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
        if (functions := openmp_functions()) is not None:
            loaded.jumok_use_openmp(*functions)
        self._adamw, self._square_sum = loaded.jumok_adamw, loaded.jumok_square_sum
        self._attention = loaded.jumok_short_attention
        self._cross_entropy, self._rotate = loaded.jumok_cross_entropy, loaded.jumok_rotate

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None, scale: float
    ) -> tuple[Tensor, Tensor]:
        """softmax(Q K^T scale) V, (B, H, T, K), and the weights (B, H, T, S)."""
        (B, H, T, _), S = q.shape, k.shape[2]
        weights = q.new_empty(B, H, T, S)
        y = _like_projected(q)
        call = _attention_call(q, k, v, weights, scale)
        call.y = _head_rows(y)
        if allowed is not None:
            allowed = allowed.expand(B, H, T, S)
            allowed = allowed if allowed.stride(3) == 1 else allowed.contiguous()
            call.allowed = allowed.data_ptr()
            call.allowed_batch, call.allowed_head, call.allowed_row, _ = allowed.stride()
        self._attention(0, ctypes.byref(call), torch.get_num_threads())
        return y, weights

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
        dy = dy if dy.stride(3) == 1 else dy.contiguous()
        call = _attention_call(q, k, v, weights, scale)
        call.y, call.dq, call.dk, call.dv = map(_head_rows, (dy, *gradients))
        self._attention(1, ctypes.byref(call), torch.get_num_threads())

    def rotate_rows_(self, x: Tensor, cosine: Tensor, sine: Tensor, sign: float) -> None:
        """Rotate all heads of the rows x (B*T, H*K) by the angles (B|1, 1, T, K); -1: back."""
        (rows, width), K = x.shape, cosine.shape[-1]
        cosine, sine = cosine.contiguous(), sine.contiguous()
        self._rotate(
            *(x.data_ptr(), cosine.data_ptr(), sine.data_ptr()),
            *(rows, cosine.numel() // K, x.stride(0), width, K, sign, torch.get_num_threads()),
        )

    def cross_entropy_(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The loss of each token (N,); logits (N, V) become their gradient.

        Raises InputError if a target is not a column of the logits.
        """
        N, V = logits.shape
        assert logits.is_contiguous()
        losses = torch.empty(N)
        targets = targets.contiguous()
        done = self._cross_entropy(
            int(logits.dtype == torch.bfloat16),
            *(logits.data_ptr(), targets.data_ptr(), N, V),
            *(smoothing, logits.data_ptr(), losses.data_ptr(), torch.get_num_threads()),
        )
        if not done:
            wrong = targets[(targets < 0) | (targets >= V)]
            raise InputError(
                "kernel.target_range",
                "targets must be from 0 to {size}, got {target}; use ids of the model's vocabulary",
                size=V - 1,
                target=wrong[0].item(),
            )
        return losses

    def adamw(
        self,
        tensors: NDArray[np.void],
        betas: tuple[float, float],
        epsilon: float,
        scale: float,
        average_weight: float,
    ) -> None:
        """One step of AdamW for the rows of a table of `ADAMW_TENSOR`."""
        settings = AdamWSettings(*betas, epsilon, scale, average_weight)
        self._adamw(
            tensors.ctypes.data, len(tensors), ctypes.byref(settings), torch.get_num_threads()
        )

    def norm(self, tensors: Sequence[Tensor]) -> float:
        """The norm of all numbers of contiguous float32 tensors."""
        addresses = np.array([each.data_ptr() for each in tensors], np.uint64)
        sizes = np.array([each.numel() for each in tensors], np.int64)
        total: float = self._square_sum(
            addresses.ctypes.data, sizes.ctypes.data, len(tensors), torch.get_num_threads()
        )
        return math.sqrt(total)


def _like_projected(x: Tensor) -> Tensor:
    """A new tensor (B, H, T, K) in the order of memory of a projection, (B, T, H, K)."""
    B, H, T, K = x.shape
    return x.new_empty(B, T, H, K).transpose(1, 2)


def _head_rows(x: Tensor) -> HeadRows:
    """Where the rows of x (B, H, n, K) lie."""
    batch, head, row, _ = x.stride()
    return HeadRows(x.data_ptr(), batch, head, row)


def _attention_call(
    q: Tensor, k: Tensor, v: Tensor, weights: Tensor, scale: float
) -> AttentionCall:
    B, H, T, S = weights.shape
    call = AttentionCall(*map(_head_rows, (q, k, v)), B=B, H=H, T=T, S=S, K=q.shape[3], scale=scale)
    call.weights = weights.data_ptr()
    return call


@cache
def cpu_training_kernel() -> CpuTrainingKernel | None:
    """The kernel of this processor, compiled if necessary; None where it cannot be compiled."""
    try:
        return CpuTrainingKernel(ctypes.CDLL(str(kernel_path("training"))))
    except (KernelError, OSError) as error:
        logger.info("training without the C++ kernel: %s", error)
        return None
