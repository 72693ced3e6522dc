"""Files of two or more columns with a TAB between them, without a header and without quotes."""

from pathlib import Path

from jumok.atomic_io import read_regular
from jumok.errors import InputError

MAX_BYTES = 2**30


def read_pairs(path: Path) -> list[list[str]]:
    """The rows, without empty ones. Raises InputError for a row with one column."""
    rows = []
    for number, line in enumerate(decode(path, read_regular(path, MAX_BYTES)).split("\n"), 1):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) > 1 and all(cells[:2]):
            rows.append(cells)
        elif line.strip() and not line.startswith("#"):
            raise InputError(
                "documents.not_two_columns",
                "{path}, line {number} must have two texts with a TAB between them, got "
                "{line!r:.60}; correct the line",
                path=path,
                number=number,
                line=line,
            )
    return rows


def decode(path: Path | str, data: bytes) -> str:
    """The characters of a file. Raises InputError for another encoding than UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "documents.not_utf8",
            "{path} must be UTF-8, got an invalid byte at {start}; convert it, for example with "
            "iconv -f CP949 -t UTF-8",
            path=path,
            start=error.start,
        ) from None
