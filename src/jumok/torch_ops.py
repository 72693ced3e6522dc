"""The private operations of torch that jumok uses, each with a plain substitute.

torch may change or remove them in any version. So they are looked up by name when they are needed,
the plain form is used where one is missing, and no other file names one. The number of threads of
its OpenMP runtime is here too.
"""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

_CUDA_INT8_ROWS, _CUDA_INT8_MULTIPLE = 17, 8  # the least rows, and the unit of the other sizes


def find_op(name: str) -> Callable[..., Any] | None:
    """The operation `torch.NAME`; None if this version or build of torch lacks it.

    >>> find_op("matmul") is torch.matmul, find_op("ops.aten._no_such_operation")
    (True, None)
    """
    try:
        found: Callable[..., Any] = attrgetter(name)(torch)
    except AttributeError:
        return None
    return found


def has_transforms() -> bool:
    """Whether a transform of torch.func, or forward-mode differentiation, is active.

    Functions with a hand-written backward pass cannot be transformed. PyTorch raises an error for
    them, also where this version of it does not offer the question.

    >>> has_transforms(), torch.func.grad(lambda x: x * has_transforms())(torch.tensor(2.0))
    (False, tensor(1.))
    """
    if _transforms_active is not None and _transforms_active():
        return True
    return getattr(forward_ad, "_current_level", -1) >= 0


def has_vmap() -> bool:
    """Whether torch.func.vmap is one of the active transforms.

    >>> torch.func.vmap(lambda x: x * has_vmap())(torch.ones(2))
    tensor([1., 1.])
    """
    if not has_transforms():
        return False
    stack = find_op("_C._functorch.get_interpreter_stack")
    return stack is not None and any(each.key().name == "Vmap" for each in stack() or [])


_transforms_active = find_op("_C._are_functorch_transforms_active")


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """PyTorch computes on the calling thread alone; without its OpenMP runtime nothing changes.

    After a parallel operation the OpenMP threads wait for the next one by spinning, for
    milliseconds, and take the processor from the threads of the C++ kernel. Other threads keep
    their number, which `torch.set_num_threads` would change.

    >>> with one_torch_thread():
    ...     torch.get_num_threads() == 1 or openmp_setter() is None
    True
    """
    set_threads, before = openmp_setter(), torch.get_num_threads()
    if set_threads is None or before == 1:
        yield
        return
    set_threads(1)
    try:
        yield
    finally:
        set_threads(before)


@cache
def openmp_setter() -> Callable[[int], object] | None:
    """`omp_set_num_threads` of the runtime that PyTorch has loaded."""
    try:
        setter = _openmp_library().omp_set_num_threads
    except (OSError, AttributeError, ValueError):
        return None
    setter.argtypes, setter.restype = (ctypes.c_int,), None
    return setter


def openmp_functions() -> tuple[ctypes.c_void_p, ...] | None:
    """The addresses of GOMP_parallel, omp_get_thread_num and omp_get_num_threads in that runtime.

    A library that calls them runs on the threads of PyTorch.

    >>> found = openmp_functions()
    >>> found is None or len(found)
    3
    """
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    try:
        loaded = _openmp_library()
        return tuple(ctypes.cast(getattr(loaded, name), ctypes.c_void_p) for name in names)
    except (OSError, AttributeError, ValueError):
        return None


def _openmp_library() -> ctypes.CDLL:
    """libtorch_cpu, through which the symbols of its OpenMP runtime are found; or ValueError."""
    if os.name == "nt":  # there ctypes finds no OpenMP runtime in torch_cpu.dll
        raise ValueError
    (path,) = (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")
    return ctypes.CDLL(str(path))


def softmax_backward(grad: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores, given that of weights = softmax(scores): all (..., S).

    >>> scores = torch.randn(2, 3, requires_grad=True)
    >>> weights, grad = scores.softmax(-1), torch.randn(2, 3)
    >>> weights.backward(grad)
    >>> torch.allclose(softmax_backward(grad, weights.detach()), scores.grad, atol=1e-6)
    True
    """
    op = find_op("ops.aten._softmax_backward_data")
    if op is not None:
        return op(grad, weights, -1, weights.dtype)  # type: ignore[no-any-return]
    product = grad * weights
    return product - weights * product.sum(-1, keepdim=True, dtype=torch.float32).to(weights.dtype)


def add_all_(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """tensors[i] += others[i], for all i at once.

    >>> total = [torch.ones(2), torch.zeros(1)]
    >>> add_all_(total, [torch.ones(2), torch.ones(1)]); total
    [tensor([2., 2.]), tensor([1.])]
    """
    op = find_op("_foreach_add_")
    if op is not None:
        op(tensors, others)
        return
    for tensor, other in zip(tensors, others, strict=True):
        tensor.add_(other)


def lerp_all_(tensors: Sequence[Tensor], others: Sequence[Tensor], weight: float) -> None:
    """tensors[i] += weight * (others[i] - tensors[i]), for all i at once.

    >>> average = [torch.zeros(2)]
    >>> lerp_all_(average, [torch.ones(2)], 0.25); average
    [tensor([0.2500, 0.2500])]
    """
    op = find_op("_foreach_lerp_")
    if op is not None:
        op(tensors, others, weight)
        return
    for tensor, other in zip(tensors, others, strict=True):
        tensor.lerp_(other, weight)


def int8_matmul(x: Tensor, weight: Tensor) -> Tensor:
    """The exact product of int8 matrices: (M, K) x (K, N) -> (M, N) int32.

    >>> x, weight = torch.tensor([[100, -3]]), torch.tensor([[127], [127]])
    >>> int8_matmul(x.to(torch.int8), weight.to(torch.int8))
    tensor([[12319]], dtype=torch.int32)
    """
    op = find_op("_int_mm")
    if op is not None and x.is_cuda:
        units = x.shape[1] % _CUDA_INT8_MULTIPLE or weight.shape[1] % _CUDA_INT8_MULTIPLE
        usable = len(x) >= _CUDA_INT8_ROWS and not units
    else:
        usable = op is not None and _is_exact(op)
    if op is not None and usable:
        return op(x, weight)  # type: ignore[no-any-return]
    return (x.double() @ weight.double()).to(torch.int32)  # exact: far less than 2^53


@cache
def _is_exact(int8_product: Callable[[Tensor, Tensor], Tensor]) -> bool:
    """Whether it is exact on this CPU for the largest values.

    oneDNN without VNNI adds pairs of products in 16 bits, which overflow: seen when
    ONEDNN_MAX_CPU_ISA caps a processor that has VNNI.
    """
    largest = torch.full((32, 64), 127, dtype=torch.int8)
    return bool((int8_product(largest, largest.T) == 64 * 127 * 127).all())


def has_onednn_bfloat16() -> bool:
    """Whether oneDNN computes bfloat16 on this processor."""
    supported = find_op("ops.mkldnn._is_mkldnn_bf16_supported")
    return supported is not None and bool(supported())
