"""safetensors files with strict header checks.

A safetensors file is a length N (8 bytes, little-endian), N bytes of JSON with the dtype, shape
and byte range of each tensor, and the data. Files are untrusted: the library checks everything that
the JSON declares against the size of the file, and nothing in it can be executed. It does not
reject duplicate names, unknown fields or `..` in a name, so these are checked here. Reading a
header does not import torch.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from jumok.atomic_io import open_regular, read_regular
from jumok.errors import InputError, Message, ModelFileError, located
from jumok.safe_json import check_downloaded, parse_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MAX_HEADER_BYTES = 8 * 2**20
MAX_TENSORS = 100_000  # of files of other formats and of several files
MAX_NAME_CHARS = 512  # the longest names in well-known checkpoints have about 100

_DTYPES = {  # name in a header: name in torch, bytes per element
    "BOOL": ("bool", 1),
    "U8": ("uint8", 1),
    "I8": ("int8", 1),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "U16": ("uint16", 2),
    "I16": ("int16", 2),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "U32": ("uint32", 4),
    "I32": ("int32", 4),
    "F32": ("float32", 4),
    "U64": ("uint64", 8),
    "I64": ("int64", 8),
    "F64": ("float64", 8),
}
_HEADER_NAMES = {torch_name: name for name, (torch_name, _) in _DTYPES.items()}


@dataclass(frozen=True)
class TensorEntry:
    """The header's entry of one tensor; `start` and `end` count bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def serialize(tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file of `tensors`, from any device, contiguous or not.

    Raises InputError if two names share memory: pass one name of tied weights.

    >>> import torch
    >>> deserialize(serialize({"weight": torch.arange(6).view(2, 3).T}))["weight"].tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    return b"".join(iter_chunks(tensors, metadata))


@dataclass(frozen=True)
class LazyTensor:
    """A tensor of a file to write, made when its turn comes."""

    dtype: "torch.dtype"
    shape: tuple[int, ...]
    read: "Callable[[], Tensor]"


