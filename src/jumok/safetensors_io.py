"""Named tensors as bytes: safetensors, with a header check of our own before the library looks.

A safetensors file is a length N (8 bytes, little-endian), N bytes of JSON that say for each name
its dtype, shape and place, then the numbers. A file may come from anybody, so everything the JSON
says is checked against the size of the file first; nothing in it can be executed. Headers are
read without torch.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from jumok.atomic_io import open_regular, read_regular
from jumok.errors import InputError

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MAX_HEADER_BYTES = 8 * 2**20
MAX_TENSORS = 100_000
MAX_DIMENSIONS = 64
MAX_NAME = 512  # characters; the longest in well-known checkpoints have about 100

_BYTES = {
    **dict.fromkeys(["BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"], 1),
    **dict.fromkeys(["U16", "I16", "F16", "BF16"], 2),
    **dict.fromkeys(["U32", "I32", "F32"], 4),
    **dict.fromkeys(["U64", "I64", "F64"], 8),
}

_NAMES = {  # of the types in torch
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "bfloat16": "BF16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
}


@dataclass(frozen=True)
class TensorEntry:
    """What the header says of one tensor; `start` and `end` count bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def serialize(tensors: "Mapping[str, Tensor]", metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file of `tensors`, from any device, contiguous or not.

    Raises InputError when two names share memory: of tied weights, give one.

    >>> import torch
    >>> unpack(pack({"weight": torch.arange(6).view(2, 3).T}))["weight"].tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    import safetensors.torch

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        return safetensors.torch.save(plain, dict(metadata) if metadata else None)
    except RuntimeError as error:
        names = re.search(r"\[(\{.*\})\]", str(error))
        raise InputError(
            f"tensors {names[1] if names else sorted(plain)} share memory; give only one of them"
        ) from error


def iter_chunks(tensors: "Mapping[str, Tensor]") -> Iterator[bytes | memoryview]:
    """A safetensors file of `tensors`, piece by piece: the header, then the bytes of each.

    What `pack` gives, but a tensor that lies on the CPU is not copied. The widest types come first
    so that all stand where their type wants them, and the names of a type in their order. Raises
    InputError when two names share memory.

    >>> import torch
    >>> tensors = {"weight": torch.arange(6).view(2, 3).T, "bias": torch.zeros(2)}
    >>> b"".join(pieces(tensors)) == pack(tensors)
    True
    """
    import torch

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    _refuse_shared(plain)
    names = sorted(
        plain, key=lambda name: (-plain[name].element_size(), str(plain[name].dtype), name)
    )
    header, place = {}, 0
    for name in names:
        tensor = plain[name]
        end = place + tensor.nbytes
        dtype = _NAMES.get(str(tensor.dtype).removeprefix("torch."))
        if dtype is None:
            raise InputError(f"tensor {name!r} is of {tensor.dtype}; give numbers of a plain type")
        header[name] = {"dtype": dtype, "shape": [*tensor.shape], "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in names:
        yield plain[name].reshape(-1).view(torch.uint8).numpy().data


def _refuse_shared(plain: "Mapping[str, Tensor]") -> None:
    """Raises InputError when two of these tensors, contiguous and on the CPU, overlap."""
    places = sorted(
        (t.data_ptr(), t.data_ptr() + t.nbytes, n) for n, t in plain.items() if t.nbytes
    )
    for (_, end, name), (start, _, other) in pairwise(places):
        if start < end:
            raise InputError(f"tensors {name!r} and {other!r} share memory; give only one of them")


def torch_dtype(name: str) -> "torch.dtype":
    """The type that a header calls by this name.

    >>> torch_type("BF16")
    torch.bfloat16
    """
    import torch

    found = next(ours for ours, theirs in _NAMES.items() if theirs == name)
    dtype: torch.dtype = getattr(torch, found)
    return dtype


def deserialize(data: bytes) -> "dict[str, Tensor]":
    """The tensors of a whole safetensors file, copied into memory of their own.

    Raises InputError when anything about the file is not as it must be.
    """
    import safetensors.torch

    parse_header(data, len(data))
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"not a usable safetensors file: {error}; get it again") from error


def read_tensors(path: Path, limit: int = 2**40) -> "dict[str, Tensor]":
    """The tensors of the file at `path`. Raises StorageError or InputError, which name it."""
    data = read_regular(path, limit)
    try:
        return deserialize(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_header(path: Path) -> dict[str, TensorEntry]:
    """What the file at `path` holds, read from its header alone.

    Raises StorageError or InputError, which name the file.
    """
    return _read(path)[0]


def read_metadata(path: Path) -> dict[str, str]:
    """The texts that stand in the header of the file at `path`, by their names.

    Raises StorageError or InputError, which name the file, as `read_header` does.
    """
    return _read(path)[1]


def _read(path: Path) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    with open_regular(path) as (file, size):
        start = file.read(8)
        start += file.read(min(int.from_bytes(start, "little"), MAX_HEADER_BYTES))
    try:
        return _parse(start, size)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse_header(start: bytes, size: int) -> dict[str, TensorEntry]:
    """The checked header of a file of `size` bytes that begins with `start`.

    Names once each, printable and without `..`; known dtypes; the places of the tensors fill what
    follows the header exactly, without overlap, hole or rest, and have the size their shapes need.
    Raises InputError.

    >>> import torch
    >>> data = pack({"bias": torch.zeros(3)})
    >>> parse_header(data, len(data))
    {'bias': Entry(dtype='F32', shape=(3,), start=0, end=12)}
    """
    return _parse(start, size)[0]


def _parse(start: bytes, size: int) -> tuple[dict[str, TensorEntry], dict[str, str]]:
    """The entries and the texts of a checked header."""
    length = int.from_bytes(start[:8], "little")
    if size < 8:
        raise _refusal(f"{size} bytes, the length of the header alone takes 8")
    if length > min(MAX_HEADER_BYTES, size - 8):
        raise _refusal(f"a header of {length:,} bytes in a file of {size:,}, 8 MiB are allowed")
    header = _parse_json(start[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(type(text) is str for text in metadata.values()):
        raise _refusal("its __metadata__ is not a table of texts")
    if len(header) > MAX_TENSORS:
        raise _refusal(f"{len(header):,} tensors, {MAX_TENSORS:,} are allowed")
    entries = {name: _entry(name, fields) for name, fields in header.items()}
    place = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != place:
            raise _refusal(f"{name!r} starts at byte {entry.start:,} instead of {place:,}")
        place = entry.end
    if place != size - 8 - length:
        raise _refusal(f"its tensors take {place:,} bytes of {size - 8 - length:,}")
    return entries, metadata


def _entry(name: str, fields: object) -> TensorEntry:
    """One line of the header, checked for itself."""
    label = f"tensor {name[:80]!r}"
    if not 0 < len(name) <= MAX_NAME or not name.isprintable() or ".." in re.split(r"[/\\]", name):
        raise _refusal(f"{label} has no name for a tensor")
    if not isinstance(fields, dict) or fields.keys() != {"dtype", "shape", "data_offsets"}:
        raise _refusal(f"{label} needs dtype, shape and data_offsets, and nothing else")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BYTES:
        raise _refusal(f"{label} has the unknown dtype {repr(dtype)[:40]}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise _refusal(f"{label}: shape or data_offsets are not lists of whole numbers")
    elements, has = math.prod(shape), offsets[1] - offsets[0]
    if elements * _BYTES[dtype] != has:
        raise _refusal(f"{label}: {has:,} bytes do not fit its shape {repr(shape)[:40]} of {dtype}")
    return TensorEntry(dtype, tuple(shape), offsets[0], offsets[1])


def _are_sizes(numbers: object) -> bool:
    """Whether this is a short list of whole numbers from 0 that fit into 63 bits."""
    return (
        isinstance(numbers, list)
        and len(numbers) <= MAX_DIMENSIONS
        and all(type(number) is int and 0 <= number < 2**63 for number in numbers)
    )


def _parse_json(header: bytes) -> dict[str, object]:
    """The header as a table in which no name comes twice."""
    try:
        table = json.loads(header.decode("utf-8"), object_pairs_hook=_table_without_twins)
    except InputError:
        raise
    except RecursionError as error:
        raise _refusal("its header is nested too deeply") from error
    except ValueError as error:  # bad JSON, bad UTF-8, a number of thousands of digits
        raise _refusal("its header is not JSON") from error
    if not isinstance(table, dict):
        raise _refusal("its header is not a table")
    return table


def _table_without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise _refusal("its header names something twice")
    return table


def _refusal(reason: str) -> InputError:
    return InputError(f"not a usable safetensors file: {reason}; get or write it again")
