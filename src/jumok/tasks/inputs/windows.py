"""Windows over documents: slices that a model reads at once; every token is predicted exactly once.

A document that is too long is read in several windows of one width. The first tokens of a later
window may be context only: the window before has predicted them already.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from jumok.data.packing import fill_packed
from jumok.text.ragged import Ids, Offsets, Ragged


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows over the tokens of documents; the model predicts the token after each one it reads.

    >>> document = Ragged.from_lists([[2, 10, 11, 12, 13, 3]])
    >>> windows = Windows.over(document, width=3, overlap=1)
    >>> windows.starts, windows.lengths, windows.context_lengths
    (array([0, 2]), array([3, 3]), array([0, 1]))
    """

    documents: Ragged
    starts: Offsets  # (n,) index in `documents.ids`
    lengths: Offsets  # (n,) tokens read
    context_lengths: Offsets  # (n,) first tokens whose successors an earlier window predicts
    texts: Offsets | None  # indices where texts start, never predicted; None: documents start

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

        `first` (documents,), 1 to `width`, is the number of tokens in the first window of each long
        document (None: `width`), which determines where its other windows start. `texts` are the
        indices in `documents.ids` where texts start (None: where documents start).
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
        starts = np.maximum(ends - width, 0)
        predicted = np.where(number > 0, first[document] + (number - 1) * stride, 0)
        offsets = documents.offsets[document]
        return cls(documents, offsets + starts, ends - starts, predicted - starts, texts)

    def __len__(self) -> int:
        return len(self.starts)

    def to_rows(self, rows: Ragged, width: int, pad_id: int) -> "WindowRows":
        """The windows with these numbers, packed into rows of one width."""
        numbers = rows.ids.astype(np.int64)
        plan = [list(range(a, b)) for a, b in pairwise(rows.offsets.tolist())]
        inputs, labels = self._slices(numbers), self._slices(numbers, later=1)
        packed = fill_packed(plan, inputs, width, pad_id)
        context = np.append(self.context_lengths[numbers], width)  # the last is that of padding, -1
        loss_mask = packed.positions >= context[packed.document_ids]
        if self.texts is not None:  # else no window reads beyond its document
            is_start = self._starts_of(self.texts, numbers)
            loss_mask &= fill_packed(plan, is_start, width, 0).ids == 0
        return WindowRows(
            packed.ids,
            fill_packed(plan, labels, width, pad_id).ids,
            packed.document_ids,
            packed.positions,
            loss_mask,
        )

    def _slices(self, numbers: NDArray[np.int64], later: int = 0) -> list[Ids]:
        """The ids that some windows read, or those `later` positions after them."""
        starts = self.starts[numbers] + later
        spans = zip(starts.tolist(), self.lengths[numbers].tolist(), strict=True)
        return [self.documents.ids[start : start + length] for start, length in spans]

    def _starts_of(self, texts: Offsets, numbers: NDArray[np.int64]) -> list[Ids]:
        """For each label of some windows 1 if a text starts there, else 0."""
        starts, lengths = self.starts[numbers] + 1, self.lengths[numbers]
        firsts, stops = np.searchsorted(texts, starts), np.searchsorted(texts, starts + lengths)
        found = [np.zeros(length, np.int32) for length in lengths]
        for row, start, first, stop in zip(found, starts, firsts, stops, strict=True):
            row[texts[first:stop] - start] = 1
        return found


@dataclass(frozen=True)
class WindowRows:
    """Packed windows: R rows of W tokens."""

    ids: NDArray[np.int64]  # (R, W)
    labels: NDArray[np.int64]  # (R, W): the next token
    window_ids: NDArray[np.int64]  # (R, W): the number of the window of each token, -1 for padding
    positions: NDArray[np.int64]  # (R, W): from 0 in every window
    loss_mask: NDArray[np.bool_]  # (R, W): True where the label is predicted only here

    @property
    def unpacked(self) -> bool:
        """Whether each row is one window, without padding."""
        return bool((self.positions[:, -1] == self.positions.shape[1] - 1).all())


def concatenate(documents: Ragged) -> Ragged:
    """All documents as one stream.

    >>> concatenate(Ragged.from_lists([[2, 5, 3], [2, 6, 3]])).lengths
    array([6])
    """
    return Ragged(documents.ids, np.array([0, len(documents.ids)], dtype=np.int64))


def add_bos_eos(rows: Ragged, bos_id: int, eos_id: int) -> Ragged:
    """Every row between [BOS] and [EOS].

    >>> list(add_bos_eos(Ragged.from_lists([[5], []]), 2, 3))
    [array([2, 5, 3], dtype=int32), array([2, 3], dtype=int32)]
    """
    offsets = rows.offsets + 2 * np.arange(len(rows) + 1)
    ids = np.empty(len(rows.ids) + 2 * len(rows), dtype=np.int32)
    is_text = np.ones(len(ids), dtype=np.bool_)
    is_text[offsets[:-1]] = is_text[offsets[1:] - 1] = False
    ids[is_text], ids[offsets[:-1]], ids[offsets[1:] - 1] = rows.ids, bos_id, eos_id
    return Ragged(ids, offsets)
