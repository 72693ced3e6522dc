"""Rows of a file, their header, and a report on the rows that cannot be used."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from jumok.config_io import suggest
from jumok.data.files.lines import Line, decode_line, quote
from jumok.errors import InputError
from jumok.unicode_forms import normalize

Cell = str | float | list[str]
OnBadRows = Literal["stop", "skip"]

MAX_COLUMNS = 10_000
MAX_REASONS = 1_000  # reasons that are kept; further bad rows are only counted
MAX_LISTED = 10  # reasons in an error message


class Row(NamedTuple):
    """The requested cells of a row in the requested order, or why the row cannot be used."""

    line: int
    cells: tuple[Cell, ...] = ()
    fault: str = ""
    file: int = 0  # the index of the file with the fault, if there are several


RowReader = Callable[[Path, Iterator[Line], Sequence[str], frozenset[str]], Iterator[Row]]


@dataclass(frozen=True)
class BadRow:
    r"""One row that cannot be used.

    >>> print(BadRow("reviews.tsv", 17, "2 cells, expected 3 (got '7')"))
    reviews.tsv:17: 2 cells, expected 3 (got '7')
    """

    file: str
    line: int  # from 1; the first line of a row of several lines
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class BadRows:
    """The bad rows of a table: their number, and the first of them."""

    count: int = 0
    first: tuple[BadRow, ...] = ()

    def __str__(self) -> str:
        listed = [f"  {row}" for row in self.first[:MAX_LISTED]]
        more = self.count - len(listed)
        return "\n".join([*listed, *([f"  and {more:,} more"] if more else [])])


@dataclass
class BadRowCollector:
    """Counts bad rows while files are read and keeps the first 1,000 reasons."""

    count: int = 0
    kept: list[tuple[int, int, str]] = field(default_factory=list)  # file, line, reason

    def add(self, line: int, reason: str, file: int = 0) -> None:
        """Count a bad row at `line` of the file with the index `file`."""
        self.count += 1
        if len(self.kept) < MAX_REASONS:
            self.kept.append((file, line, reason))

    def report(self, paths: Sequence[str]) -> BadRows:
        """The report, with the names of the files."""
        return BadRows(
            self.count,
            tuple(BadRow(paths[file], line, reason) for file, line, reason in self.kept),
        )


def raise_if_any(bad_rows: BadRows, skip_with: str = "") -> None:
    """Raises InputError with the number of bad rows and the first ten, if there are any.

    `skip_with` is the setting that skips them, where the user has one.
    """
    if bad_rows.count:
        rows = "1 row" if bad_rows.count == 1 else f"{bad_rows.count:,} rows"
        skip = f", or skip them with {skip_with}" if skip_with else ""
        raise InputError(f"{rows} cannot be used; correct them{skip}:\n{bad_rows}")


def line_text(line: Line) -> tuple[str, str]:
    """The text of a line, and why it cannot be read ("" if it can)."""
    return ("", line.fault) if line.fault else decode_line(line.content)


def missing_header_error(path: Path) -> InputError:
    """The error for a file without a header."""
    return InputError(f"{path} must have a header line and rows, got an empty file")


def check_header(path: Path, header: list[str], fault: str) -> list[str]:
    """The header; InputError if it is unreadable, very wide or has a name twice."""
    if fault:
        raise InputError(f"{path}:1: {fault}; correct the header")
    if len(header) > MAX_COLUMNS:
        raise InputError(
            f"{path}:1: a header must have at most {MAX_COLUMNS:,} columns, got {len(header):,}; "
            "name the format of the file, or leave out unused columns"
        )
    twice = sorted(name for name, count in Counter(header).items() if count > 1)
    if twice:
        raise InputError(f"{path}:1: column names must be unique, got {twice[0]!r} twice")
    return header


def column_indices(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """The indices of columns in the header; names are compared in NFC, without outer spaces."""
    composed = [normalize("NFC", name).strip() for name in header]
    indices = []
    for name in columns:
        if normalize("NFC", name).strip() not in composed:
            raise InputError(
                f"{path}:1: no column {name!r} in the header (got {quote(' | '.join(header))}); "
                f"{suggest(name, header)}"
            )
        indices.append(composed.index(normalize("NFC", name).strip()))
    return indices


def reject_lists(path: Path, lists: frozenset[str]) -> None:
    """Raises InputError for columns of lists in a format without lists."""
    if lists:
        raise InputError(f"{path}: lists of pieces must be in JSON lines; name a .jsonl file")


def cell_count_error(cells: Sequence[str], header: Sequence[str], text: str) -> str:
    """The fault of a row with another number of cells than the header."""
    if not text:
        return f"an empty line, expected {len(header)} cells"
    count = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    return f"{count}, expected {len(header)} (got {quote(text)})"
