"""Recipes are data: TOML and dotted words in, frozen dataclasses out, nothing unknown passes."""

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from jumok.atomic_io import read_regular
from jumok.errors import InputError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_TOML_BYTES = 2**20  # bytes

ConfigDict = dict[str, Any]
T = TypeVar("T")


def read_toml(path: Path) -> ConfigDict:
    """The tables of a TOML file of at most 1 MiB.

    Raises StorageError when it cannot be read, InputError (with line and column) when it is not
    TOML.
    """
    try:
        return tomllib.loads(read_regular(path, MAX_TOML_BYTES).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from error
    except RecursionError as error:
        raise InputError(f"{path}: not usable TOML: it is nested too deeply; flatten it") from error
    except ValueError as error:  # bad TOML, a number of thousands of digits
        raise InputError(f"{path}: not TOML: {error}; correct that line") from error


def apply_overrides(tree: Mapping[str, Any], overrides: Sequence[str]) -> ConfigDict:
    """A copy of `tree` with `a.b=value` words laid over it; values are TOML, or else plain text.

    >>> override({"training": {"steps": 10}}, ["training.steps=20", "name=시험"])
    {'training': {'steps': 20}, 'name': '시험'}
    """
    changed = deepcopy(dict(tree))
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not all(key.split(".")):
            raise InputError(f"{word!r} is not key=value; write for example training.steps=1000")
        if any("\ud800" <= letter <= "\udfff" for letter in word):
            raise InputError(
                f"{word!r} holds half of a surrogate pair; write the word in whole characters"
            )
        *path, last = key.split(".")
        table = changed
        for part in path:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise InputError(f"{key}: {part} is a value, not a table; see the recipe's keys")
        table[last] = _value(text)
    return changed


def from_dict(cls: type[T], tree: Mapping[str, Any], where: str = "") -> T:
    """A frozen dataclass of type `cls` from plain tables, every field checked.

    Raises InputError for an unknown key (naming the nearest known one), a wrong type, a missing
    field, or whatever the dataclass itself refuses in `__post_init__`.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Size:
    ...     width: int = 1
    >>> build(Size, {"width": 3})
    Size(width=3)
    >>> build(Size, {"widht": 3}, "paper")
    Traceback (most recent call last):
    jumok.errors.InputError: paper.widht is not known; did you mean paper.width?
    """
    from pydantic import ValidationError

    _refuse_unknown(cls, tree, where)
    try:
        checker: TypeAdapter[T] = _checker(cls)  # type: ignore[arg-type]  # a class is hashable
        return checker.validate_json(_as_json(tree), strict=True)
    except ValidationError as error:
        first, *others = error.errors()
        place = _place(first["loc"], tree)
        key = ".".join(str(part) for part in (where, *place) if part != "")
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            raise cause from error
        same = [each for each in others if _place(each["loc"], tree) == place]
        ways = [each["msg"].removeprefix("Input should be ") for each in same]
        message = " or ".join([first["msg"].removeprefix("Value error, "), *ways])
        seen = "" if first["type"] == "missing" else f" = {_as_json(first['input'])}"
        example = _EXAMPLES.get(first["type"], "correct it")
        raise InputError(f"{key}{seen}: {message[0].lower()}{message[1:]}; {example}") from error


def _as_json(value: object) -> str:
    """The value as JSON, its letters as they are. Raises InputError for an endless number."""
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except ValueError as error:  # Python writes no number of more than 4,300 digits
        raise InputError(f"a number with thousands of digits came ({error}); give less") from error


def _place(loc: Sequence[int | str], tree: object) -> tuple[int | str, ...]:
    """The keys that lead to a value: pydantic also names which of several types it tried."""
    keys: list[int | str] = []
    for part in loc:
        if isinstance(tree, Mapping):
            keys.append(part)
            tree = tree.get(part)
        elif isinstance(tree, list | tuple) and isinstance(part, int):
            keys.append(part)
            tree = tree[part]
    return tuple(keys)


_EXAMPLES = {  # how a value of a type is written, in TOML and on the command line
    "tuple_type": 'write ["one", "two"], on the command line in \'quotes\'',
    "string_type": 'write "3" for a text of figures, on the command line \'"3"\'',
}


@cache
def _checker(cls: type) -> "TypeAdapter[Any]":
    """What checks the fields of a dataclass; it takes 20 ms to make."""
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def to_dict(config: object) -> ConfigDict:
    """A dataclass as plain tables, ready for JSON or TOML; fields that are None are left out."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise TypeError(f"{config!r} is not a dataclass")
    tree: ConfigDict = _plain(dataclasses.asdict(config))
    return tree


def to_toml(tree: Mapping[str, Any]) -> str:
    """The tables as TOML text that `read_toml` reads back unchanged."""
    import tomli_w

    return tomli_w.dumps(tree)


def suggest(word: str, known: Sequence[str]) -> str:
    """The end of a sentence that helps: the nearest known word, or the list of all.

    >>> nearest("traning", ["training", "model"])
    'did you mean training?'
    >>> nearest("xyz", ["a", "b"])
    'known: a, b'
    """
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(known))}"


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # no TOML, or what it cannot hold
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _refuse_unknown(cls: type, tree: Mapping[str, Any], where: str) -> None:
    hints = get_type_hints(cls)
    known = {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}
    for key, value in tree.items():
        here = f"{where}.{key}" if where else key
        if key not in known:
            close = suggest(key, list(known))
            if where and close.startswith("did you mean"):
                close = close.replace("mean ", f"mean {where}.")
            raise InputError(f"{here} is not known; {close}")
        inner = _dataclass_in(known[key])
        if inner is not None and isinstance(value, Mapping):
            _refuse_unknown(inner, value, here)


def _dataclass_in(hint: Any) -> type | None:
    """The dataclass a field holds, also when the field may be None."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    found = [option for option in options if dataclasses.is_dataclass(option)]
    return found[0] if found and isinstance(found[0], type) else None
