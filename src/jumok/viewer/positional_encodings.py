"""Five positional encodings, each better than the one before; the fifth is that of the paper.

Each is an array (n, d): row p encodes position p. The criterion: is there one linear map for a
shift by k, the same for every p?  PE(p + k) = PE(p) T(k).
NumPy, float64; the models use `jumok.nn.positions`.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from jumok.errors import TraceError

Positions: TypeAlias = NDArray[np.float64]
MAX_WAVELENGTH = 10_000.0  # section 3.5: wavelengths run from 2 pi to 10,000 * 2 pi


def index(n: int) -> Positions:
    """PE(p) = p: unbounded; (n, 1).

    >>> index(4).ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    return np.arange(n, dtype=np.float64)[:, None]


def normalised_index(n: int) -> Positions:
    """PE(p) = p / (n - 1): bounded, but depends on the length of the text; (n, 1).

    >>> normalised_index(11)[3].item(), normalised_index(21)[3].item()
    (0.3, 0.15)
    """
    return index(n) / max(n - 1, 1)


def binary(n: int, d: int) -> Positions:
    """PE(p, j) = floor(p / 2^j) mod 2: bounded and unique below 2^d, but not continuous; (n, d).

    >>> binary(4, 3).astype(int).tolist()
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    """
    return np.floor(index(n) / 2.0 ** np.arange(d)) % 2


def continuous_binary(n: int, d: int) -> Positions:
    """PE(p, j) = sin(pi p / 2^j), j = 1 ... d: a continuous version of the bits; (n, d).

    >>> continuous_binary(4, 2).round(2).tolist()
    [[0.0, 0.0], [1.0, 0.71], [0.0, 1.0], [-1.0, 0.71]]
    """
    return np.sin(np.pi * index(n) / 2.0 ** np.arange(1, d + 1))


def sinusoid_pairs(n: int, d: int) -> Positions:
    """PE(p, 2i) = sin(p w_i), PE(p, 2i+1) = cos(p w_i), w_i = 10000^(-2i/d); (n, d).

    Section 3.5. Raises InputError for an odd d: each sine needs its cosine.

    >>> sinusoid_pairs(2, 4).round(2).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.84, 0.54, 0.01, 1.0]]
    """
    angles = index(n) * _frequencies(d)  # (n, d/2)
    return np.stack((np.sin(angles), np.cos(angles)), axis=-1).reshape(n, d)


def shift_matrix(k: int, d: int) -> Positions:
    """T(k) with `sinusoid_pairs(...)[p + k] == sinusoid_pairs(...)[p] @ T(k)` for every p.

    Each pair is rotated by its own angle k w_i; k may be negative:  T(-k) = T(k) transposed.

    >>> table = sinusoid_pairs(50, 8)
    >>> bool(np.allclose(table[7:], table[:-7] @ shift_matrix(7, 8), atol=1e-14))
    True
    """
    angles = k * _frequencies(d)
    matrix = np.zeros((d, d))
    even, odd = np.arange(0, d, 2), np.arange(1, d, 2)
    matrix[even, even] = matrix[odd, odd] = np.cos(angles)
    matrix[odd, even] = np.sin(angles)  # sin(a + b) = sin a cos b + cos a sin b
    matrix[even, odd] = -np.sin(angles)  # cos(a + b) = cos a cos b - sin a sin b
    return matrix


def best_shift(positions: Positions, k: int) -> Positions:
    """The least-squares solution T of PE(p + k) = PE(p) T for all p, k >= 1; (d, d).

    >>> best_shift(index(4), 1).round(2).tolist()  # 0, 1, 2 -> 1, 2, 3 has no exact solution
    [[1.6]]
    """
    before, after = positions[:-k], positions[k:]
    return np.asarray(np.linalg.lstsq(before, after, rcond=None)[0])


def shift_error(positions: Positions, k: int, matrix: Positions) -> float:
    """The relative error of PE(p) T = PE(p + k): 0 is exact, 1 no better than zeros.

    >>> table = sinusoid_pairs(64, 16)
    >>> shift_error(table, 5, shift_matrix(5, 16)) < 1e-14
    True
    >>> codes = binary(64, 6)
    >>> round(shift_error(codes, 5, best_shift(codes, 5)), 2)
    0.6
    """
    before, after = positions[:-k], positions[k:]
    return float(np.linalg.norm(before @ matrix - after) / np.linalg.norm(after))


def _frequencies(d: int) -> Positions:
    """w_i = 10000^(-2i/d), i = 0 ... d/2 - 1."""
    if d % 2:
        raise TraceError(
            "page.odd_dimensions",
            "the number of dimensions must be even, got {d}; try {d_2}",
            d=d,
            d_2=d + 1,
        )
    return MAX_WAVELENGTH ** (-np.arange(0, d, 2) / d)
