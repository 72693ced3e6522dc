"""Vectors rounded to 8 bits for small pages: one scale per row of a tensor."""

import numpy as np
from numpy.typing import NDArray

ZERO = 128  # the byte of 0.0
MAX_BYTE_STEPS = 127
SCALE_SUFFIX = ".scale"

Floats = NDArray[np.float32]


def quantize(tensor: Floats) -> tuple[NDArray[np.uint8], Floats]:
    """Bytes and the scale of each row: (..., n) -> (..., n), (...).

    A number is (byte - 128) * scale; the error is at most half a scale, the largest absolute number
    of the row divided by 254.

    >>> bytes_, scale = quantize(np.array([[1.27, -0.634, 0.0]], np.float32))
    >>> bytes_.tolist(), scale.round(4).tolist()
    ([[255, 65, 128]], [0.009999999776482582])
    """
    scale = np.abs(tensor).max(-1, initial=0.0) / np.float32(MAX_BYTE_STEPS)  # (...)
    steps = tensor / np.where(scale > 0, scale, 1)[..., None]  # (..., n)
    return (np.rint(steps) + ZERO).astype(np.uint8), scale.astype(np.float32)


def dequantize(rounded: NDArray[np.generic], scale: NDArray[np.generic]) -> Floats:
    """The numbers of `quantize`: (..., n), (...) -> (..., n).

    >>> dequantize(*quantize(np.array([127.0, -64.0, 0.0], np.float32))).tolist()
    [127.0, -64.0, 0.0]
    """
    steps = rounded.astype(np.float32) - np.float32(ZERO)
    numbers: Floats = steps * scale.astype(np.float32)[..., None]
    return numbers
