"""The number of threads that compute: JUMOK_THREADS, else as many as the process may use.

JUMOK_THREADS=3 gives PyTorch, its libraries and the C++ kernel three threads. Without it the
settings of OpenMP (OMP_NUM_THREADS) hold, and without these there are as many threads as cores,
within the CPU quota of the container: threads above a quota are all stopped in each of its periods.
"""

import os
import sys
from math import inf

from jumok.cgroups import cpu_quota
from jumok.errors import InputError

MAX_THREADS = 1024
_USER_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT")

_limited = False


def available_cores() -> int:
    """The cores that this process may use, within the quota of its container.

    >>> 1 <= available_cores() <= os.cpu_count()
    True
    """
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota == inf else min(cores, max(int(quota), 1))


def compute_threads() -> int:
    """The threads of a process that computes alone. Raises InputError for a bad JUMOK_THREADS.

    >>> os.environ["JUMOK_THREADS"] = "3"
    >>> compute_threads()
    3
    >>> del os.environ["JUMOK_THREADS"]
    """
    return _requested() or _openmp_threads() or available_cores()


def limit_threads() -> None:
    """Apply JUMOK_THREADS, or the quota of the container if the user has set nothing.

    Before PyTorch is loaded this sets OMP_NUM_THREADS, unless it is set, which other libraries and
    child processes use too. After that it sets the threads of PyTorch, once, so that a later
    `torch.set_num_threads` holds. Raises InputError for a bad JUMOK_THREADS.
    """
    global _limited  # once for each process
    threads = _requested()
    if threads is None and not any(os.environ.get(name) for name in _USER_SETTINGS):
        quota = cpu_quota()
        threads = None if quota == inf else available_cores()
    if threads is None or _limited:
        return
    if "torch" not in sys.modules:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        return
    import torch

    _limited = True
    if _requested() is not None or threads < torch.get_num_threads():
        torch.set_num_threads(threads)


def _requested() -> int | None:
    """The value of JUMOK_THREADS; None if it is not set."""
    text = os.environ.get("JUMOK_THREADS", "").strip()
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text[:9]) <= MAX_THREADS:
        raise InputError(
            "device.jumok_threads",
            "JUMOK_THREADS must be a whole number from 1 to {max_threads}, got {text!r:.40}; set "
            "it to a number of cores, or unset it",
            max_threads=MAX_THREADS,
            text=text,
        )
    return int(text)


def _openmp_threads() -> int | None:
    """The first number of OMP_NUM_THREADS, as OpenMP reads it; None without one."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first[:9]) > 0 else None
