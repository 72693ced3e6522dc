"""Weights stored as int8 with a scale for each row: a quarter of the bytes of float32.

A file holds the matrix NAME (N, K) int8 and its scales NAME_scale (N,) float32, the names of
compressed-tensors; what reads the file multiplies them. Shapes: N rows, K columns.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

SUFFIX = "_scale"
INT8_MAX = 127

Kinds = Mapping[str, tuple[str, tuple[int, ...]]]  # dtype in a safetensors header, and shape


def scaled_names(kinds: Kinds) -> tuple[str, ...]:
    """The int8 matrices that have the scales of their rows.

    >>> scaled_names({"a": ("I8", (3, 2)), "a_scale": ("F32", (3,)), "b": ("I8", (3, 2))})
    ('a',)
    """
    return tuple(
        name
        for name, (dtype, shape) in kinds.items()
        if dtype == "I8" and len(shape) == 2 and kinds.get(name + SUFFIX) == ("F32", shape[:1])
    )


def quantize_rows(x: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """x (N, K) -> q (N, K) int8 and scale (N,) float32 with x about q * scale.

    The largest element of a row becomes 127 or -127; a row of zeros has the scale 1.

    >>> q, scale = quantize_rows(np.array([[1.27, -0.5], [0.0, 0.0]], np.float32))
    >>> q.tolist(), scale.tolist()
    ([[127, -50], [0, 0]], [0.009999999776482582, 1.0])
    """
    scale = np.maximum(x.max(1), -x.min(1)) / np.float32(INT8_MAX)  # (N,)
    scale[scale == 0] = 1
    q = np.rint(x / scale[:, None]).clip(-INT8_MAX, INT8_MAX)
    return q.astype(np.int8), scale


def dequantize_rows(q: NDArray[Any], scale: NDArray[np.float32]) -> NDArray[np.float32]:
    """q (N, K) int8, scale (N,) -> (N, K) float32.

    >>> dequantize_rows(np.array([[127, -50]], np.int8), np.array([0.01], np.float32)).tolist()
    [[1.2699999809265137, -0.5]]
    """
    with np.errstate(invalid="ignore", over="ignore"):  # who uses weights checks them
        found: NDArray[np.float32] = np.multiply(q, scale[:, None], dtype=np.float32)
    return found
