"""What this machine has: its device, whether bfloat16 is fast on it, how its memory is kept."""

import ctypes
import os
import platform
import resource
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import torch

from jumok.errors import InputError

Precision = Literal["auto", "float32", "bfloat16"]
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def find_device(wanted: str) -> torch.device:
    """The device named, or for "auto" the first of cuda, mps and cpu that is there.

    "cuda" without a number is, of the processes torchrun starts on a machine, each one's own card.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if wanted == "auto":
        wanted = next(name for name, there in available.items() if there)
    if wanted == "cuda" and "LOCAL_RANK" in os.environ:
        wanted = f"cuda:{os.environ['LOCAL_RANK']}"
    kind = wanted.partition(":")[0]
    if not available.get(kind, False):
        there = ", ".join(name for name, is_there in available.items() if is_there)
        raise InputError(f"device {wanted} is not here; give auto or one of: {there}")
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise InputError(f"device {wanted!r} is no device; give auto, cpu, cuda:0 ...") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        n_devices = torch.cuda.device_count()
        raise InputError(f"device {wanted} came, there are {n_devices}; they count from cuda:0")
    return device


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 matrix products run on instructions of their own."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return False


def resolve_dtype(wanted: Precision, device: torch.device) -> torch.dtype:
    """The type of matrix products; weights and sums stay in float32 either way."""
    if wanted == "auto":
        return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
    return torch.bfloat16 if wanted == "bfloat16" else torch.float32


def tune_allocator() -> bool:
    """Ask the libraries below for less memory and fewer system calls; True where glibc listens.

    oneDNN keeps what it compiled for 1,024 shapes of matrix products, and batches of like length
    have ever new shapes: 64 save 430 MB within 150 steps and cost 2 % (docs/LOG.md). glibc is to
    keep what is freed: its pages would be asked for and zeroed again at every step.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # read at the first product
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    large = 2**25  # the most glibc takes
    return bool(libc.mallopt(_M_MMAP_THRESHOLD, large) and libc.mallopt(_M_TRIM_THRESHOLD, 2**30))


def release_memory() -> None:
    """Give back to the system what is free: now and then, as a step at a time would be slow."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def set_deterministic() -> None:
    """One thread and deterministic kernels: the same bits whatever the number of cores."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS repeats itself only so
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # It would fill all new memory, to show who reads what nobody wrote; no bit depends on it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def memory_bytes() -> int:
    """All the memory this process may ever have: the machine's, or its container's."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # of cgroups, new and old
        path = Path("/sys/fs/cgroup") / limit
        if path.is_file():
            text = path.read_text(encoding="ascii").strip()
            found += [int(text)] if text.isdigit() else []
    return min(found)


def peak_memory_bytes() -> int:
    """The most memory this process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def versions() -> dict[str, str]:
    """What the results depend on besides the recipe."""
    packages = ("jumok", "torch", "numpy", "sentencepiece")
    return {
        **{package: version(package) for package in packages},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
    }
