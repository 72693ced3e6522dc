"""A safetensors file as tensors that are the file itself, mapped into memory: nothing is copied.

Opening fetches the pages of the file (of a very large one each when a sum first needs it), and two
processes that open the same file share them. The mapping is private: whoever changes such a
tensor, a training for example, gets a page of its own, and the file stays as it was.

What a mapping cannot survive is the file being cut short in place by somebody else: the operating
system ends the process then (SIGBUS). Replacing the file by another of the same name, as every
downloader does, is harmless. For a process that must outlive that too, `own` copies.

A weight that has been copied elsewhere, packed for a kernel say, can be `put_down`: its pages leave
the memory, and come back from the file should anybody ask for them again.
"""

import contextlib
import mmap
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from jumok.atomic_io import open_regular
from jumok.errors import InputError
from jumok.safetensors_io import MAX_HEADER_BYTES, TensorEntry, parse_header

FETCHED_AT_ONCE = 2**31  # bytes; of a larger file pages are fetched when they are needed
_PAGE_OUT, _POPULATE_READ = 21, 22  # MADV_... of Linux, which Python 3.11 has no names for

_mapped: "weakref.WeakKeyDictionary[mmap.mmap, int]" = weakref.WeakKeyDictionary()  # to addresses

_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


def mmap_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of the safetensors file at `path`, each a view of the mapped file.

    Raises StorageError when it cannot be read, InputError when its header lies; both name it.

    >>> import tempfile
    >>> from jumok.safetensors_io import pack
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.safetensors"
    ...     size = path.write_bytes(pack({"weight": torch.arange(6).view(2, 3)}))
    ...     map_file(path)
    {'weight': tensor([[0, 1, 2],
            [3, 4, 5]])}
    """
    with open_regular(path) as (file, size):
        try:
            return map_tensors(file, size)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def map_tensors(file: BinaryIO, size: int) -> dict[str, Tensor]:
    """The tensors of an open safetensors file of `size` bytes; they outlive the open file.

    Raises InputError when its header lies.
    """
    if size < 8:
        parse_header(b"", size)  # refuses: nothing that short has a header
    pages = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    length = int.from_bytes(pages[:8], "little")
    begin = 8 + length
    header = parse_header(pages[: min(begin, 8 + MAX_HEADER_BYTES)], size)
    _fetch(pages, size)
    _mapped[pages] = torch.frombuffer(pages, dtype=torch.uint8).data_ptr()
    return {name: _view(pages, begin + entry.start, entry) for name, entry in header.items()}


def _fetch(pages: mmap.mmap, size: int) -> None:
    """Have all pages ready at once where the system can, three times quicker than one by one."""
    if size <= FETCHED_AT_ONCE and sys.platform == "linux":
        with contextlib.suppress(OSError):  # older than Linux 5.14: they come when asked for
            pages.madvise(_POPULATE_READ)


def own(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors in memory of this process; two names of one tensor stay so."""
    copies = {id(tensor): tensor for tensor in tensors.values()}
    copies = {key: tensor.clone() for key, tensor in copies.items()}
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}


def release_pages(tensor: Tensor) -> None:
    """Let the system take back the memory of a mapped tensor; nothing is lost, and others stay.

    Whoever reads it again waits for the disk. What somebody has changed in it stays as it is.
    """
    start, end = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    for pages, address in list(_mapped.items()):
        if address <= start and end <= address + len(pages):
            first = -(-(start - address) // mmap.PAGESIZE) * mmap.PAGESIZE
            whole = (end - address - first) // mmap.PAGESIZE * mmap.PAGESIZE  # pages of its own
            if whole > 0 and sys.platform == "linux":
                with contextlib.suppress(OSError):  # older than Linux 5.4: they stay
                    pages.madvise(_PAGE_OUT, first, whole)


def _view(pages: mmap.mmap, start: int, entry: TensorEntry) -> Tensor:
    """One tensor, from byte `start` on."""
    dtype = _DTYPES[entry.dtype]
    if entry.start == entry.end:
        return torch.empty(entry.shape, dtype=dtype)
    if start % dtype.itemsize:  # a header of odd length: the processor wants whole places
        raw = torch.frombuffer(
            pages, dtype=torch.uint8, count=entry.end - entry.start, offset=start
        )
        return raw.clone().view(dtype).view(entry.shape)
    count = (entry.end - entry.start) // dtype.itemsize
    return torch.frombuffer(pages, dtype=dtype, count=count, offset=start).view(entry.shape)
