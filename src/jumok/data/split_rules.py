"""Which rows of a file belong to a split: by their place, by a hash that never moves, by letter."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.data.corpora.corpus import RowRange, SplitBy
from jumok.data.table import Table

N_BUCKETS = 1_000


def hash_bucket(text: str) -> int:
    """Which of a thousand buckets a text falls into, on every machine the same.

    It is the sha1 of the text in UTF-8, read as a number, modulo 1,000: like texts share one.

    >>> bucket("안녕"), bucket("안녕!")
    (917, 159)
    """
    return int.from_bytes(_sha1(text)) % N_BUCKETS


def split_keys(keys: Sequence[str], by: SplitBy) -> NDArray[np.int64]:
    """The number of each row that the splits of its file are cut by.

    By "hash" it is the bucket of the row's key; by "order" its place when the rows are sorted by
    the sha1 of their keys, so that each split has just so many rows.

    >>> sorted(places(["가", "나", "다"], "order").tolist())
    [0, 1, 2]
    """
    if by == "hash":
        return np.array([hash_bucket(key) for key in keys], np.int64)
    sums = [_sha1(key) for key in keys]
    found = np.empty(len(sums), np.int64)
    found[sorted(range(len(sums)), key=sums.__getitem__)] = np.arange(len(sums))
    return found


def select_split(table: Table, rows: RowRange, numbers: NDArray[np.int64]) -> Table:
    """The rows of a split; `numbers` are those of `places`, for splits that are cut by them."""
    match rows.by:
        case "rows":
            return table.slice(rows.first, rows.stop)
        case "characters":
            return slice_text(table, rows.first, N_BUCKETS if rows.stop is None else rows.stop)
        case "hash" | "order":
            stop = len(table) + N_BUCKETS if rows.stop is None else rows.stop
            return table.keep((rows.first <= numbers) & (numbers < stop))


def slice_text(table: Table, first: int, stop: int) -> Table:
    """A table of one text cut down to some thousandths of its characters.

    >>> table = Table.from_columns({"text": ["열 글자 된다면 참"]})
    >>> part_of_text(table, 900, 1_000).column("text")[0]
    '참'
    """
    (name,) = table.column_names
    (text,) = table.column(name)
    begin, end = (len(text) * place // N_BUCKETS for place in (first, stop))
    return Table.from_columns({name: [text[begin:end]]})


def _sha1(text: str) -> bytes:
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest()
