"""Rules that select the rows of a split: by position, by a stable hash, or by characters."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.data.corpora.corpus import RowRange, SplitBy
from jumok.data.table import Table

N_BUCKETS = 1_000


def hash_bucket(text: str) -> int:
    """The bucket of a text, the same on every machine: its sha1 as an integer, modulo 1,000.

    >>> hash_bucket("안녕"), hash_bucket("안녕!")
    (917, 159)
    """
    return int.from_bytes(_sha1(text)) % N_BUCKETS


def split_keys(keys: Sequence[str], by: SplitBy) -> NDArray[np.int64]:
    """The number of each row by which the splits of its file are selected.

    For "hash" it is the bucket of the row's key; for "order" its rank by the sha1 of the keys, so
    that each split has an exact number of rows.

    >>> sorted(split_keys(["가", "나", "다"], "order").tolist())
    [0, 1, 2]
    """
    if by == "hash":
        return np.array([hash_bucket(key) for key in keys], np.int64)
    digests = [_sha1(key) for key in keys]
    found = np.empty(len(digests), np.int64)
    found[sorted(range(len(digests)), key=digests.__getitem__)] = np.arange(len(digests))
    return found


def select_split(table: Table, rows: RowRange, numbers: NDArray[np.int64]) -> Table:
    """The rows of a split; `numbers` are from `split_keys`, if the split is by these."""
    match rows.by:
        case "rows":
            return table.slice(rows.first, rows.stop)
        case "characters":
            return slice_text(table, rows.first, N_BUCKETS if rows.stop is None else rows.stop)
        case "hash" | "order":
            stop = len(table) + N_BUCKETS if rows.stop is None else rows.stop
            return table.keep((rows.first <= numbers) & (numbers < stop))


def slice_text(table: Table, first: int, stop: int) -> Table:
    """A table of one text, reduced to a range of thousandths of its characters.

    >>> table = Table.from_columns({"text": ["열 글자 된다면 참"]})
    >>> slice_text(table, 900, 1_000).column("text")[0]
    '참'
    """
    (name,) = table.column_names
    (text,) = table.column(name)
    begin, end = (len(text) * part // N_BUCKETS for part in (first, stop))
    return Table.from_columns({name: [text[begin:end]]})


def _sha1(text: str) -> bytes:
    return hashlib.sha1(text.encode(), usedforsecurity=False).digest()
