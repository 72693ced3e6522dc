"""GGUF files: metadata and quantized tensors, read within limits and mapped into memory.

    magic "GGUF", u32 version, u64 tensors, u64 pairs       everything little-endian
    pairs      string key, u32 type, value                  string: u64 length, UTF-8
    tensors    string name, u32 dims, u64 sizes (innermost first), u32 type, u64 offset
    data       from the next multiple of `general.alignment`; offsets are relative to it

Every length in the file is checked against a limit and against the bytes that are left before
anything is allocated (ggml, docs/gguf.md).
"""

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jumok.atomic_io import storage_errors
from jumok.errors import ModelFileError, located
from jumok.native.gguf_types import OTHER_TYPES, TYPES, BlockType, dequantize
from jumok.safe_json import check_downloaded
from jumok.safetensors_io import MAX_TENSORS

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_PAIRS = 10_000  # usual files have 30
MAX_KEY_BYTES = 65_535  # of the specification
MAX_NAME_BYTES = 512
MAX_STRING_BYTES = 16 * 2**20  # of a value: chat templates have up to 20 KiB
MAX_ITEMS = 4_000_000  # of an array: merges and tokens of the largest vocabularies
MAX_HEADER_BYTES = 256 * 2**20
MAX_DIMS = 4
MAX_ELEMENTS = 2**40
MAX_ALIGNMENT = 2**16

Scalar = bool | int | float | str
Value = Scalar | tuple[Scalar, ...]
Floats = NDArray[np.float32]

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}  # for `struct`
_NUMBERS |= {10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


_STORED = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}


@dataclass(frozen=True)
class GGUFTensor:
    """A tensor of a file: its shape, outermost first, its type and its place in the data."""

    name: str
    shape: tuple[int, ...]
    type: BlockType
    offset: int

    @property
    def n_bytes(self) -> int:
        """The bytes of all blocks."""
        return math.prod(self.shape) // self.type.weights * self.type.bytes


@dataclass(frozen=True)
class GGUFFile:
    """The metadata and the tensors of a file; numbers are read when they are asked for."""

    path: Path
    metadata: Mapping[str, Value]
    tensors: Mapping[str, GGUFTensor]
    data_start: int

    def read(self, name: str) -> Floats:
        """A tensor as float32, dequantized exactly as ggml does it."""
        tensor = self.tensors[name]
        with storage_errors(f"{self.path}: cannot be read"):
            return dequantize(self._blocks(name), tensor.type).reshape(tensor.shape)

    def read_stored(self, name: str) -> NDArray[np.generic]:
        """A tensor as it is stored: F32, F16, or BF16 as its bits in uint16; else as `read`."""
        tensor = self.tensors[name]
        stored = _STORED.get(tensor.type.name)
        if stored is None:
            return self.read(name)
        with storage_errors(f"{self.path}: cannot be read"):
            return np.array(self._blocks(name)).view(stored).reshape(tensor.shape)

    def _blocks(self, name: str) -> NDArray[np.uint8]:
        tensor = self.tensors[name]
        start = self.data_start + tensor.offset
        return np.memmap(self.path, np.uint8, "r", start, (tensor.n_bytes,))


def is_gguf(path: Path) -> bool:
    """Whether a path is a file that begins as GGUF files do."""
    if not path.is_file():
        return False
    with storage_errors(f"{path}: cannot be read"), path.open("rb") as file:
        return file.read(4) == MAGIC


