"""Windows on documents: stretches that a model reads at once, every token foreseen exactly once.

A document is read as far as it fits; a longer one through several windows of one width, and the
first tokens of a later window may be context alone, foreseen already by the one before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jumok.data.packing import fill_packed
from jumok.errors import InputError
from jumok.text.ragged import Ids, Offsets, Ragged


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """The [windows] table: how a language model sees documents; a window is model.max_length."""

    across_documents: bool = False  # True: one stream of all, as nanoGPT has it
    overlap: float = 0.5  # share of a window that is context alone when long documents are scored

    def __post_init__(self) -> None:
        if not 0.0 <= self.overlap < 1.0:
            raise InputError(f"windows.overlap {self.overlap}: give 0 or more, below 1")


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows on the tokens of documents; what follows each token that is read is to be foreseen.

    >>> document = Ragged.from_lists([[2, 10, 11, 12, 13, 3]])
    >>> windows = Windows.on(document, width=3, overlap=1)
    >>> windows.begins, windows.lengths, windows.known
    (array([0, 2]), array([3, 3]), array([0, 1]))
    """

    documents: Ragged
    starts: Offsets  # (n,) where each stands in `documents.ids`
    lengths: Offsets  # (n,) tokens read
    context_lengths: (
        Offsets  # (n,) tokens at its beginning whose successors an earlier window has foreseen
    )
    is_document_start: NDArray[
        np.bool_
    ]  # of each token: whether it begins a text, which nobody foresees

    @classmethod
    def over(
        cls,
        documents: Ragged,
        width: int,
        overlap: int = 0,
        first: Offsets | None = None,
        texts: Offsets | None = None,
    ) -> "Windows":
        """Windows of at most `width` tokens, each with at least `overlap` tokens of context.

        `first` (documents,), 1 to `width`, is how many tokens the first window of each long
        document reads (None: `width`), and so where all its others stand. `texts` says where in
        `documents.ids` a text begins (None: with each document).
        """
        stride = width - overlap
        n_read = np.maximum(documents.lengths - 1, 0)  # nothing follows the last token
        first = np.minimum(
            n_read, width if first is None else np.where(n_read > width, first, width)
        )
        counts = (n_read > 0) + -(-(n_read - first) // stride)
        document = np.repeat(np.arange(len(documents)), counts)
        number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
        ends = np.minimum(first[document] + number * stride, n_read[document])
        begins = np.maximum(ends - width, 0)
        done = np.where(number > 0, first[document] + (number - 1) * stride, 0)
        given = np.zeros(len(documents.ids), dtype=np.bool_)
        given[documents.offsets[:-1][documents.lengths > 0] if texts is None else texts] = True
        begins_at = documents.offsets[document] + begins
        return cls(documents, begins_at, ends - begins, done - begins, given)

    def __len__(self) -> int:
        return len(self.starts)

    def to_rows(self, rows: Sequence[Sequence[int]], width: int, pad_id: int) -> "WindowRows":
        """The windows of these numbers, end to end in rows of one width."""
        numbers = np.array([number for row in rows for number in row], dtype=np.int64)
        places = np.cumsum([0, *map(len, rows)])
        local = [list(range(a, b)) for a, b in pairwise(places.tolist())]
        read = self._of(self.documents.ids, numbers, later=0)
        wanted = self._of(self.documents.ids, numbers, later=1)
        given = self._of(self.is_document_start, numbers, later=1)
        box = fill_packed(local, read, width, pad_id)
        known = np.append(
            self.context_lengths[numbers], width
        )  # the last is for padding, number -1
        counted = box.positions >= known[box.document_ids]
        counted &= fill_packed(local, given, width, 0).ids == 0
        return WindowRows(
            box.ids,
            fill_packed(local, wanted, width, pad_id).ids,
            box.document_ids,
            box.positions,
            counted,
        )

    def _of(self, tokens: NDArray[Any], numbers: NDArray[np.int64], later: int) -> list[Ids]:
        """What stands for the tokens of some windows, or so many places later."""
        begins = self.starts[numbers] + later
        stretches = zip(begins.tolist(), self.lengths[numbers].tolist(), strict=True)
        return [tokens[begin : begin + length] for begin, length in stretches]


@dataclass(frozen=True)
class WindowRows:
    """Windows end to end in rows of one width: R rows, W tokens."""

    ids: NDArray[np.int64]  # (R, W)
    labels: NDArray[np.int64]  # (R, W): the token after each
    window_ids: NDArray[
        np.int64
    ]  # (R, W): the number of the window a token stands in, -1 on padding
    positions: NDArray[np.int64]  # (R, W): beginning at 0 with every window
    loss_mask: NDArray[np.bool_]  # (R, W): what is foreseen here and nowhere else

    @property
    def unpacked(self) -> bool:
        """Whether each row is one window, without padding."""
        return bool((self.positions[:, -1] == self.positions.shape[1] - 1).all())


def concatenate(documents: Ragged) -> Ragged:
    """All documents as one.

    >>> joined(Ragged.from_lists([[2, 5, 3], [2, 6, 3]])).lengths
    array([6])
    """
    return Ragged(documents.ids, np.array([0, len(documents.ids)], dtype=np.int64))


def add_bos_eos(rows: Ragged, before: int, after: int) -> Ragged:
    """Every row between two ids.

    >>> list(framed(Ragged.from_lists([[5], []]), 2, 3))
    [array([2, 5, 3], dtype=int32), array([2, 3], dtype=int32)]
    """
    offsets = rows.offsets + 2 * np.arange(len(rows) + 1)
    ids = np.empty(len(rows.ids) + 2 * len(rows), dtype=np.int32)
    inside = np.ones(len(ids), dtype=np.bool_)
    inside[offsets[:-1]] = inside[offsets[1:] - 1] = False
    ids[inside], ids[offsets[:-1]], ids[offsets[1:] - 1] = rows.ids, before, after
    return Ragged(ids, offsets)
