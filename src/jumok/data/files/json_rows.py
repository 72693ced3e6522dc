"""Rows of JSON: an object a line, or one array of objects."""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jumok.data.files.lines import Line, quote
from jumok.data.files.rows import Cell, Row, line_text
from jumok.errors import InputError

_SURROGATE = re.compile("[\ud800-\udfff]")


def jsonl_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file with one JSON object a line; the columns in `lists` hold lists of pieces."""
    for line in lines:
        text, fault = line_text(line)
        if fault:
            yield Row(line.number, fault=fault)
            continue
        try:
            row = json.loads(text, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            yield Row(line.number, fault=f"not JSON: {error} (seen {quote(text)})")
            continue
        if isinstance(row, dict):
            yield _from_object(line.number, row, wanted, lists)
        else:
            yield Row(line.number, fault=_no_object(row, text))


def json_rows(
    path: Path, lines: Iterator[Line], wanted: Sequence[str], lists: frozenset[str]
) -> Iterator[Row]:
    """Rows of a file that is one JSON array of objects; the place told is an object's number."""
    parts: list[str] = []
    for line in lines:
        text, fault = line_text(line)
        if fault:
            raise InputError(f"{path}:{line.number}: {fault}; correct the file")
        parts.append(text)
    try:
        rows = json.loads("\n".join(parts), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}; correct the file") from error
    if not isinstance(rows, list):
        raise InputError(f"{path}: not a JSON array of objects; for one a line name it .jsonl")
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield _from_object(number, row, wanted, lists)
        else:
            yield Row(number, fault=_no_object(row, repr(row)))


class _Twins(NamedTuple):
    """What stands for a JSON object in which a key comes twice: nobody knows which one counts."""

    key: str


def _object(pairs: list[tuple[str, object]]) -> dict[str, object] | _Twins:
    row = dict(pairs)
    if len(row) == len(pairs):
        return row
    keys = [key for key, _ in pairs]
    return _Twins(next(key for key in row if keys.count(key) > 1))


def _no_object(row: object, text: str) -> str:
    if isinstance(row, _Twins):
        return f"the key {quote(row.key)} comes twice"
    return f"not a JSON object (seen {quote(text)})"


def _from_object(
    line: int, row: dict[str, object], wanted: Sequence[str], lists: frozenset[str]
) -> Row:
    cells: list[Cell] = []
    for name in wanted:
        key = name if name in row else _composed_keys(row).get(unicodedata.normalize("NFC", name))
        if key is None:
            return Row(line, fault=f"no key {name!r} (seen {quote(', '.join(row))})")
        value = row[key]
        if name in lists:
            if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
                return Row(line, fault=f"{name} is no list of pieces (seen {quote(repr(value))})")
            cells.append(value)
        elif isinstance(value, str | float):
            cells.append(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            cells.append(str(value))
        else:
            return Row(line, fault=f"{name} is no text (seen {quote(repr(value))})")
        fault = _bad_letters(name, cells[-1])
        if fault:
            return Row(line, fault=fault)
    return Row(line, tuple(cells))


def _composed_keys(row: Iterable[str]) -> dict[str, str]:
    """The keys of an object by their letters composed (NFC), however they are stored."""
    return {unicodedata.normalize("NFC", key): key for key in row}


def _bad_letters(name: str, cell: Cell) -> str:
    text = "".join(cell) if isinstance(cell, list) else str(cell)
    if "\0" in text:
        return f"{name} holds a NUL character (seen {quote(text)})"
    if _SURROGATE.search(text):
        return f"{name} holds half a character, a lone surrogate (seen {quote(text)})"
    return ""
