"""Rows of token ids of different lengths in one array, without padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]


ROWS = 2**12  # that are copied at a time: the indices take 24 bytes for each id


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of ids without padding: row i is `ids[offsets[i] : offsets[i + 1]]`.

    >>> rows = Ragged.from_lists([[5, 6, 7], [], [8]])
    >>> rows.ids, rows.offsets
    (array([5, 6, 7, 8], dtype=int32), array([0, 3, 3, 4]))
    >>> len(rows), rows[0], rows.lengths
    (3, array([5, 6, 7], dtype=int32), array([3, 0, 1]))
    """

    ids: Ids  # (tokens of all rows,)
    offsets: Offsets  # (rows + 1,), from 0 to the number of ids

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        """Rows from lists of ids."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, count=len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(lengths.sum()))
        return cls.from_lengths(ids, lengths)

    @classmethod
    def from_lengths(cls, ids: Ids, lengths: Offsets) -> "Ragged":
        """Rows of the given lengths from ids that are concatenated already."""
        return cls(ids, _offsets(lengths))

    @classmethod
    def repeated(cls, row: Sequence[int], n: int) -> "Ragged":
        """One row repeated `n` times.

        >>> list(Ragged.repeated([5, 6], 2))
        [array([5, 6], dtype=int32), array([5, 6], dtype=int32)]
        """
        lengths = np.full(n, len(row), np.int64)
        return cls.from_lengths(np.tile(np.array(row, np.int32), n), lengths)

    @classmethod
    def concat(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """The rows of all parts, one part after the other.

        >>> rows = Ragged.concat([Ragged.from_lists([[5], []]), Ragged.from_lists([[6, 7]])])
        >>> list(rows)
        [array([5], dtype=int32), array([], dtype=int32), array([6, 7], dtype=int32)]
        """
        if not parts:
            return cls.from_lists([])
        lengths = np.concatenate([part.lengths for part in parts])
        return cls.from_lengths(np.concatenate([part.ids for part in parts]), lengths)

    @classmethod
    def hstack(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """Each row is the row of the first part followed by the rows of the other parts.

        >>> once, again = Ragged.from_lists([[5], [6]]), Ragged.from_lists([[7, 8], []])
        >>> list(Ragged.hstack([once, again]))
        [array([5, 7, 8], dtype=int32), array([6], dtype=int32)]
        """
        offsets = _offsets(np.sum([part.lengths for part in parts], axis=0))
        ids = np.empty(offsets[-1], np.int32)
        starts = offsets[:-1].copy()  # of the next part of each row
        for part in parts:
            part._copy_rows(ids, starts)
            starts += part.lengths
        return cls(ids, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Ids:
        """The ids of one row, a view; a negative number counts from the end."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} of {len(self)}")
        row %= len(self)
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> Offsets:
        """The number of ids in each row, (rows,)."""
        return np.diff(self.offsets)

    def take(self, rows: Sequence[int] | NDArray[np.integer]) -> "Ragged":
        """A copy of the given rows in the given order.

        >>> list(Ragged.from_lists([[5, 6, 7], [], [8]]).take([2, 0]))
        [array([8], dtype=int32), array([5, 6, 7], dtype=int32)]
        """
        chosen = np.asarray(rows, np.int64)
        starts = self.offsets[:-1][chosen]
        return self._slices(starts, self.offsets[1:][chosen] - starts)

    def between(self, first: int, stop: int) -> "Ragged":
        """The rows from `first` up to `stop`, without copying their ids.

        >>> list(Ragged.from_lists([[5, 6, 7], [], [8]]).between(1, 3))
        [array([], dtype=int32), array([8], dtype=int32)]
        """
        offsets = self.offsets[first : stop + 1]
        return Ragged(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])

    def blocks(self, size: int) -> Offsets:
        """Rows at which blocks of some `size` ids begin, and the number of rows: (blocks + 1,).

        >>> Ragged.from_lists([[5, 6, 7], [8], [9, 10], [11]]).blocks(3)
        array([0, 1, 3, 4])
        """
        begins = np.searchsorted(self.offsets[:-1], np.arange(0, len(self.ids), size))
        return np.unique(np.append(begins, len(self)))

    def truncate(
        self, lengths: Offsets | int, side: Literal["right", "left"] = "right"
    ) -> "Ragged":
        """At most so many ids of each row; ids are removed on `side`.

        >>> list(Ragged.from_lists([[5, 6, 7], [8]]).truncate(2))
        [array([5, 6], dtype=int32), array([8], dtype=int32)]
        >>> list(Ragged.from_lists([[5, 6, 7], [8]]).truncate(2, "left"))
        [array([6, 7], dtype=int32), array([8], dtype=int32)]
        """
        kept = np.minimum(self.lengths, lengths)
        if np.array_equal(kept, self.lengths):
            return self
        starts = self.offsets[:-1] if side == "right" else self.offsets[1:] - kept
        return self._slices(starts, kept)

    def split(self, width: int) -> "Ragged":
        """Rows of more than `width` ids cut into the fewest rows of nearly equal length.

        >>> list(Ragged.from_lists([[5, 6, 7, 8], [9]]).split(3))
        [array([5, 6], dtype=int32), array([7, 8], dtype=int32), array([9], dtype=int32)]
        """
        parts = np.maximum(-(-self.lengths // width), 1)
        row = np.repeat(np.arange(len(self)), parts)
        number = np.arange(len(row)) - np.repeat(np.cumsum(parts) - parts, parts)
        starts, stops = (self.lengths[row] * k // parts[row] for k in (number, number + 1))
        return self._slices(self.offsets[:-1][row] + starts, stops - starts)

    def _copy_rows(self, ids: Ids, starts: Offsets) -> None:
        """Copy each row into `ids`, from its position in `starts` (rows,) on."""
        for first in range(0, len(self), ROWS):
            rows = slice(first, first + ROWS)
            begin, end = self.offsets[first], self.offsets[min(first + ROWS, len(self))]
            shift = np.repeat(starts[rows] - self.offsets[:-1][rows], self.lengths[rows])
            ids[shift + np.arange(begin, end)] = self.ids[begin:end]

    def _slices(self, starts: Offsets, lengths: Offsets) -> "Ragged":
        """The rows that begin at `starts` in `ids` and have these lengths, copied."""
        offsets = _offsets(lengths)
        ids = np.empty(offsets[-1], self.ids.dtype)
        shifts = starts - offsets[:-1]  # from a new position to the old one
        for first in range(0, len(lengths), ROWS):
            rows = slice(first, first + ROWS)
            begin, end = offsets[first], offsets[min(first + ROWS, len(lengths))]
            shift = np.repeat(shifts[rows], lengths[rows])
            ids[begin:end] = self.ids[shift + np.arange(begin, end)]
        return Ragged(ids, offsets)


def _offsets(lengths: Offsets) -> Offsets:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
