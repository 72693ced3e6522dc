"""Configs as data: TOML and `key=value` overrides to frozen dataclasses, strictly checked."""

import dataclasses
import datetime
import difflib
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jumok.atomic_io import read_regular
from jumok.errors import ConfigError, InputError, Message, join_messages
from jumok.safe_json import MAX_DEPTH, is_shallow
from jumok.text_files import decode_text

MAX_TOML_BYTES = 2**20
MAX_KEY_PARTS = 32  # of a dotted key: tomllib keeps every prefix of it

# The tokens of TOML in which a dot or a quote has another meaning, and keys with their dots.
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_TOML_TOKENS = re.compile(
    rf"""\"{{3}}(?:[^"\\]|\\.|"{{1,2}}(?!"))*+"{{3,5}}|'{{3}}(?:[^']|'{{1,2}}(?!'))*+'{{3,5}}"""
    rf"|\#[^\n]*+|(?P<key>{_KEY_PART}(?:[ \t]*+\.[ \t]*+{_KEY_PART})*+)",
    re.DOTALL,
)

ConfigDict = dict[str, Any]
Overrides = Sequence[str] | Mapping[str, Any]  # "a.b=value", or {"a.b": value}
DataclassT = TypeVar("DataclassT")

_TYPE_NAMES = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}


def read_toml(path: Path) -> ConfigDict:
    """The tables of a TOML file of at most 1 MiB.

    Raises StorageError if it cannot be read, InputError with line and column if it is not TOML.
    """
    text = decode_text(path, read_regular(path, MAX_TOML_BYTES))
    try:
        return parse_toml(text.removeprefix("\ufeff"))
    except RecursionError as error:
        raise ConfigError(
            "config.nested_too_deeply",
            "{path}: not usable TOML: it is nested too deeply; flatten it",
            path=path,
        ) from error
    except ValueError as error:  # bad TOML, a number of thousands of digits
        raise ConfigError(
            "config.not_toml",
            "{path}: not TOML: {error}; correct that line",
            path=path,
            error=str(error),
        ) from error


def parse_toml(text: str) -> ConfigDict:
    """The tables of a TOML text, in time and memory proportional to its length.

    Raises RecursionError for tables and lists nested too deeply, ValueError for other faults.
    """
    for token in _TOML_TOKENS.finditer(text):
        key = token["key"]
        if key and key.count(".") >= MAX_KEY_PARTS:
            n_parts = len(re.findall(_KEY_PART, key))
            if n_parts > MAX_KEY_PARTS:
                raise RecursionError(f"a key has {n_parts} parts")
    tree = tomllib.loads(text)
    if not is_shallow(tree, MAX_DEPTH):
        raise RecursionError(f"it has more than {MAX_DEPTH} levels")
    return tree


def apply_overrides(tree: Mapping[str, Any], overrides: Overrides) -> ConfigDict:
    """A copy of `tree` with `a.b=value` overrides applied; a value is TOML, or else plain text.

    Overrides may also be a mapping from keys to values.

    >>> apply_overrides({"training": {"steps": 10}}, ["training.steps=20", "name=시험"])
    {'training': {'steps': 20}, 'name': '시험'}
    >>> apply_overrides({"training": {"steps": 10}}, {"training.steps": 20})
    {'training': {'steps': 20}}
    """
    changed = deepcopy(dict(tree))
    if isinstance(overrides, str):
        overrides = [overrides]
    items = (
        overrides.items() if isinstance(overrides, Mapping) else map(_key_value, overrides or ())
    )
    for key, value in items:
        *path, last = key.split(".")
        table = changed
        for part in path:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise ConfigError(
                    "config.value_not_table",
                    "{key}: {part} is a value, not a table; see the recipe's keys",
                    key=key,
                    part=part,
                )
        table[last] = value
    return changed


def _key_value(override: str) -> tuple[str, Any]:
    """The key and the value of `key=value`. Raises InputError for anything else."""
    override = str(override)  # which a program may give as anything
    key, equals, text = override.partition("=")
    if not equals or not all(key.split(".")):
        raise ConfigError(
            "config.override_syntax",
            "an override must be key=value, got {override!r}; write {key}=VALUE",
            override=override,
            key=key.strip(".") or "key",
        )
    if any("\ud800" <= character <= "\udfff" for character in override):
        raise ConfigError(
            "config.override_not_unicode",
            "an override must be valid Unicode, got half a surrogate pair in {override!r}; write "
            "whole characters",
            override=override,
        )
    return key, _toml_value(text)


