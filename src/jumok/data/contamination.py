"""Contamination: the rows of a split that are in train as well, which inflate its score."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.unicode_forms import normalize

_INPUTS = ("text", "pair", "source")  # inputs of a model; other columns are labels
_BATCH = 65_536  # rows of train that are looked up at a time

Cells = tuple[str, ...]


@dataclass(frozen=True)
class Contamination:
    """Counts of a split: all rows, rows whose input is in train, rows that are in train.

    The input is the text, both texts of a pair, or the source; it is compared in NFC, by hashes of
    64 bits.
    """

    rows: int
    inputs: int
    whole_rows: int


def contamination(splits: Splits) -> dict[str, Contamination]:
    """The contamination of every split except train.

    >>> train = Table.from_columns({"text": ["굿", "별로"], "label": ["positive", "negative"]})
    >>> test = Table.from_columns({"text": ["굿", "별로", "음"], "label": ["positive"] * 3})
    >>> contamination(Splits({"train": train, "test": test}))
    {'test': Contamination(rows=3, inputs=2, whole_rows=1)}
    """
    inputs = tuple(name for name in splits.train.column_names if name in _INPUTS)
    everything = splits.train.column_names
    others = {name: table for name, table in splits.tables.items() if name != "train"}
    by_input = _also_in(splits.train, others, inputs)
    found = (
        by_input,
        (by_input if inputs == everything else _also_in(splits.train, others, everything)),
    )
    return {
        name: Contamination(len(table), *(counts[name] for counts in found))
        for name, table in others.items()
    }


def _also_in(train: Table, others: Mapping[str, Table], columns: Cells) -> dict[str, int]:
    """How many rows of each other table are rows of train, by these columns.

    Only the hashes of the others, which are smaller, are in memory at once.
    """
    hashes = {
        name: np.fromiter(_rows(table, columns), np.int64, len(table))
        for name, table in others.items()
    }
    searched = np.unique(np.concatenate([np.zeros(0, np.int64), *hashes.values()]))
    found = np.zeros(len(searched), np.bool_)
    rows = _rows(train, columns) if len(searched) else iter(())
    while len(some := np.fromiter(islice(rows, _BATCH), np.int64)):
        at = np.minimum(np.searchsorted(searched, some), len(searched) - 1)
        found[at[searched[at] == some]] = True
    both = searched[found]
    return {name: int(np.isin(own, both).sum()) for name, own in hashes.items()}


def _rows(table: Table, columns: Cells) -> Iterator[int]:
    """The hash of each row."""
    cells = [(normalize("NFC", str(cell)) for cell in table.cells(name)) for name in columns]
    return map(row_hash, zip(*cells, strict=True))


def row_hash(cells: Iterable[str]) -> int:
    """64 bits of the cells in UTF-8: `hash` of a str reads its memory, where ㄱ is 0x31 0x31.

    >>> hash("11") == hash("ㄱ"), row_hash(["11"]) == row_hash(["ㄱ"])
    (True, False)
    """
    return hash(tuple(cell.encode("utf-8", "surrogatepass") for cell in cells))
