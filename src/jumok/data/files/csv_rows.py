"""Rows of CSV files: cells in quotes, over several lines, and rows that break off inside one."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from jumok.data.files.lines import Line, decode_line
from jumok.data.files.rows import (
    Row,
    cell_count_error,
    check_header,
    column_indices,
    missing_header_error,
    reject_lists,
)
from jumok.errors import InputError


def csv_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with a header row and CSV's quoting; a cell may run over several lines.

    Of a row that breaks off inside a cell every line is told, up to the one that closes the cell.
    """
    reject_lists(path, lists)
    source = _CsvLines(lines)
    reader = csv.reader(source, strict=True)
    header: list[str] = []
    while True:
        line = source.number + 1
        source.inside = False
        try:
            cells = next(reader)
        except StopIteration:
            break
        except (csv.Error, _LineError) as error:
            fault = str(error) if isinstance(error, _LineError) else _not_csv(error)
            if not header:
                raise InputError(f"{path}:{line}: {fault}; correct the header") from error
            yield Row(line, fault=fault)
            further = range(line + 1, source.number + 1)
            for number in chain(further, source.up_to_the_quote() if _breaks(error) else ()):
                yield Row(number, fault=f"a line of the row at line {line}, which has a fault")
            continue
        text = ",".join(cells)
        fault = _unreadable(text)
        if not header:
            header = check_header(path, cells, fault)
            places = column_indices(path, header, wanted)
        elif fault:
            yield Row(line, fault=fault)
        elif len(cells) == len(header):
            yield Row(line, tuple(cells[place] for place in places))
        else:
            yield Row(line, fault=cell_count_error(cells, header, text))
    if not header:
        raise missing_header_error(path)


class _LineError(ValueError):
    """A line that cannot be handed to the CSV reader."""


class _CsvLines:
    """Text lines for csv.reader; bytes that are not UTF-8 pass as surrogates, found later."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines = lines
        self.number = 0
        self.inside = False  # whether a quote of the row is open where the line ends
        self.lost = False  # whether a line is missing, so that nobody knows of its quotes

    def __iter__(self) -> "_CsvLines":
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        self._note(line)
        if line.fault:
            raise _LineError(line.fault)
        return line.content.decode(errors="surrogateescape") + "\n"

    def up_to_the_quote(self) -> Iterator[int]:
        """The numbers of the lines up to the one that closes the cell; all, if one is missing."""
        while self.inside and (line := next(self.lines, None)):
            self._note(line)
            yield line.number

    def _note(self, line: Line) -> None:
        self.number = line.number
        self.lost |= self.inside and bool(line.fault)
        self.inside = self.lost or self.inside ^ (line.content.count(b'"') % 2 == 1)


def _breaks(error: Exception) -> bool:
    """Whether the CSV reader stopped before it saw where the cell ends."""
    return isinstance(error, _LineError) or "field limit" in str(error)


def _not_csv(error: Exception) -> str:
    if "field limit" in str(error):
        return "a cell of more than 131,072 characters; a quote is probably never closed"
    return f"not CSV: {error}"


def _unreadable(text: str) -> str:
    """Why text that may hold escaped bytes cannot be used; "" if it can."""
    return decode_line(text.encode(errors="surrogateescape"))[1]
