"""Named tensors as bytes: safetensors, with a header check of our own before the library looks.

A safetensors file is a length N (8 bytes, little-endian), N bytes of JSON that say for each name
its dtype, shape and place, then the numbers. A file may come from anybody, so everything the JSON
says is checked against the size of the file first; nothing in it can be executed.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from jumok.errors import InputError
from jumok.storage import open_regular, read_regular

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


@dataclass(frozen=True)
class Entry:
    """What the header says of one tensor; `start` and `end` count bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file of `tensors`, from any device, contiguous or not.

    Raises InputError when two names share memory: of tied weights, give one.

    >>> import torch
    >>> unpack(pack({"weight": torch.arange(6).view(2, 3).T}))["weight"].tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        return safetensors.torch.save(plain, dict(metadata) if metadata else None)
    except RuntimeError as error:
        names = re.search(r"\[(\{.*\})\]", str(error))
        raise InputError(
            f"tensors {names[1] if names else sorted(plain)} share memory; give only one of them"
        ) from error


def unpack(data: bytes) -> dict[str, Tensor]:
    """The tensors of a whole safetensors file, copied into memory of their own.

    Raises InputError when anything about the file is not as it must be.
    """
    parse_header(data, len(data))
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, KeyError, ValueError) as error:
        raise InputError(f"not a usable safetensors file: {error}; get it again") from error


def read_tensors(path: Path, limit: int = 2**40) -> dict[str, Tensor]:
    """The tensors of the file at `path`. Raises StorageError or InputError, which name it."""
    data = read_regular(path, limit)
    try:
        return unpack(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def read_header(path: Path) -> dict[str, Entry]:
    """What the file at `path` holds, read from its header alone.

    Raises StorageError or InputError, which name the file.
    """
    with open_regular(path) as (file, size):
        start = file.read(8)
        start += file.read(min(int.from_bytes(start, "little"), MAX_HEADER_BYTES))
    try:
        return parse_header(start, size)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse_header(start: bytes, size: int) -> dict[str, Entry]:
    """The checked header of a file of `size` bytes that begins with `start`.

    Names once each, printable and without `..`; known dtypes; the places of the tensors fill what
    follows the header exactly, without overlap, hole or rest, and have the size their shapes need.
    Raises InputError.

    >>> import torch
    >>> data = pack({"bias": torch.zeros(3)})
    >>> parse_header(data, len(data))
    {'bias': Entry(dtype='F32', shape=(3,), start=0, end=12)}
    """
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
    return entries


def _entry(name: str, fields: object) -> Entry:
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
    return Entry(dtype, tuple(shape), offsets[0], offsets[1])


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
