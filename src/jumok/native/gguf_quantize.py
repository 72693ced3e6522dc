"""Weights as blocks of GGUF's types Q8_0 and Q4_0: 32 inputs with one float16 scale d.

    q8_0:   w = d q,         q in -127 ... 127,   d = max|w| / 127
    q4_0:   w = d (q - 8),   q in 0 ... 15,       d = w of the largest |w| / -8

The blocks of float32 weights are those of the gguf package (ggml, ggml-quants.c). Weights that were
dequantized from such a block, by whichever quantizer it was made, get a block with exactly the same
values again: of the scales that divide the largest weight, one divides all of them.

Shapes: N blocks, K inputs.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jumok.native.gguf_types import TYPES, BlockType, Bytes, Floats, dequantize

BlockName = Literal["q8_0", "q4_0"]

BLOCK_TYPES: Mapping[BlockName, BlockType] = {"q8_0": TYPES[8], "q4_0": TYPES[2]}
BLOCK = 32

Integers = NDArray[np.int8]


def quantize(weights: Floats, name: BlockName) -> Bytes:
    """Weights (R, K) -> rows of blocks (R, bytes); K is padded with zeros to a multiple of 32.

    A scale beyond float16 becomes infinite; the weights must be finite.

    >>> quantize(np.float32([[-8, 7, 0]]), "q4_0")[0, :5].tolist()  # d = 1.0, then q and padding
    [0, 60, 128, 143, 136]
    """
    rows, inputs = weights.shape
    padded = np.pad(weights, ((0, 0), (0, -inputs % BLOCK)))
    w = padded.reshape(-1, BLOCK)  # (N, 32)
    largest = np.take_along_axis(w, np.abs(w).argmax(1, keepdims=True), 1)  # (N, 1), signed
    d: Floats = (np.abs(largest) / 127 if name == "q8_0" else largest / -8).astype(np.float32)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        inverse = np.where(np.isfinite(1 / d), 1 / d, np.float32(0))
        blocks = _pack(d, _round(w * inverse, name), name)
        _restore(w, largest, blocks, name)
    return blocks.reshape(rows, -1)


def scales(blocks: Bytes, name: BlockName) -> NDArray[np.float16]:
    """Rows of blocks (R, bytes) -> their scales (N).

    >>> scales(quantize(np.float32([[-8, 7], [2, 16]]), "q4_0"), "q4_0").tolist()
    [1.0, -2.0]
    """
    each = blocks.reshape(-1, BLOCK_TYPES[name].bytes)[:, :2]
    return np.ascontiguousarray(each).view(np.float16).reshape(-1)


def _round(x: Floats, name: BlockName) -> Integers:
    """The nearest integers, as ggml rounds them: halves away from zero, or upwards in q4_0."""
    if name == "q4_0":
        q = np.trunc(x + np.float32(8.5)).clip(0, 15) - 8
    else:
        whole = np.floor(np.abs(x))
        q = np.copysign(whole + (np.abs(x) - whole >= 0.5), x)
    found: Integers = q.astype(np.int8)
    return found


def _pack(d: Floats, q: Integers, name: BlockName) -> Bytes:
    """Scales (N, 1) and integers (N, 32), 0 for a weight of 0, -> blocks (N, bytes)."""
    if name == "q4_0":
        nibbles = (q + np.int8(8)).view(np.uint8)
        packed = nibbles[:, : BLOCK // 2] | nibbles[:, BLOCK // 2 :] << 4
    else:
        packed = q.view(np.uint8)
    return np.concatenate([d.astype(np.float16).view(np.uint8), packed], axis=1)


def _restore(w: Floats, largest: Floats, blocks: Bytes, name: BlockName) -> None:
    """Replace blocks that change the weights (N, 32) by exact ones, where there are any."""
    kind, limit = BLOCK_TYPES[name], 127 if name == "q8_0" else 8
    inexact = np.flatnonzero((dequantize(blocks, kind).reshape(-1, BLOCK) != w).any(1))
    for k in (*range(limit, 0, -1), *range(-limit, 0)):
        if k == 8 and name == "q4_0":
            continue  # the integers end at 7
        d = (largest[inexact] / np.float32(k)).astype(np.float16).astype(np.float32)
        fits = np.flatnonzero((d * np.float32(k) == largest[inexact])[:, 0])
        chosen, d = inexact[fits], d[fits]
        q = np.rint(w[chosen] / d).clip(-limit, limit - (name == "q4_0")).astype(np.int8)
        exact = (q.astype(np.float32) * d == w[chosen]).all(1)
        blocks[chosen[exact]] = _pack(d[exact], q[exact], name)
        inexact = np.setdiff1d(inexact, chosen[exact], assume_unique=True)
