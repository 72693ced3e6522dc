"""Batches with little padding: texts of similar length, or several texts packed into one row.

Everything here is a pure function of lengths and an order, so it is reproducible on resuming.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.text.ragged import Ragged

Ints = NDArray[np.int64]
TokenIds = Sequence[int] | NDArray[np.integer]  # ids

_OPEN_ROWS = 64  # that may have room for another example
_CHUNK = 2**16  # examples that are lists of numbers at a time


def length_batches(
    lengths: Ints, order: Ints, batch_tokens: int, rng: np.random.Generator
) -> list[Ints]:
    """Batches of similar length with at most `batch_tokens` tokens each, padding included.

    lengths (n,): tokens of each example; (n, 2) for a source and a target, whose padded sum
    counts. order (n,): the examples; those of equal length keep this order. The order of batches
    is random. An example longer than the budget is a batch of its own.

    >>> rng = np.random.default_rng(0)
    >>> batches = length_batches(np.array([3, 1, 3, 1]), np.arange(4), 6, rng)
    >>> sorted(batch.tolist() for batch in batches)
    [[0, 2], [1, 3]]
    """
    table = lengths if lengths.ndim == 2 else lengths[:, None]
    keys = tuple(table[order, column] for column in range(table.shape[1]))
    by_length = order[np.lexsort(keys)]  # stable: equal lengths keep `order`
    batches: list[Ints] = []
    start = 0
    widest = np.zeros(table.shape[1], dtype=np.int64)
    for end, example in enumerate(by_length):
        grown = np.maximum(widest, table[example])
        if end > start and int(grown.sum()) * (end + 1 - start) > batch_tokens:
            batches.append(by_length[start:end])
            start, grown = end, table[example]
        widest = grown
    if start < len(by_length):
        batches.append(by_length[start:])
    return [batches[i] for i in rng.permutation(len(batches))]


def plan_packing(lengths: Sequence[int] | Ints, order: Ints, width: int) -> Ragged:
    """The examples of each row when they are packed into rows of one width.

    First fit among the last rows. Raises ValueError for an example longer than the width.

    >>> list(plan_packing([3, 4, 1, 2], np.arange(4), 5))
    [array([0, 2], dtype=int32), array([1], dtype=int32), array([3], dtype=int32)]
    """
    rows, counts = array("i"), array("q")  # without those of `last`
    last: list[list[int]] = []
    free: list[int] = []  # free positions of each of the last rows
    table = np.asarray(lengths)

    def close(n: int) -> None:
        for row in last[:n]:
            rows.extend(row)
            counts.append(len(row))
        del last[:n], free[:n]

    for start in range(0, len(order), _CHUNK):
        some = order[start : start + _CHUNK]
        for example, need in zip(some.tolist(), table[some].tolist(), strict=True):
            if need > width:
                raise ValueError(
                    f"an example must have at most {width} tokens, got {need}; truncate it"
                )
            for row, left in enumerate(free):
                if left >= need:
                    last[row].append(example)
                    free[row] -= need
                    break
            else:
                last.append([example])
                free.append(width - need)
                close(max(len(last) - _OPEN_ROWS, 0))
    close(len(last))
    return Ragged.from_lengths(np.asarray(rows), np.asarray(counts))


@dataclass(frozen=True)
class PaddedArrays:
    """A rectangle of ids and the mask of its tokens: False on padding."""

    ids: Ints  # (B, T)
    mask: NDArray[np.bool_]  # (B, T)


def pad(rows: Sequence[TokenIds], pad_id: int, *, left: bool = False) -> PaddedArrays:
    """A rectangle of rows, padded on the right, or on the left.

    >>> pad([[5, 6], [7]], pad_id=0).ids
    array([[5, 6],
           [7, 0]])
    >>> pad([[5, 6], [7]], pad_id=0, left=True).mask
    array([[ True,  True],
           [False,  True]])
    """
    lengths = np.array([len(row) for row in rows])
    width = int(lengths.max(initial=1))
    positions = np.arange(width)
    mask = positions >= width - lengths[:, None] if left else positions < lengths[:, None]  # (B, T)
    ids = np.full(mask.shape, pad_id, dtype=np.int64)
    if len(rows):
        ids[mask] = np.concatenate(rows)
    return PaddedArrays(ids, mask)


@dataclass(frozen=True)
class PackedArrays:
    """Rows of one width with several texts each."""

    ids: Ints  # (R, W)
    document_ids: Ints  # (R, W): the number of the token's text; -1 on padding
    positions: Ints  # (R, W): from 0 in every text


def fill_packed(
    rows: Sequence[Sequence[int]], examples: Sequence[NDArray[np.int32]], width: int, pad_id: int
) -> PackedArrays:
    """The rows of `plan_packing`, filled; texts are numbered in order.

    >>> two = [np.array([5, 6], np.int32), np.array([7], np.int32)]
    >>> fill_packed([[0, 1]], two, width=4, pad_id=0).document_ids
    array([[ 0,  0,  1, -1]])
    """
    ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    texts = np.full((len(rows), width), -1, dtype=np.int64)
    positions = np.zeros((len(rows), width), dtype=np.int64)
    number = 0
    for r, row in enumerate(rows):
        start = 0
        for example in row:
            part = examples[example]
            stop = start + len(part)
            ids[r, start:stop] = part
            texts[r, start:stop] = number
            positions[r, start:stop] = np.arange(len(part))
            start, number = stop, number + 1
    return PackedArrays(ids, texts, positions)
