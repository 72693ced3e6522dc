"""Character n-grams as rows of one table, by hashing (Bojanowski et al. 2017, section 3.2).

Shapes: C characters, G windows.
"""

import numpy as np
from numpy.typing import NDArray

# The n-grams of a character: from an offset up to another, here of 1 to 3 characters that begin or
# end with it.
WINDOWS = ((0, 1), (-1, 1), (0, 2), (-2, 1), (0, 3))

_BEFORE, _AFTER = 2, 2  # the farthest characters that a window reads
_START, _END = 0x110000, 0x110001  # beyond the last character of Unicode
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3  # FNV-1a with 64 bits
_MIXER = 0xFF51AFD7ED558CCD  # of MurmurHash3: the low bits depend on all characters


def ngram_rows(text: str, n_rows: int) -> NDArray[np.int64]:
    """The rows (C, G) of the n-grams around each character, from 0 to n_rows - 1.

    The same n-gram in another window has another row. The hash depends on the characters and on
    nothing else: it is the same in every process and on every machine. Different n-grams may share
    a row.

    >>> rows = ngram_rows("서울 서울", 65_536)
    >>> rows.shape, bool((rows[0, 0] == rows[3, 0]) and (rows[0, 2] == rows[3, 2]))
    ((5, 5), True)
    >>> rows[1].tolist()
    [44759, 44327, 18201, 7308, 6286]
    """
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    n = len(codes)
    padded = np.pad(codes, (_BEFORE, _AFTER), constant_values=(_START, _END))
    rows = np.empty((n, len(WINDOWS)), np.int64)
    for column, (start, stop) in enumerate(WINDOWS):
        hashed = np.full(n, (_FNV_OFFSET ^ column) * _FNV_PRIME % 2**64, np.uint64)
        for offset in range(_BEFORE + start, _BEFORE + stop):
            hashed = (hashed ^ padded[offset : offset + n]) * np.uint64(_FNV_PRIME)
        hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(_MIXER)
        rows[:, column] = (hashed ^ (hashed >> np.uint64(33))) % np.uint64(n_rows)
    return rows
