"""The number of threads of the kernel: that of PyTorch where it is loaded, unless it is set apart.

PyTorch's OpenMP threads wait by spinning after each operation, and the kernel's threads do the same
between its loops. With more threads than cores they take the processor from each other, so a
process whose work is in the kernel gives PyTorch one thread.
"""

import sys

from jumok.threads import compute_threads

_own: int | None = None


def kernel_threads() -> int:
    """The threads of a call of the kernel."""
    if _own is not None:
        return _own
    torch = sys.modules.get("torch")
    return compute_threads() if torch is None else int(torch.get_num_threads())


def set_kernel_threads(threads: int | None) -> None:
    """Set the threads of the kernel; None: those of PyTorch.

    >>> set_kernel_threads(3)
    >>> kernel_threads()
    3
    >>> set_kernel_threads(None)
    """
    global _own  # as torch.set_num_threads
    _own = threads
