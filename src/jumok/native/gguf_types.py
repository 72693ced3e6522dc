"""The types of GGUF tensors and their dequantization, equal to that of the gguf package.

Shapes: N blocks. A block holds the weights of consecutive inputs (ggml, ggml-common.h).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class BlockType:
    """A type of tensor: how many weights a block holds, and in how many bytes."""

    name: str
    weights: int
    bytes: int
    unpack: Callable[[Bytes], Floats]  # (N, bytes) -> (N, weights)


def dequantize(data: Bytes, kind: BlockType) -> Floats:
    """Blocks (N * bytes) -> weights (N * weights) float32.

    >>> block = np.concatenate([np.float16([0.5]).view(np.uint8), np.full(16, 0x9A, np.uint8)])
    >>> dequantize(block, TYPES[2])[[0, 16]].tolist()  # Q4_0: 0.5 * (10 - 8), 0.5 * (9 - 8)
    [1.0, 0.5]
    """
    with np.errstate(invalid="ignore", over="ignore"):  # scales may be infinite or NaN
        return kind.unpack(np.asarray(data).reshape(-1, kind.bytes)).reshape(-1)


def _f32(x: Bytes) -> Floats:
    return x.view(np.float32)


def _half(x: Bytes) -> Floats:
    return x.copy().view(np.float16).astype(np.float32)


def _bf16(x: Bytes) -> Floats:
    return (x.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _q8_0(x: Bytes) -> Floats:
    """One scale, 32 bytes: w = d q."""
    return x[:, 2:].view(np.int8).astype(np.float32) * _half(x[:, :2])


def _q4_0(x: Bytes) -> Floats:
    """One scale, 16 bytes with two weights each, 16 apart: w = d (q - 8)."""
    q = _bits(x[:, 2:], 16, 4).astype(np.int8) - np.int8(8)
    return _half(x[:, :2]) * q.reshape(len(x), -1).astype(np.float32)


def _q4_1(x: Bytes) -> Floats:
    """A scale, a minimum, 32 weights of 4 bits: w = d q + m."""
    q = _bits(x[:, 4:], 16, 4).reshape(len(x), -1)
    return _half(x[:, :2]) * q.astype(np.float32) + _half(x[:, 2:4])


def _q5_0(x: Bytes) -> Floats:
    """As Q4_0 with a fifth bit of all weights in four bytes: w = d (q - 16)."""
    q = _five_bits(x[:, 2:6], x[:, 6:]).astype(np.int8) - np.int8(16)
    return _half(x[:, :2]) * q.astype(np.float32)


def _q5_1(x: Bytes) -> Floats:
    """As Q4_1 with a fifth bit of all weights in four bytes: w = d q + m."""
    q = _five_bits(x[:, 4:8], x[:, 8:]).astype(np.float32)
    return _half(x[:, :2]) * q + _half(x[:, 2:4])


def _five_bits(high: Bytes, low: Bytes) -> Bytes:
    """Upper bits (N, 4) and lower halves (N, 16) -> numbers of 5 bits (N, 32)."""
    upper = np.unpackbits(high, axis=1, bitorder="little")
    numbers: Bytes = _bits(low, 16, 4).reshape(len(low), -1) | upper << np.uint8(4)
    return numbers


def _q2_k(x: Bytes) -> Floats:
    """Sixteen groups of 16, each with a 4-bit scale and minimum: w = d s q - dmin m."""
    scale, minimum = (x[:, :16] & 15).astype(np.float32), (x[:, :16] >> 4).astype(np.float32)
    d = (_half(x[:, 80:82]) * scale)[:, :, None]  # (N, 16, 1)
    m = (_half(x[:, 82:]) * minimum)[:, :, None]
    q = _bits(x[:, 16:80], 32, 2).reshape(len(x), 16, 16).astype(np.float32)
    return (d * q - m).reshape(len(x), -1)


def _q3_k(x: Bytes) -> Floats:
    """Sixteen groups of 16, each with a 6-bit scale: w = d (s - 32) (q - 4)."""
    low, high = _bits(x[:, 32:96], 32, 2), _bits(x[:, :32], 32, 1)  # (N, 8, 32) each
    q = (low | high << 2).astype(np.int8) - np.int8(4)
    scales = _bits(x[:, 96:104], 8, 4).reshape(len(x), 16)
    scales |= _bits(x[:, 104:108], 4, 2).reshape(len(x), 16) << 4
    d = _half(x[:, 108:]) * (scales.astype(np.int8) - np.int8(32)).astype(np.float32)  # (N, 16)
    w: Floats = d[:, :, None] * q.reshape(len(x), 16, 16).astype(np.float32)
    return w.reshape(len(x), -1)


def _q4_k(x: Bytes) -> Floats:
    """Eight groups of 32, each with a 6-bit scale and minimum: w = d s q - dmin m."""
    return _groups_of_32(x, _bits(x[:, 16:], 32, 4))


def _q5_k(x: Bytes) -> Floats:
    """As Q4_K with a fifth bit of all weights in 32 bytes."""
    return _groups_of_32(x, _bits(x[:, 48:], 32, 4) | _bits(x[:, 16:48], 32, 1) << np.uint8(4))


def _groups_of_32(x: Bytes, q: Bytes) -> Floats:
    """Blocks with d, dmin and twelve bytes of scales and minima, and their numbers (N, 8, 32)."""
    scale, minimum = _scales_and_minima(x[:, 4:16])  # (N, 8) each
    d = (_half(x[:, :2]) * scale)[:, :, None]
    m = (_half(x[:, 2:4]) * minimum)[:, :, None]
    return (d * q.astype(np.float32) - m).reshape(len(x), -1)


def _q6_k(x: Bytes) -> Floats:
    """Sixteen groups of 16, each with a scale of one byte: w = d s (q - 32)."""
    low, high = _bits(x[:, :128], 64, 4), _bits(x[:, 128:192], 32, 2)  # (N, 4, 64), (N, 8, 32)
    q = (low.reshape(len(x), 8, 32) | (high << 4)).astype(np.int8) - np.int8(32)
    d = _half(x[:, 208:]) * x[:, 192:208].view(np.int8).astype(np.float32)  # (N, 16)
    w: Floats = d[:, :, None] * q.reshape(len(x), 16, 16).astype(np.float32)
    return w.reshape(len(x), -1)


def _bits(x: Bytes, run: int, width: int) -> Bytes:
    """Fields of `width` bits: of each run of bytes first all lowest ones, then the next ones.

    (N, B) -> (N, B * 8 / width / run, run)
    """
    shifts = np.arange(0, 8, width, dtype=np.uint8)[:, None]
    fields: Bytes = (x.reshape(len(x), -1, 1, run) >> shifts) & np.uint8((1 << width) - 1)
    return fields.reshape(len(x), -1, run)


def _scales_and_minima(x: Bytes) -> tuple[Floats, Floats]:
    """Twelve bytes with eight scales and eight minima of 6 bits: (N, 8) each.

    The first four of both are the low bits of bytes 0-3 and 4-7; the upper two bits of these and
    the halves of bytes 8-11 are the last four.
    """
    first, second, rest = x[:, :4], x[:, 4:8], x[:, 8:]
    scale = np.concatenate([first & 63, (rest & 15) | ((first >> 2) & 48)], axis=1)
    minimum = np.concatenate([second & 63, (rest >> 4) | ((second >> 2) & 48)], axis=1)
    return scale.astype(np.float32), minimum.astype(np.float32)


TYPES: Mapping[int, BlockType] = {
    0: BlockType("F32", 1, 4, _f32),
    1: BlockType("F16", 1, 2, _half),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    10: BlockType("Q2_K", 256, 84, _q2_k),
    11: BlockType("Q3_K", 256, 110, _q3_k),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    30: BlockType("BF16", 1, 2, _bf16),
}

OTHER_TYPES: Mapping[int, str] = {  # of ggml, not read here
    9: "Q8_1",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
    22: "IQ2_S",
    23: "IQ4_XS",
    29: "IQ1_M",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}
