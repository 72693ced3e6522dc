"""Contamination: the rows of a split that are in train as well, which inflate its score."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.unicode_forms import normalize

_INPUTS = ("text", "pair", "source")  # inputs of a model; other columns are labels

Cells = tuple[str, ...]


@dataclass(frozen=True)
class Contamination:
    """Counts of a split: all rows, rows whose input is in train, rows that are in train.

    The input is the text, both texts of a pair, or the source; it is compared exactly, in NFC.
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
    seen, seen_whole = (row_hashes(splits.train, columns) for columns in (inputs, everything))
    return {
        name: Contamination(
            len(table),
            int(np.isin(row_hashes(table, inputs), seen).sum()),
            int(np.isin(row_hashes(table, everything), seen_whole).sum()),
        )
        for name, table in splits.tables.items()
        if name != "train"
    }


def row_hashes(table: Table, columns: Cells) -> NDArray[np.int64]:
    """A hash of 64 bits of these cells of each row, in NFC: (n,); rows need no memory each."""
    cells = [
        map(str, table.numbers(name))
        if name == "score"
        else (normalize("NFC", cell) for cell in table.column(name))
        for name in columns
    ]
    return np.fromiter(map(hash, zip(*cells, strict=True)), np.int64, len(table))
