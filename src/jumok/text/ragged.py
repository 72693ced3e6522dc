"""Rows of token ids of different lengths, kept end to end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]


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
    offsets: Offsets  # (rows + 1,), from 0 up to the number of ids

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> "Ragged":
        """Lists of ids end to end."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, count=len(rows))
        ids = np.fromiter((i for row in rows for i in row), np.int32, count=int(lengths.sum()))
        return cls.from_lengths(ids, lengths)

    @classmethod
    def from_lengths(cls, ids: Ids, lengths: Offsets) -> "Ragged":
        """Ids that stand end to end already, cut into rows of the given lengths."""
        return cls(ids, _offsets(lengths))

    @classmethod
    def concat(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """The rows of all parts, one part after the other.

        >>> rows = Ragged.joined([Ragged.from_lists([[5], []]), Ragged.from_lists([[6, 7]])])
        >>> list(rows)
        [array([5], dtype=int32), array([], dtype=int32), array([6, 7], dtype=int32)]
        """
        if not parts:
            return cls.from_lists([])
        lengths = np.concatenate([part.lengths for part in parts])
        return cls.from_lengths(np.concatenate([part.ids for part in parts]), lengths)

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
        """How many ids each row holds, (rows,)."""
        return np.diff(self.offsets)

    def take(self, rows: Sequence[int] | NDArray[np.integer]) -> "Ragged":
        """The named rows in the named order, copied.

        >>> list(Ragged.from_lists([[5, 6, 7], [], [8]]).take([2, 0]))
        [array([8], dtype=int32), array([5, 6, 7], dtype=int32)]
        """
        chosen = np.asarray(rows, np.int64)
        lengths = self.lengths[chosen]
        offsets = _offsets(lengths)
        # Where each taken id stands: its row's old start, and on from there.
        places = np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return Ragged(self.ids[places + np.arange(offsets[-1])], offsets)

    def truncate(self, lengths: Offsets | int) -> "Ragged":
        """Of each row so many ids from its beginning, or all of a row that has no more.

        >>> list(Ragged.from_lists([[5, 6, 7], [8]]).shortened(2))
        [array([5, 6], dtype=int32), array([8], dtype=int32)]
        """
        lengths = np.minimum(self.lengths, lengths)
        offsets = _offsets(lengths)
        places = np.repeat(self.offsets[:-1] - offsets[:-1], lengths)
        return Ragged(self.ids[places + np.arange(offsets[-1])], offsets)

    @classmethod
    def hstack(cls, parts: Sequence["Ragged"]) -> "Ragged":
        """Row after row the ids of the first part, then those of the second, and so on.

        >>> once, again = Ragged.from_lists([[5], [6]]), Ragged.from_lists([[7, 8], []])
        >>> list(Ragged.beside([once, again]))
        [array([5, 7, 8], dtype=int32), array([6], dtype=int32)]
        """
        rows = np.arange(len(parts) * len(parts[0])).reshape(len(parts), len(parts[0]))
        both = cls.concat(parts).take(rows.T.ravel())
        return cls(both.ids, both.offsets[:: len(parts)])


def _offsets(lengths: Offsets) -> Offsets:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