def iter_chunks(
    tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """A safetensors file of `tensors` in chunks: the header, then the data of each tensor.

    Tensors that are on the CPU are not copied. The widest dtypes come first so that all data are
    aligned, then names in order. Raises InputError if two names share memory.
    """
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    _check_memory(contiguous)
    lazy = {
        name: LazyTensor(tensor.dtype, tuple(tensor.shape), tensor.contiguous)
        for name, tensor in contiguous.items()
    }
    return iter_lazy_chunks(lazy, metadata)


def iter_lazy_chunks(
    tensors: Mapping[str, LazyTensor], metadata: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """The chunks of a file of tensors that are made one by one and never all in memory."""
    import torch

    ordered = sorted(
        tensors.items(), key=lambda item: (-item[1].dtype.itemsize, str(item[1].dtype), item[0])
    )
    header: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    for name, tensor in ordered:
        end = start + math.prod(tensor.shape) * tensor.dtype.itemsize
        dtype = _HEADER_NAMES.get(str(tensor.dtype).removeprefix("torch."))
        if dtype is None:
            raise ModelFileError(
                "safetensors.unknown_dtype",
                "tensor {name!r} must have a dtype of safetensors, got {dtype}; convert it",
                name=name,
                dtype=tensor.dtype,
            )
        header[name] = {"dtype": dtype, "shape": [*tensor.shape], "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for _, tensor in ordered:
        yield tensor.read().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _check_memory(tensors: "Mapping[str, Tensor]") -> None:
    """Raises InputError if two of these contiguous CPU tensors overlap."""
    ranges = sorted(
        (t.data_ptr(), t.data_ptr() + t.nbytes, n) for n, t in tensors.items() if t.nbytes
    )
    for (_, end, name), (start, _, other) in pairwise(ranges):
        if start < end:
            raise ModelFileError(
                "safetensors.shared_memory",
                "tensors {name!r} and {other!r} share memory; give only one of them",
                name=name,
                other=other,
            )


def dtype_name(name: str) -> str:
    """The name in torch of a dtype in a header.

    >>> dtype_name("I32")
    'int32'
    """
    return _DTYPES[name][0]


def deserialize(data: bytes) -> "dict[str, Tensor]":
    """The tensors of a whole safetensors file, copied. Raises InputError for an invalid file."""
    import safetensors.torch

    _check_start(data, len(data))
    with _library_errors():
        tensors = safetensors.torch.load(data)
    _parse(data)
    return tensors


@contextmanager
def _library_errors() -> Iterator[None]:
    try:
        yield
    except KeyError as error:  # a dtype of the library that PyTorch lacks
        raise _unusable(f"unknown dtype {error}") from error
    except (SafetensorError, ValueError) as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        raise _unusable(reason[:120]) from error


def read_tensors(path: Path, limit: int = 2**40) -> "dict[str, Tensor]":
    """The tensors of the file at `path`. Raises StorageError or InputError, which name it."""
    data = read_regular(path, limit)
    with located(path):
        return deserialize(data)


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The entries in the header of the file at `path`.

    Raises StorageError or InputError, which name the file.
    """
    return _read(path)[0]


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata in the header of the file at `path`. Raises the errors of `read_header`."""
    return _read(path)[1]


def _read(path: Path) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    with open_regular(path) as (file, size):
        start = file.read(8)
        start += file.read(min(int.from_bytes(start, "little"), MAX_HEADER_BYTES))
        with located(path):
            _check_start(start, size)
            with _library_errors(), safe_open(path, "np"):
                pass
            return _parse(start)


def _check_start(start: bytes, size: int) -> None:
    """Raise InputError for a page in place of the file, and for a header that is too long."""
    check_downloaded(start)
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER_BYTES:
        raise _invalid(
            "safetensors.header_too_long",
            "a header of {length:,} bytes in a file of {size:,}, 8 MiB are allowed",
            length=length,
            size=size,
        )


def _parse(start: bytes) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """The entries and the metadata of a file that the library accepts and that begins so.

    Raises InputError for names that are not unique, printable and without `..`, and for unknown
    fields and dtypes.
    """
    try:
        length = int.from_bytes(start[:8], "little")
        header = parse_json(start[8 : 8 + length], allow_surrogates=True)  # metadata is any text
    except InputError as error:
        reason = error.values["reason"]
        raise _invalid(
            "safetensors.header_not_json", "its header is not usable JSON: {reason}", reason=reason
        ) from error
    metadata = header.pop("__metadata__", {})
    return {name: _entry(name, fields) for name, fields in header.items()}, metadata


def _entry(name: str, fields: Mapping[str, Any]) -> TensorEntry:
    """The entry of one tensor."""
    label = name[:80]
    parts = re.split(r"[/\\]", name)
    if not 0 < len(name) <= MAX_NAME_CHARS or not name.isprintable() or ".." in parts:
        raise _invalid("safetensors.tensor_name", "tensor {name!r} has an invalid name", name=label)
    if fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise _invalid(
            "safetensors.tensor_fields",
            "tensor {name!r} must have dtype, shape and data_offsets, and nothing else",
            name=label,
        )
    if fields["dtype"] not in _DTYPES:
        raise _invalid(
            "safetensors.unknown_tensor_dtype",
            "tensor {name!r} has the unknown dtype {dtype}",
            name=label,
            dtype=repr(fields["dtype"])[:40],
        )
    return TensorEntry(fields["dtype"], tuple(fields["shape"]), *fields["data_offsets"])


def _invalid(code: str, template: str, /, **values: object) -> InputError:
    return _unusable(Message(code, template, **values))


def _unusable(reason: Message | str) -> InputError:
    return ModelFileError(
        "safetensors.unusable",
        "not a usable safetensors file: {reason}; get or write it again",
        reason=reason,
    )
