"""Contamination: the rows of a split that are in train as well, which inflate its score."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.unicode_forms import normalize

_INPUTS = ("text", "pair", "source")  # inputs of a model; other columns are labels

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
    found = _also_in(splits.train, others, inputs), _also_in(splits.train, others, everything)
    return {
        name: Contamination(len(table), *(counts[name] for counts in found))
        for name, table in others.items()
    }


def _also_in(train: Table, others: Mapping[str, Table], columns: Cells) -> dict[str, int]:
    """How many rows of each other table are rows of train, by these columns.

    Only the hashes of the others, which are smaller, are in memory at once.
    """
    rows = {name: Counter(_rows(table, columns)) for name, table in others.items()}
    searched = {row for counts in rows.values() for row in counts}
    found = searched.intersection(_rows(train, columns)) if searched else set()
    return {name: sum(counts[row] for row in found) for name, counts in rows.items()}


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
