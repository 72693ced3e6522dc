"""How many rows of a split are in train as well: what a score may owe to remembering."""

import unicodedata
from dataclasses import dataclass

from jumok.data.splits import Splits
from jumok.data.table import Table

_INPUTS = ("text", "pair", "source")  # what a model is given; other columns are its answers

Given = tuple[str, ...]


@dataclass(frozen=True)
class Contamination:
    """Of the `rows` of a split, those whose input, and those whose input and answer, are in train.

    The input is the text, both texts of a pair, or the source; compared to the last letter, in
    composed form (NFC).
    """

    rows: int
    inputs: int
    whole_rows: int


def contamination(splits: Splits) -> dict[str, Contamination]:
    """For every split but train, how many of its rows are in train too.

    >>> train = Table.from_columns({"text": ["굿", "별로"], "label": ["positive", "negative"]})
    >>> test = Table.from_columns({"text": ["굿", "별로", "음"], "label": ["positive"] * 3})
    >>> overlap(Splits({"train": train, "test": test}))
    {'test': Overlap(rows=3, inputs=2, whole_rows=1)}
    """
    inputs = tuple(name for name in splits.train.column_names if name in _INPUTS)
    everything = splits.train.column_names
    seen, seen_whole = set(_rows(splits.train, inputs)), set(_rows(splits.train, everything))
    return {
        name: Contamination(
            len(table),
            sum(row in seen for row in _rows(table, inputs)),
            sum(row in seen_whole for row in _rows(table, everything)),
        )
        for name, table in splits.tables.items()
        if name != "train"
    }


def _rows(table: Table, columns: Given) -> list[Given]:
    cells = [
        map(str, table.numbers(name))
        if name == "score"
        else (unicodedata.normalize("NFC", cell) for cell in table.column(name))
        for name in columns
    ]
    return list(zip(*cells, strict=True))
