"""A translation memory: sentences and their translations, in a file that grows while one works.

A row has the sentence, its translation and, after another TAB, the links of their words if they are
known: `0-4:3-6:0.75` for characters 0 to 4 of the translation, 3 to 6 of the sentence, and a
weight.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jumok.atomic_io import storage_errors
from jumok.documents.placement import Link
from jumok.documents.tsv import read_pairs

Known = tuple[str, tuple[Link, ...] | None]  # the translation of a sentence, its links


@dataclass
class Memory:
    """Translations by sentence; with a `path`, new ones are appended to that file.

    >>> memory = Memory()
    >>> memory.add([("겨울은 추워요.", "Winter is cold.", None)])
    >>> memory.found["겨울은 추워요."]
    ('Winter is cold.', None)
    """

    path: Path | None = None
    found: dict[str, Known] = field(default_factory=dict)
    named: Path | None = None  # the file to name in errors, if it is another one

    @classmethod
    def open(cls, path: Path, *, unfinished: bool = False) -> "Memory":
        """Read a file, or begin one; the next row begins a line of its own.

        `unfinished` is the file of a translation that was stopped: a last row without its line end
        was being written and is removed. In other files it was written by hand and is kept.
        Raises InputError for a file of one column, which does not change, and StorageError.
        """
        if not path.exists():
            return cls(path)
        if unfinished:
            _remove_torn_row(path)
        rows = read_pairs(path)
        return cls(path, {row[0]: (row[1], _parse(row[2:])) for row in rows})

    def add(self, rows: Iterable[tuple[str, str, Sequence[Link] | None]]) -> None:
        """Remember translations. Raises StorageError where they cannot be written."""
        lines = []
        for sentence, translation, links in rows:
            line = " ".join(translation.split())
            known = None if links is None or line != translation else tuple(links)
            self.found[sentence] = line, known
            if line:
                cells = [sentence, line, *([] if known is None else [_format(known)])]
                lines.append("\t".join(cells))
        name = self.named or self.path
        if self.path is not None and lines:
            with storage_errors(f"{name}: cannot be written"), self.path.open("ab") as file:
                begun = "" if _ends_a_line(self.path) else "\n"
                file.write((begun + "".join(f"{line}\n" for line in lines)).encode())
                file.flush()
                os.fsync(file.fileno())


def _remove_torn_row(path: Path) -> None:
    with storage_errors(f"{path}: cannot be read"), path.open("rb+") as file:
        data = file.read()
        if data and not data.endswith(b"\n"):
            file.truncate(data.rfind(b"\n") + 1)


def _ends_a_line(path: Path) -> bool:
    """Whether a file is missing or empty, or ends with a line feed."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _format(links: Sequence[Link]) -> str:
    return " ".join(f"{t}-{t_end}:{s}-{s_end}:{weight:g}" for t, t_end, s, s_end, weight in links)


def _parse(cells: Sequence[str]) -> tuple[Link, ...] | None:
    """The links of a row; None where they are not given, or changed by hand."""
    if not cells:
        return None
    links: list[Link] = []
    try:
        for link in cells[0].split():
            target, source, weight = link.split(":")
            t, t_end = map(int, target.split("-"))
            s, s_end = map(int, source.split("-"))
            links.append((t, t_end, s, s_end, float(weight)))
    except ValueError:
        return None
    return tuple(links)