def read_gguf(path: Path) -> GGUFFile:
    """The metadata and the table of tensors of a file.

    Raises InputError for a file that is no GGUF, is damaged or exceeds a limit, StorageError if it
    cannot be read.
    """
    with storage_errors(f"{path}: cannot be read"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(min(size, MAX_HEADER_BYTES))
    with located(path):
        return parse_gguf(data, size, path)


def parse_gguf(data: bytes, size: int, path: Path) -> GGUFFile:
    """The header in the first bytes of a file of `size` bytes."""
    check_downloaded(data)
    reader = _Reader(data)
    if reader.take(4) != MAGIC:
        raise ModelFileError(
            "pretrained.not_gguf",
            "it must begin with GGUF; give a .gguf file",
        )
    version = reader.number("I")
    if version not in VERSIONS:
        raise ModelFileError(
            "pretrained.gguf_version",
            "its version must be 2 or 3 and little-endian, got {version}; convert it again",
            version=version,
        )
    n_tensors = reader.count("tensors", MAX_TENSORS, each=24)
    n_pairs = reader.count("metadata pairs", MAX_PAIRS, each=13)
    metadata: dict[str, Value] = {}
    for _ in range(n_pairs):
        key = reader.string("a key", MAX_KEY_BYTES)
        if key in metadata:
            raise ModelFileError(
                "pretrained.key_twice",
                "its keys must be unique, got {key!r} twice; download it again",
                key=key[:80],
            )
        metadata[key] = reader.value(reader.number("I"))
    tensors: dict[str, GGUFTensor] = {}
    for _ in range(n_tensors):
        tensor = reader.tensor()
        if tensor.name in tensors:
            raise ModelFileError(
                "pretrained.tensor_twice",
                "its tensors must be unique, got {tensor!r} twice; download it again",
                tensor=tensor.name[:80],
            )
        tensors[tensor.name] = tensor
    alignment = _alignment(metadata)
    start = -(-reader.position // alignment) * alignment
    _check_places(tensors, alignment, size - start)
    return GGUFFile(path, metadata, tensors, start)


class _Reader:
    """Reads values from bytes; an InputError beyond their end or a limit."""

    def __init__(self, data: bytes) -> None:
        self._data, self.position = data, 0

    def take(self, n: int) -> bytes:
        end = self.position + n
        if end > len(self._data):
            raise ModelFileError(
                "pretrained.header_truncated",
                "it must hold its whole header, got its end; download it again",
            )
        found = self._data[self.position : end]
        self.position = end
        return found

    def number(self, code: Literal["I", "Q"]) -> int:
        return int(struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0])

    def count(self, what: str, most: int, each: int = 1) -> int:
        """A number of things that take at least `each` bytes."""
        n = self.number("Q")
        if n > most:
            raise ModelFileError(
                "pretrained.too_many",
                "it must have at most {most:,} {what}, got {n:,}; download it again",
                most=most,
                what=what,
                n=n,
            )
        if n * each > len(self._data) - self.position:
            raise ModelFileError(
                "pretrained.truncated",
                "it must hold its {n:,} {what}, got its end; download it again",
                n=n,
                what=what,
            )
        return n

    def string(self, what: str, most: int) -> str:
        data = self.take(self.count(f"bytes in {what}", most))
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ModelFileError(
                "pretrained.not_utf8",
                "{what} must be UTF-8, got {data!r}; download it again",
                what=what,
                data=data[:40],
            ) from None

    def value(self, kind: int) -> Value:
        if kind != _ARRAY:
            return self.scalar(kind)
        item = self.number("I")
        if item == _STRING:
            n = self.count("items of an array", MAX_ITEMS, each=8)
            return tuple(self.string("a string", MAX_STRING_BYTES) for _ in range(n))
        code = _code(item)
        width = struct.calcsize(code)
        n = self.count("items of an array", MAX_ITEMS, each=width)
        return struct.unpack(f"<{n}{code[-1]}", self.take(n * width))

    def scalar(self, kind: int) -> Scalar:
        if kind == _STRING:
            return self.string("a string", MAX_STRING_BYTES)
        code = _code(kind)
        found: Scalar = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return found

    def tensor(self) -> GGUFTensor:
        name = self.string("a tensor name", MAX_NAME_BYTES)
        n_dims = self.number("I")
        if not 1 <= n_dims <= MAX_DIMS:
            raise ModelFileError(
                "pretrained.number_of_dimensions",
                "{name} must have 1 to {max_dims} dimensions, got {n_dims}; download it again",
                name=name[:80],
                max_dims=MAX_DIMS,
                n_dims=n_dims,
            )
        shape = tuple(self.number("Q") for _ in range(n_dims))[::-1]
        if math.prod(shape) > MAX_ELEMENTS or 0 in shape:
            raise ModelFileError(
                "pretrained.number_of_elements",
                "{name} must have 1 to {max_elements:,} elements, got {shape}; download it again",
                name=name[:80],
                max_elements=MAX_ELEMENTS,
                shape=shape,
            )
        kind = self.number("I")
        if kind not in TYPES:
            known = ", ".join(each.name for each in TYPES.values())
            raise ModelFileError(
                "pretrained.unsupported_tensor_type",
                "{name} must be of a type among {known}, got {kind}; convert the file to one "
                "of them",
                name=name[:80],
                known=known,
                kind=OTHER_TYPES.get(kind, f"number {kind}"),
            )
        found = TYPES[kind]
        if shape[-1] % found.weights:
            raise ModelFileError(
                "pretrained.rows_not_whole_blocks",
                "the rows of {name} must be whole blocks of {weights}, got {shape}; download it "
                "again",
                name=name[:80],
                weights=found.weights,
                shape=shape,
            )
        return GGUFTensor(name, shape, found, self.number("Q"))


def _code(kind: int) -> str:
    """The code of a number for `struct`."""
    if kind not in _NUMBERS:
        raise ModelFileError(
            "pretrained.unknown_value_type",
            "a value must be a number, a string or a list, got type {kind}; download it again",
            kind=kind,
        )
    return f"<{_NUMBERS[kind]}"


def _alignment(metadata: Mapping[str, Value]) -> int:
    found = metadata.get("general.alignment", 32)
    if type(found) is not int or not 8 <= found <= MAX_ALIGNMENT or found % 8:
        raise ModelFileError(
            "pretrained.gguf_alignment",
            "general.alignment must be a multiple of 8 up to {max_alignment}, got {found}; "
            "download it again",
            max_alignment=MAX_ALIGNMENT,
            found=str(found)[:40],
        )
    return found


def _check_places(tensors: Mapping[str, GGUFTensor], alignment: int, size: int) -> None:
    """Raise InputError for tensors beyond the data, not aligned, or in the same place."""
    end = 0
    for tensor in sorted(tensors.values(), key=lambda each: each.offset):
        if (
            tensor.offset % alignment
            or tensor.offset < end
            or tensor.offset + tensor.n_bytes > size
        ):
            raise ModelFileError(
                "pretrained.tensor_outside_data",
                "{tensor} must be within the {size:,} bytes of data, aligned and apart from "
                "others, got {n_bytes:,} bytes at {offset:,}; download it again",
                tensor=tensor.name[:80],
                size=max(size, 0),
                n_bytes=tensor.n_bytes,
                offset=tensor.offset,
            )
        end = tensor.offset + tensor.n_bytes
