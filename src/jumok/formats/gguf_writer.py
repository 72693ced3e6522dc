"""Write GGUF files: metadata, a table of tensors, and their data one after the other.

The format is described in `gguf_reader`. A tensor is made when its turn comes, so that a large
model is never in memory as a whole.
"""

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from jumok.formats.gguf_reader import MAGIC, Value
from jumok.native.gguf_quantize import quantize, scales
from jumok.native.gguf_types import TYPES, Floats
from jumok.native.layout import to_bfloat16

VERSION, ALIGNMENT = 3, 32
TYPE_IDS = {kind.name: number for number, kind in TYPES.items()}
_BOOL, _STRING, _ARRAY, _UINT32, _INT32, _FLOAT32 = 7, 8, 9, 4, 5, 6


@dataclass(frozen=True)
class NewTensor:
    """A tensor to write: its name, its shape, the name of its type, and what reads its numbers."""

    name: str
    shape: tuple[int, ...]
    type: str
    read: Callable[[], Floats]

    @property
    def n_bytes(self) -> int:
        """The bytes of all blocks."""
        kind = TYPES[TYPE_IDS[self.type]]
        return math.prod(self.shape) // kind.weights * kind.bytes


def write_gguf(file: BinaryIO, metadata: Mapping[str, Value], tensors: Sequence[NewTensor]) -> None:
    """Write a whole file. Raises ValueError for numbers that are not finite in their type."""
    header = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    for key, value in metadata.items():
        header += [_string(key), *_value(value)]
    offset = 0
    for tensor in tensors:
        header += [_string(tensor.name), struct.pack("<I", len(tensor.shape))]
        header += [struct.pack("<Q", size) for size in reversed(tensor.shape)]
        header.append(struct.pack("<IQ", TYPE_IDS[tensor.type], offset))
        offset += _aligned(tensor.n_bytes)
    text = b"".join(header)
    file.write(text.ljust(_aligned(len(text)), b"\0"))
    for tensor in tensors:
        for data in _encoded(tensor):
            file.write(data)
        file.write(b"\0" * (_aligned(tensor.n_bytes) - tensor.n_bytes))


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> list[bytes]:
    """The type of a value and its bytes; integers have 32 bits, in arrays with a sign."""
    if not isinstance(value, tuple):
        kind = _kind(value, _UINT32)
        return [struct.pack("<I", kind), _scalar(value, kind)]
    kind = _kind(value[0], _INT32) if value else _INT32
    items = b"".join(_scalar(item, kind) for item in value)
    return [struct.pack("<IIQ", _ARRAY, kind, len(value)), items]


def _kind(value: object, integer: int) -> int:
    if isinstance(value, bool):
        return _BOOL
    return _STRING if isinstance(value, str) else _FLOAT32 if isinstance(value, float) else integer


def _scalar(value: bool | int | float | str, kind: int) -> bytes:
    if isinstance(value, str):
        return _string(value)
    return struct.pack("<" + {_BOOL: "?", _UINT32: "I", _INT32: "i", _FLOAT32: "f"}[kind], value)


def _encoded(tensor: NewTensor, rows: int = 4096) -> Iterator[memoryview]:
    """The bytes of a tensor, some rows at a time."""
    numbers = tensor.read().reshape(-1, tensor.shape[-1])
    for start in range(0, len(numbers), rows):
        part = np.ascontiguousarray(numbers[start : start + rows], np.float32)
        found, finite = _encode(part, tensor.type)
        if not np.isfinite(part).all() or not finite:
            raise ValueError(f"{tensor.name} is not finite in {tensor.type}")
        yield found.reshape(-1).view(np.uint8).data


def _encode(x: Floats, kind: str) -> tuple[NDArray[np.generic], bool]:
    """Numbers in a type, and whether all of them, or the scales of blocks, are finite."""
    if kind == "F32":
        return x, True
    if kind == "F16":
        with np.errstate(over="ignore"):
            half = x.astype(np.float16)
        return half, bool(np.isfinite(half).all())
    if kind == "BF16":
        rounded = to_bfloat16(x)
        return rounded, bool(((rounded & 0x7F80) != 0x7F80).all())
    name = "q8_0" if kind == "Q8_0" else "q4_0"
    blocks = quantize(x, name)  # type: ignore[arg-type]  # a literal
    return blocks, bool(np.isfinite(scales(blocks, name)).all())  # type: ignore[arg-type]
