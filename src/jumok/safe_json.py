"""JSON from untrusted sources: small, shallow, without duplicate names or non-finite numbers.

Python's json accepts NaN, keeps the last of two equal names and recurses without a limit. Files of
others are checked here before any code uses them.
"""

import json
import math
from pathlib import Path
from typing import Any

from jumok.atomic_io import read_regular
from jumok.errors import InputError, Message, ModelFileError, located

MAX_BYTES = 4 * 2**20  # a long config.json, with the names of 10,000 labels, has 0.5 MiB
MAX_DEPTH = 64


def read_json(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """The JSON object in the file at `path`, of at most `limit` bytes.

    Raises StorageError if it cannot be read or is longer, InputError as `parse_json` does; both
    name the file.
    """
    with located(path):
        return parse_json(read_regular(path, limit))


def check_downloaded(data: bytes) -> None:
    """Raise ModelFileError for a pointer of git-lfs or a web page in place of a file."""
    if data.startswith(b"version ") and b"git-lfs" in data[:40]:
        raise ModelFileError(
            "file.git_lfs_pointer",
            "it must be the file itself, got a pointer of git-lfs to it; run git lfs pull in its "
            "repository, or download it again",
        )
    if data[:64].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise ModelFileError(
            "file.web_page",
            "it must be the file itself, got a page of HTML; download the file, not the page about "
            "it",
        )


def parse_json(data: bytes, *, allow_surrogates: bool = False) -> dict[str, Any]:
    """The JSON object in these bytes of UTF-8; InputError as `parse_json_value`.

    >>> parse_json(b'{"d_model": 768, "dropout": 0.1}')
    {'d_model': 768, 'dropout': 0.1}
    """
    value = parse_json_value(data, allow_surrogates=allow_surrogates)
    if not isinstance(value, dict):
        raise _invalid(Message("json.not_an_object", "it is not an object of names and values"))
    return value


def parse_json_value(data: bytes, *, allow_surrogates: bool = False) -> object:
    """The JSON value in these bytes of UTF-8: an object, a list, a text, a number, true ...

    Raises InputError for a duplicate name, a non-finite number, an integer of more than 4,300
    digits, more than 64 nested levels, and half a surrogate pair unless `allow_surrogates`.

    >>> parse_json_value(b"[1, 2]")
    [1, 2]
    >>> parse_json_value(b'{"dropout": NaN}')
    Traceback (most recent call last):
    jumok.errors.InputError: not usable JSON: it holds the number NaN; correct it or get it again
    """
    check_downloaded(data)
    try:
        value: object = _decoder.decode(data.decode("utf-8-sig"))
    except InputError:
        raise
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:  # bad JSON, bad UTF-8
        raise _invalid(str(error)) from error
    if not is_shallow(value, MAX_DEPTH):
        raise _too_deep()
    if not allow_surrogates and b"\\" in data:  # only escapes spell half a pair
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise _invalid(
                Message("json.lone_surrogate", "it holds half a surrogate pair")
            ) from error
    return value


def is_shallow(value: object, most: int) -> bool:
    """Whether lists and tables are nested at most so deeply."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(most):
        groups = (each.values() if isinstance(each, dict) else each for each in level)
        level = [item for group in groups for item in group if isinstance(item, dict | list)]
        if not level:
            return True
    return False


def _unique_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for name, value in pairs:
        if name in table:
            raise _invalid(
                Message("json.name_twice", "the name {name} comes twice", name=ascii(name)[:80])
            )
        table[name] = value
    return table


def _reject_number(text: str) -> float:
    raise _invalid(Message("json.number", "it holds the number {text}", text=text))


def _finite_float(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _reject_number(text[:20])


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique_names,
    parse_constant=_reject_number,
    parse_float=_finite_float,
)


def _too_deep() -> InputError:
    return _invalid(
        Message("json.too_deep", "it is nested deeper than {most} levels", most=MAX_DEPTH)
    )


def _invalid(reason: Message | str) -> InputError:
    return InputError(
        "json.unusable", "not usable JSON: {reason}; correct it or get it again", reason=reason
    )
