"""Plain JSON values into frozen dataclasses, every value checked against the type of its field."""

import dataclasses
import math
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from jumok.errors import InputError

T = TypeVar("T")

_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def read_dataclass(cls: type[T], tree: Mapping[str, object], where: str = "") -> T:
    """A `cls` from a table that has each of its fields, and nothing else.

    Lists become tuples. Raises InputError, which says where in the tree it went wrong.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Point:
    ...     place: tuple[int, ...]
    >>> read_dataclass(Point, {"place": [1, 2]})
    Point(place=(1, 2))
    >>> read_dataclass(Point, {"place": [1, 2.5]})
    Traceback (most recent call last):
    jumok.errors.InputError: place[1] is 2.5, a whole number was wanted
    """
    types = _types(cls)  # type: ignore[arg-type]  # a class can be a key
    if missing := [name for name in types if name not in tree]:
        raise InputError(f"{_inside(where, missing[0])} is missing")
    if unknown := [name for name in tree if name not in types]:
        raise InputError(f"{ascii(_inside(where, unknown[0]))[1:-1][:80]} is not known")
    values = {name: _read(type_, tree[name], _inside(where, name)) for name, type_ in types.items()}
    return cls(**values)


@cache
def _types(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def _read(type_: Any, value: object, where: str) -> Any:
    """The value as one of this type."""
    origin, inner = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        return _read_one_of(inner, value, where)
    if origin is Literal:
        if isinstance(value, str) and value in inner:
            return value
        raise _wrong(where, value, _word(type_))
    if origin is tuple:
        return _read_list(inner, value, where)
    if origin is Mapping:
        return _read_table(inner, value, where)
    if dataclasses.is_dataclass(type_) and isinstance(type_, type):
        if not isinstance(value, dict):
            raise _wrong(where, value, "a table")
        return read_dataclass(type_, value, where)
    return _read_plain(type_, value, where)


def _read_plain(type_: Any, value: object, where: str) -> Any:
    if type_ is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise _wrong(where, value, _WORDS[float]) from None
    if type(value) is type_ and not (type_ is float and not math.isfinite(value)):  # type: ignore[arg-type]
        return value
    raise _wrong(where, value, _WORDS.get(type_, "nothing"))


def _read_list(inner: tuple[Any, ...], value: object, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _wrong(where, value, "a list")
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(_read(inner[0], each, f"{where}[{i}]") for i, each in enumerate(value))
    if len(value) != len(inner):
        raise _wrong(where, value, f"a list of {len(inner)}")
    pairs = zip(inner, value, strict=True)
    return tuple(_read(type_, each, f"{where}[{i}]") for i, (type_, each) in enumerate(pairs))


def _read_table(inner: tuple[Any, ...], value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, value, "a table")
    names, values = inner
    return {
        _read(names, name, where): _read(values, each, _inside(where, name))
        for name, each in value.items()
    }


def _read_one_of(types: tuple[Any, ...], value: object, where: str) -> Any:
    """The value as the first of several types that it fits; None is written null."""
    if value is None and type(None) in types:
        return None
    others = [type_ for type_ in types if type_ is not type(None)]
    for type_ in others[:-1]:
        try:
            return _read(type_, value, where)
        except InputError:
            continue
    try:
        return _read(others[-1], value, where)
    except InputError:
        wanted = [_word(type_) for type_ in others]
        if "" in wanted:  # what is wrong lies deeper
            raise
        raise _wrong(where, value, " or ".join(wanted)) from None


def _word(type_: Any) -> str:
    """What a plain type is called; nothing for one that holds others."""
    if get_origin(type_) is Literal:
        return "one of " + ", ".join(get_args(type_))
    return _WORDS.get(type_, "")


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _wrong(where: str, value: object, wanted: str) -> InputError:
    return InputError(f"{ascii(where)[1:-1][:80]} is {ascii(value)[:40]}, {wanted} was wanted")