def _toml_value(text: str) -> Any:
    try:
        return parse_toml(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or too long or too deep for it
        return text


def from_dict(
    cls: type[DataclassT], tree: Mapping[str, Any], where: str = "", *, complete: bool = False
) -> DataclassT:
    """A dataclass of type `cls` from plain tables, with the type of every value checked.

    Lists become tuples, integers floats where a float is declared, dates strings. `complete`
    requires every field, defaults or not, and finite numbers. Raises InputError, which names the
    key, for an unknown key (with the nearest known one), a missing field or a wrong type, and
    whatever `__post_init__` raises.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Size:
    ...     width: int = 1
    >>> from_dict(Size, {"width": 3})
    Size(width=3)
    >>> from_dict(Size, {"widht": 3}, "paper")
    Traceback (most recent call last):
    jumok.errors.ConfigError: paper.widht is not known; did you mean paper.width?
    >>> from_dict(Size, {"width": 1.5}, "paper")
    Traceback (most recent call last):
    jumok.errors.ConfigError: paper.width must be an integer, got 1.5
    """
    fields = _fields(cls)  # type: ignore[arg-type]  # a class is hashable
    for name in tree:
        if name not in fields:
            raise unknown_key(name, list(fields), where)
    values = {
        name: _convert(type_, tree[name], _join(where, name), complete)
        for name, (type_, _) in fields.items()
        if name in tree
    }
    for name, (_, required) in fields.items():
        if name not in values and (required or complete):
            raise ConfigError("config.missing_key", "{join} is missing", join=_join(where, name))
    return cls(**values)


@cache
def _fields(cls: type) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it has no default."""
    hints, missing = get_type_hints(cls), dataclasses.MISSING
    return {
        field.name: (
            hints[field.name],
            field.default is missing and field.default_factory is missing,
        )
        for field in dataclasses.fields(cls)
        if field.init
    }


def _convert(type_: Any, value: object, path: str, complete: bool) -> Any:
    """The value as a `type_`. Raises InputError if it has another type."""
    types = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    if value is None and type(None) in types:
        return None
    for each in types:  # a container: what is wrong with an item is reported, not the container
        origin, inner = get_origin(each), get_args(each)
        if dataclasses.is_dataclass(each) and isinstance(each, type) and isinstance(value, Mapping):
            return from_dict(each, value, path, complete=complete)
        if origin is Mapping and isinstance(value, Mapping):
            return {
                _convert(inner[0], key, path, complete): _convert(
                    inner[1], item, _join(path, key), complete
                )
                for key, item in value.items()
            }
        if origin is tuple and isinstance(value, list | tuple):
            repeated = len(inner) == 2 and inner[1] is Ellipsis
            items = inner[:1] * len(value) if repeated else inner
            if len(items) == len(value):
                pairs = enumerate(zip(items, value, strict=True))
                return tuple(_convert(t, x, f"{path}[{i}]", complete) for i, (t, x) in pairs)
        if origin is Literal and any(value == x and type(value) is type(x) for x in inner):
            return value
        if type(value) is each and _is_valid_number(value, complete):
            return value
    if float in types and type(value) is int and -(2**1023) < value < 2**1023:
        return float(value)
    if str in types and isinstance(value, datetime.date | datetime.time):
        return str(value)
    raise _wrong_type(types, value, path)


def _is_valid_number(value: object, complete: bool) -> bool:
    """False for an integer of thousands of digits, and for NaN and infinity if `complete`."""
    if isinstance(value, int):
        return value.bit_length() < 2**13
    return not (complete and isinstance(value, float) and not math.isfinite(value))


def _wrong_type(types: Sequence[Any], value: object, path: str) -> InputError:
    expected = []
    for each in types:
        if get_origin(each) is Literal:
            expected += [_shown(option) for option in get_args(each)]
        elif get_origin(each) is tuple:
            n = len(get_args(each))
            expected.append("a list" if get_args(each)[-1] is Ellipsis else f"a list of {n}")
        elif each is not type(None):
            expected.append(_TYPE_NAMES.get(each, "a table"))
    *first, last = expected
    options: Message | str = last
    if first:
        others = join_messages(", ", first)
        options = Message("config.either", "{first} or {last}", first=others, last=last)
    known = [x for each in types if get_origin(each) is Literal for x in get_args(each)]
    words = [word for word in known if isinstance(word, str)]
    close = difflib.get_close_matches(value[:80], words, n=1) if isinstance(value, str) else []
    advice: Message | str = ""
    if close:
        advice = Message("advice.also_did_you_mean", "; did you mean {word}?", word=close[0])
    if str in types and type(value) in (int, float):
        advice = Message(
            "advice.string_of_digits",
            '; write "{shown}" for a string of digits, on the command line \'"3"\'',
            shown=_shown(value),
        )
    if any(get_origin(each) is tuple for each in types) and isinstance(value, str):
        advice = '; write ["one", "two"], on the command line in \'quotes\''
    return ConfigError(
        "config.wrong_type",
        "{path} must be {options}, got {shown}{advice}",
        path=_printable(path),
        options=options,
        shown=_shown(value),
        advice=advice,
    )


def _shown(value: object) -> str:
    """The value as TOML writes it; a list or table only by its kind."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() >= 2**13:
        return "an integer of thousands of digits"
    return _printable(json.dumps(value, ensure_ascii=False, default=str))


def _printable(text: str, limit: int = 80) -> str:
    """At most `limit` characters of the text, on one line, with what cannot be printed escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:limit])


def _join(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def check_choice(name: str, value: object, type_: object) -> None:
    """Raise InputError, with the nearest choice, for a value that is not one of a Literal type.

    Other members of a union, such as None, are allowed.

    >>> check_choice("norm", "lyaer", Literal["layer", "rms"])
    Traceback (most recent call last):
    jumok.errors.ConfigError: norm must be "layer" or "rms", got "lyaer"; did you mean layer?
    """
    types = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    literals = [
        option for each in types if get_origin(each) is Literal for option in get_args(each)
    ]
    others = tuple(each for each in types if isinstance(each, type))
    if not literals or isinstance(value, others):
        return
    if not any(value == option and type(value) is type(option) for option in literals):
        raise _wrong_type(types, value, name)


def check_choices(config: object, where: str = "") -> None:
    """Check every field of a dataclass that has a Literal type with `check_choice`."""
    for name, (type_, _) in _fields(type(config)).items():  # type: ignore[arg-type]  # hashable
        check_choice(_join(where, name), getattr(config, name), type_)


def check_range(name: str, value: float, interval: str, advice: str = "") -> None:
    """Raise ConfigError for a number outside an interval: "[0, 1)" has 0 and not 1.

    >>> check_range("dropout", 1.0, "[0, 1)")
    Traceback (most recent call last):
    jumok.errors.ConfigError: dropout must be at least 0 and below 1, got 1.0
    >>> check_range("steps", 0, "[1, inf)")
    Traceback (most recent call last):
    jumok.errors.ConfigError: steps must be at least 1, got 0
    """
    low, high = interval[1:-1].split(", ")
    above = value >= float(low) if interval[0] == "[" else value > float(low)
    below = value <= float(high) if interval[-1] == "]" else value < float(high)
    if above and below:
        return
    if interval[0] == "(" and low == "0":
        first = Message("config.positive", "positive")
    elif interval[0] == "[":
        first = Message("config.at_least", "at least {number}", number=low)
    else:
        first = Message("config.above", "above {number}", number=low)
    last: Message | str = ""
    if interval[-1] == "]":
        last = Message("config.and_at_most", " and at most {number}", number=high)
    elif high != "inf":
        last = Message("config.and_below", " and below {number}", number=high)
    elif isinstance(value, float):
        last = Message("config.and_finite", " and finite")
    raise ConfigError(
        "config.out_of_range",
        "{name} must be {first}{last}, got {value}{advice}",
        name=name,
        first=first,
        last=last,
        value=str(value)[:24],
        advice=advice,
    )


def to_dict(config: object) -> ConfigDict:
    """A dataclass as plain tables, ready for JSON or TOML; fields that are None are left out."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise TypeError(f"{config!r} is not a dataclass")
    tree: ConfigDict = _without_none(dataclasses.asdict(config))
    return tree


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


def to_toml(tree: Mapping[str, Any]) -> str:
    """The tables as TOML text; `read_toml` returns the same tables."""
    import tomli_w

    return tomli_w.dumps(tree)


def unknown_key(name: str, known: Sequence[str], table: str = "") -> ConfigError:
    """The error of a key that is not among the known ones, of `table` if named."""
    return ConfigError(
        "config.unknown_key",
        "{join} is not known; {close}",
        join=_printable(_join(table, name)),
        close=suggest(name, known, table),
    )


def suggest(word: str, known: Sequence[str], table: str = "") -> Message:
    """Advice for an unknown word: the nearest known word, of `table` if named, or the list of all.

    >>> print(suggest("stpes", ["steps", "epochs"], "training"))
    did you mean training.steps?
    >>> print(suggest("xyz", ["a", "b"]))
    known: a, b
    """
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return Message("advice.did_you_mean", "did you mean {word}?", word=_join(table, close[0]))
    return Message("advice.known", "known: {words}", words=", ".join(sorted(known)))
