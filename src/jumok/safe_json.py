"""JSON from anybody, read as data: small, shallow, no name twice, no number that is none.

Python's own reader takes NaN, keeps the last of two equal names and follows any nesting until the
stack is full. What other people's configurations say is checked here before anything looks at it.
"""

import json
import math
from pathlib import Path
from typing import Any

from jumok.atomic_io import read_regular
from jumok.errors import InputError

MAX_BYTES = 4 * 2**20  # a long config.json, with the names of 10,000 labels, has 0.5 MiB
MAX_DEPTH = 64
MAX_DIGITS = 64  # of a whole number; "no limit" is written as 10^30 in many tokenizer_config.json


def read_json(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """The table in the JSON file at `path`, of at most `limit` bytes.

    Raises StorageError when it cannot be read or is longer, InputError when `parse_json` refuses
    it; both name the file.
    """
    try:
        return parse_json(read_regular(path, limit))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse_json(data: bytes, *, any_text: bool = False) -> dict[str, Any]:
    """The table that these bytes are, in UTF-8.

    No name comes twice, every number is finite, whole numbers have at most 64 digits, nothing is
    nested deeper than 64 levels, and every text can be written again, unless `any_text` may come
    (half a surrogate pair too). Raises InputError.

    >>> parse_json(b'{"d_model": 768, "dropout": 0.1}')
    {'d_model': 768, 'dropout': 0.1}
    >>> parse_json(b'{"dropout": NaN}')
    Traceback (most recent call last):
    jumok.errors.InputError: not usable JSON: it holds the number NaN; correct it or get it again
    """
    try:
        value = json.loads(
            data.decode("utf-8-sig"),
            object_pairs_hook=_table_without_twins,
            parse_constant=_refuse_number,
            parse_float=_finite,
            parse_int=_short,
        )
    except InputError:
        raise
    except RecursionError as error:
        raise _refusal(f"it is nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:  # bad JSON, bad UTF-8
        raise _refusal(str(error)) from error
    if not isinstance(value, dict):
        raise _refusal("it is no table of names and values")
    _look_through(value, any_text)
    return value


def _look_through(value: object, any_text: bool) -> None:
    """Refuse deep nesting, and texts with half a surrogate pair, which nothing can write again."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for group in level:
            items = [*group.keys(), *group.values()] if isinstance(group, dict) else group
            assert isinstance(items, list)
            for item in items:
                if isinstance(item, str):
                    if not any_text:
                        _refuse_half_pairs(item)
                elif isinstance(item, dict | list):
                    inner.append(item)
        level = inner
    if level:
        raise _refusal(f"it is nested deeper than {MAX_DEPTH} levels")


def _refuse_half_pairs(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(f"half a surrogate pair in {ascii(text)[:80]}") from error


def _table_without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for name, value in pairs:
        if name in table:
            raise _refusal(f"the name {ascii(name)[:80]} comes twice")
        table[name] = value
    return table


def _refuse_number(text: str) -> float:
    raise _refusal(f"it holds the number {text}")


def _finite(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _refuse_number(text[:20])


def _short(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _refusal(f"it holds a number of {len(text):,} digits")
    return int(text)


def _refusal(reason: str) -> InputError:
    return InputError(f"not usable JSON: {reason}; correct it or get it again")
