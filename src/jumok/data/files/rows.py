"""A row of a file, and what every format with rows asks: the header, the cells, what is wrong."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jumok.config_io import suggest
from jumok.data.files.lines import Line, decode_line, quote
from jumok.errors import InputError

Cell = str | float | list[str]


class Row(NamedTuple):
    """The wanted cells of a row in the order they were asked for, or why it cannot be used."""

    line: int
    cells: tuple[Cell, ...] = ()
    fault: str = ""
    file: int = 0  # which of several files the fault is in


RowReader = Callable[[Path, Iterator[Line], Sequence[str], frozenset[str]], Iterator[Row]]


def line_text(line: Line) -> tuple[str, str]:
    """The text of a line, and why it cannot be read, "" if it can."""
    return ("", line.fault) if line.fault else decode_line(line.content)


def missing_header_error(path: Path) -> InputError:
    """What to raise for a file without a header."""
    return InputError(f"{path} is empty, wanted a header line and rows; name another file")


def check_header(path: Path, header: list[str], fault: str) -> list[str]:
    """The header, which has to be readable and to name each column once."""
    if fault:
        raise InputError(f"{path}:1: {fault}; correct the header")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise InputError(f"{path}:1: two columns are called {twice[0]!r}; rename one")
    return header


def column_indices(path: Path, header: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where the wanted columns stand in the header; letters stored apart (NFD) are the same."""
    composed = [unicodedata.normalize("NFC", name) for name in header]
    places = []
    for name in wanted:
        if unicodedata.normalize("NFC", name) not in composed:
            raise InputError(
                f"{path}:1: no column {name!r} in the header (seen {quote(' | '.join(header))}); "
                f"{suggest(name, header)}"
            )
        places.append(composed.index(unicodedata.normalize("NFC", name)))
    return places


def reject_lists(path: Path, lists: frozenset[str]) -> None:
    """Refuse columns that are to hold lists, in a format that has none."""
    if lists:
        raise InputError(f"{path}: only JSON lines hold lists of pieces; name a .jsonl file")


def cell_count_error(cells: Sequence[str], header: Sequence[str], text: str) -> str:
    """What is wrong with a row that has not as many cells as the header."""
    if not text:
        return f"an empty line, wanted {len(header)} cells"
    seen = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{seen}, wanted {len(header)} (seen {quote(text)})"
