"""The random numbers of samples, which depend on the seed, the text and the step alone."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def text_key(ids: Iterable[int]) -> int:
    """A hash of the tokens of a text, from 0 to 2^64 - 1: FNV-1a of the ids instead of bytes.

    >>> text_key([1, 2]) == text_key([1, 2]), text_key([1, 2]) == text_key([2, 1])
    (True, False)
    """
    key = 0xCBF29CE484222325
    for each in ids:
        key = (key ^ each) * 0x100000001B3 % 2**64
    return key


def philox_stream(
    seed: int, key: int, number: int = 0, *, for_draft: bool = False
) -> np.random.Philox:
    """The random bits of one hypothesis of a text; a separate stream for speculative decoding.

    A Philox stream (Salmon et al. 2011), of which numpy guarantees the values; kernel/sampling.h
    computes the same.
    """
    limbs = np.array([seed % 2**64, key % 2**64], dtype=np.uint64)
    return np.random.Philox(key=limbs, counter=[0, 0, int(for_draft), number])


def draw_uniform(stream: np.random.Philox, n: int) -> NDArray[np.float64]:
    """The next n numbers of a stream, from 0 to 1 - 2^-52: (n,) float64."""
    return (stream.random_raw(n) >> np.uint64(12)).astype(np.float64) * 2.0**-52
