"""Files of two or more columns with a TAB between them, without a header and without quotes."""

from pathlib import Path

from jumok.atomic_io import read_regular
from jumok.errors import InputError
from jumok.text_files import decode_text

MAX_BYTES = 2**30


def read_pairs(path: Path) -> list[list[str]]:
    """The rows, without empty ones. Raises InputError for a row with one column."""
    rows = []
    text = decode_text(path, read_regular(path, MAX_BYTES))
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
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
