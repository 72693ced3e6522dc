"""Rows of a file, their header, and a report on the rows that cannot be used."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from jumok.config_io import suggest
from jumok.data.files.lines import Line, suffix
from jumok.errors import DataError, InputError, Message, join_messages
from jumok.terminal import command_line
from jumok.text_files import Fault, advice_on, convert_advice, decode_line, may_be_cp949, quote
from jumok.unicode_forms import normalize

Cell = str | float | list[str]
OnBadRows = Literal["stop", "skip"]

MAX_COLUMNS = 10_000
MAX_KEPT = 1_000  # bad rows that are kept; further ones are only counted
MAX_LISTED = 10  # bad rows in an error message


class Row(NamedTuple):
    """The requested cells of a row in the requested order, or why the row cannot be used."""

    line: int
    cells: tuple[Cell, ...] = ()
    fault: Fault = ""
    file: int = 0  # the index of the file with the fault, if there are several
    blank: bool = False  # a line without content, which is not a row


RowReader = Callable[[Path, Iterator[Line], Sequence[str], frozenset[str]], Iterator[Row]]


@dataclass
class BadRows:
    r"""The rows of a table that cannot be used: their number, and the first 1,000 of them.

    >>> bad_rows = BadRows(["reviews.tsv"])
    >>> bad_rows.add(Row(17, fault=cell_count_error(["7"], ["id", "text"], "7")))
    >>> print(bad_rows)
      reviews.tsv:17: 1 cell, expected 2 (got '7')
    """

    files: Sequence[str] = ()
    count: int = 0
    first: list[Row] = field(default_factory=list)  # without their cells
    blank: int = 0  # lines without content, which are skipped

    def add(self, row: Row) -> None:
        """Count a row with a fault."""
        self.count += 1
        if len(self.first) < MAX_KEPT:
            self.first.append(row._replace(cells=()))

    def raise_if_any(self, skip_with: str = "") -> None:
        """Raises InputError with the number of bad rows and the first ten, if there are any.

        `skip_with` is the setting that skips them, where the user has one.
        """
        if self.count:
            n = self.count
            them = "it" if n == 1 else "them"
            otherwise = Message("file.or_leave_out", ", or remove {them} from the file", them=them)
            if skip_with:
                otherwise = Message(
                    "file.or_skip", ", or skip {them} with {setting}", them=them, setting=skip_with
                )
            if n > 1 and self.seem_cp949:  # their bytes tell nothing more
                raise DataError(
                    "file.rows_seem_cp949",
                    "{path} must be UTF-8, got {n:,} rows that seem to be cp949, the first of "
                    "them in line {line}; {advice}{otherwise}",
                    path=self.files[self.first[0].file],
                    n=n,
                    line=self.first[0].line,
                    advice=convert_advice(),
                    otherwise=otherwise if skip_with else "",
                )
            raise DataError(
                "file.bad_rows",
                "{rows} cannot be used; correct {them}{otherwise}:\n{listed}",
                rows="1 row" if n == 1 else Message("file.n_rows", "{n:,} rows", n=n),
                them=them,
                otherwise=otherwise,
                listed=self.listed,
            )

    def __str__(self) -> str:
        return str(self.listed)

    @property
    def seem_cp949(self) -> bool:
        """Whether all of them cannot be used because they seem to be cp949."""
        return bool(self.first) and all(may_be_cp949(row.fault) for row in self.first)

    @property
    def listed(self) -> Message:
        """A line for each of the first ten rows, the number of the others, and advice on cp949."""
        lines = [
            join_messages("", [row.fault]).at(f"  {self.files[row.file]}:{row.line}")
            for row in self.first[:MAX_LISTED]
        ]
        if more := self.count - len(lines):
            lines.append(Message("file.more_bad_rows", "  and {n:,} more", n=more))
        if any(may_be_cp949(row.fault) for row in self.first):
            lines.append(join_messages("", ["  ", convert_advice()]))
        return join_messages("\n", lines)


def cp949_error(path: Path) -> DataError:
    """The error for a file in which no row is UTF-8 and all seem to be cp949."""
    advice = convert_advice()
    if path.suffix == suffix(path):  # not compressed
        command = command_line("iconv", "-f", "cp949", "-t", "utf-8", path)
        new = command_line(path.with_name(f"{path.stem}-utf8{path.suffix}"))
        advice = Message(
            "file.convert_cp949", "convert the file with {command}", command=f"{command} > {new}"
        )
    return DataError(
        "file.encoding_seems_cp949",
        "{path} must be UTF-8, got an encoding that seems to be cp949; {advice}",
        path=path,
        advice=advice,
    )


def line_text(line: Line) -> tuple[str, Fault]:
    """The text of a line, and why it cannot be read ("" if it can)."""
    return ("", line.fault) if line.fault else decode_line(line.content)


def missing_header_error(path: Path) -> InputError:
    """The error for a file without a header."""
    return DataError(
        "file.empty",
        "{path} must have a header line and rows, got an empty file",
        path=path,
    )


def check_header(path: Path, header: list[str], fault: Fault, line: int = 1) -> list[str]:
    """The header; InputError if it is unreadable or very wide."""
    if fault:
        raise DataError(
            "file.bad_header",
            "{path}:{line}: {fault}; {advice}",
            path=path,
            line=line,
            fault=fault,
            advice=advice_on(fault, Message("file.correct_header", "correct the header")),
        )
    if len(header) > MAX_COLUMNS:
        raise DataError(
            "file.too_many_columns",
            "{path}:1: a header must have at most {max_columns:,} columns, got {n_header:,}; "
            "name the format of the file, or leave out unused columns",
            path=path,
            max_columns=MAX_COLUMNS,
            n_header=len(header),
        )
    return header


def column_indices(path: Path, header: Sequence[str], columns: Sequence[str]) -> list[int]:
    """The indices of columns in the header; names are compared in NFC, without outer spaces.

    Raises InputError for a column that is missing or there twice; others are not checked.
    """
    composed = [normalize("NFC", name).strip() for name in header]
    counts = Counter(composed)
    indices = []
    for name in columns:
        wanted = normalize("NFC", name).strip()
        if counts[wanted] > 1:
            raise DataError(
                "file.column_twice",
                "{path}:1: the name of a column that is read must be unique, got {twice!r} twice; "
                "rename or remove one",
                path=path,
                twice=wanted,
            )
        if wanted not in counts:
            raise DataError(
                "file.no_column_header",
                "{path}:1: no column {name!r} in the header (got {header}); {suggest}",
                path=path,
                name=name,
                header=quote(" | ".join(header)),
                suggest=suggest(name, header),
                names=tuple(composed),
            )
        indices.append(composed.index(wanted))
    return indices


def reject_lists(path: Path, lists: frozenset[str]) -> None:
    """Raises InputError for columns of lists in a format without lists."""
    if lists:
        raise DataError(
            "file.pieces_need_json",
            "{path}: lists of pieces must be in JSON lines; name a .jsonl file",
            path=path,
        )


def cell_count_error(cells: Sequence[str], header: Sequence[str], text: str) -> Message:
    """The fault of a row with another number of cells than the header."""
    n = len(cells)
    return Message(
        "file.cell_count",
        "{count}, expected {n} (got {text})",
        count="1 cell" if n == 1 else Message("file.n_cells", "{n} cells", n=n),
        n=len(header),
        text=quote(text),
    )


def not_a_text(name: str, value: str) -> Message:
    """The fault of a cell that must be a text."""
    return Message(
        "file.not_a_text", "{name} is not a text (got {value})", name=name, value=quote(value)
    )
