"""The device of a run: selection, precision, determinism, memory and versions."""

import os
import platform
import sys
from importlib.metadata import version
from typing import Literal

import torch

from jumok.cgroups import memory_limit
from jumok.errors import InputError
from jumok.threads import limit_threads
from jumok.torch_ops import has_onednn_bfloat16
from jumok.waiting import adapt_waiting

Precision = Literal["auto", "float32", "bfloat16"]
_BFLOAT16_INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16")  # x86, Arm
# The values of ONEDNN_MAX_CPU_ISA with which oneDNN emulates bfloat16 whatever the processor has.
_CAPS_WITHOUT_BFLOAT16 = ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX512_CORE", "AVX512_CORE_VNNI")


def find_device(name: str) -> torch.device:
    """The named device, or for "auto" the first available of cuda, mps and cpu.

    "cuda" without a number is the GPU of the local rank in a process that torchrun started. Raises
    InputError for a device that is not available.
    """
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    present = [kind for kind, is_available in available.items() if is_available]
    if name == "auto":
        name = present[0]
    if name == "cuda" and "LOCAL_RANK" in os.environ:
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    kind = name.partition(":")[0]
    if not available.get(kind, False):
        raise InputError(
            "device.unknown",
            "device must be auto or one of {present}, got {name!r}",
            present=", ".join(present),
            name=name,
        )
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(
            "device.syntax", "device must be auto, cpu, cuda:0 ..., got {name!r}", name=name
        ) from error
    n_devices = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= n_devices:
        raise InputError(
            "device.no_such_gpu",
            "device must be cuda:0 to cuda:{n_devices}, got {name!r}",
            n_devices=n_devices - 1,
            name=name,
        )
    return device


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for bfloat16 matrix products, and oneDNN may use them."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        if os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper() in _CAPS_WITHOUT_BFLOAT16:
            return False
        if not hasattr(torch.cpu, "get_capabilities"):  # torch 2.8
            return has_onednn_bfloat16()
        found = torch.cpu.get_capabilities()  # oneDNN also runs where it only emulates bfloat16
        return any(found.get(name, False) for name in _BFLOAT16_INSTRUCTIONS)
    return False


def resolve_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The type of matrix products; weights and sums are always float32."""
    if precision == "auto":
        return torch.bfloat16 if has_fast_bfloat16(device) else torch.float32
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def tune_threads() -> None:
    """Use as many threads as the user or the container allows, which wait as the load demands.

    Raises InputError for a bad JUMOK_THREADS.
    """
    limit_threads()
    adapt_waiting()


def set_deterministic() -> None:
    """One thread and deterministic kernels: the same bits whatever the number of cores."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic only so
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    # Do not fill new memory: that only exposes reads of uninitialized memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def memory_bytes() -> int:
    """The memory limit of this process: that of the machine, or of its container."""
    if os.name == "posix":
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    else:  # Windows
        import psutil

        memory = psutil.virtual_memory().total
    return int(min(memory, memory_limit()))


def peak_memory_bytes() -> int:
    """The peak resident memory of this process so far."""
    try:
        import resource
    except ImportError:  # Windows
        import psutil

        memory = psutil.Process().memory_info()
        return int(getattr(memory, "peak_wset", memory.rss))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def versions() -> dict[str, str]:
    """The versions that results depend on besides the recipe."""
    packages = ("jumok", "torch", "numpy", "sentencepiece")
    return {
        **{package: version(package) for package in packages},
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": str(torch.get_num_threads()),
    }
