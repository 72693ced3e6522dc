"""Memory-mapped safetensors files: tensors are views of the file, and nothing is copied.

The operating system reads pages on first use and shares them between processes that load the same
file. The mapping is private: a changed tensor gets its own pages, and the file does not change.
Replacing the file by another one of the same name is safe; truncating it in place is not: the
system then ends the process (SIGBUS).

`release_pages` frees the memory of a weight that has been copied elsewhere, for example packed for
a kernel; it is read from the file again if it is used again.
"""

import ctypes
import mmap
import sys
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from jumok.atomic_io import storage_errors
from jumok.errors import ModelFileError
from jumok.safetensors_io import read_header

_MADV_PAGEOUT = 21  # Linux 5.4 or later; mmap in Python 3.11 has no name for it


def mmap_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of the safetensors file at `path`, mapped into memory.

    Raises StorageError if the file cannot be read, InputError if its header is invalid; both
    contain the path.

    >>> import tempfile, torch
    >>> from jumok.safetensors_io import serialize
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     size = path.write_bytes(serialize({"weight": torch.arange(6).view(2, 3)}))
    ...     mmap_safetensors(path)
    {'weight': tensor([[0, 1, 2],
            [3, 4, 5]])}
    """
    read_header(path)  # stricter than the library
    try:
        with storage_errors(f"{path}: cannot be read"):
            return safetensors.torch.load_file(path)
    except SafetensorError as error:
        raise ModelFileError(
            "pretrained.unusable_safetensors",
            "{path}: not a usable safetensors file: {error}; get it again",
            path=path,
            error=error,
        ) from error


def copy_weights(model: nn.Module) -> None:
    """Copy the weights of a model into memory of its own, one at a time.

    Later changes of the files that they were mapped from do not reach the model.

    >>> import torch
    >>> weight = torch.ones(2, 2)
    >>> linear = nn.Linear(2, 2, bias=False)
    >>> linear.weight = nn.Parameter(weight)
    >>> copy_weights(linear)
    >>> linear.weight.data_ptr() == weight.data_ptr()
    False
    """
    for weight in (*model.parameters(), *model.buffers()):
        weight.data = weight.data.clone()


def release_pages(tensor: Tensor) -> None:
    """Free the memory of a mapped tensor, except pages that it shares with other data.

    No data is lost: unchanged pages are read from the file again, changed pages are swapped out.
    """
    if sys.platform != "linux":
        return
    start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (tensor.data_ptr() + tensor.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if start < end:  # older kernels return an error, and the pages stay
        madvise = ctypes.CDLL(None).madvise
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_PAGEOUT)
