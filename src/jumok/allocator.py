"""The memory that the C library keeps: less of it, or none."""

import ctypes
import os
import platform

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def tune_allocator() -> bool:
    """Reduce the memory and the system calls of oneDNN and glibc; True if glibc accepts it.

    oneDNN caches the kernels of 1,024 shapes of matrix products, and batches of similar length keep
    adding shapes: a cache of 64 saves 430 MB within 150 steps and costs 2 % (docs/LOG.md). glibc
    keeps freed memory, whose pages would be requested and zeroed again at every step.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")  # read at the first product
    if platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    largest = 2**25  # that glibc accepts
    return bool(libc.mallopt(_M_MMAP_THRESHOLD, largest) and libc.mallopt(_M_TRIM_THRESHOLD, 2**30))


def release_memory() -> None:
    """Return free memory to the system; too slow to be called at every step."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
