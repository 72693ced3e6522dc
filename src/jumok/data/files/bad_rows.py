"""Rows that cannot be used: where each stands, what is wrong with it, and what follows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from jumok.errors import InputError

OnBadRows = Literal["stop", "skip"]

MAX_REASONS = 1_000  # reasons remembered; further bad rows are only counted
MAX_LISTED = 10  # reasons shown to a person


@dataclass(frozen=True)
class BadRow:
    r"""One row that cannot be used.

    >>> print(BadRow("reviews.tsv", 17, "2 cells, wanted 3 (seen '7')"))
    reviews.tsv:17: 2 cells, wanted 3 (seen '7')
    """

    file: str
    line: int  # counted from 1; of a row over several lines, the first
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(frozen=True)
class BadRows:
    """What was found wrong while a table was read: how many rows, and the first of them."""

    count: int = 0
    first: tuple[BadRow, ...] = ()

    def __str__(self) -> str:
        listed = [f"  {row}" for row in self.first[:MAX_LISTED]]
        more = self.count - len(listed)
        return "\n".join([*listed, *([f"  and {more:,} more"] if more else [])])


@dataclass
class BadRowCollector:
    """Collects bad rows while the files at `paths` are read; keeps the first 1,000 reasons."""

    count: int = 0
    kept: list[tuple[int, int, str]] = field(default_factory=list)  # file, line, reason

    def add(self, line: int, reason: str, file: int = 0) -> None:
        """Counts a bad row at `line` of the file with the index `file`."""
        self.count += 1
        if len(self.kept) < MAX_REASONS:
            self.kept.append((file, line, reason))

    def report(self, paths: Sequence[str]) -> BadRows:
        """The finished report, with the names of the files."""
        return BadRows(
            self.count,
            tuple(BadRow(paths[file], line, reason) for file, line, reason in self.kept),
        )


def raise_if_any(bad_rows: BadRows) -> None:
    """Raises InputError with the first ten bad rows and their number, if there are any."""
    if bad_rows.count:
        rows = "1 row" if bad_rows.count == 1 else f"{bad_rows.count:,} rows"
        raise InputError(
            f"{rows} cannot be used; correct them, or leave them out with "
            f'on_bad_rows = "skip":\n{bad_rows}'
        )
