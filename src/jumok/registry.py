"""Parts that are found by name: those of jumok, of other distributions, and of the program itself.

A registry has a group, such as "jumok.attention", and a table of the parts of jumok: strings
"module:attribute" next to the code that uses them, so that no part is imported before it is used,
the core imports no ring, and a checkout that is used in place needs no new installation. Other
distributions add parts with entry points of the same group; a program adds its own with `register`:

    @register("jumok.attention", "sigmoid")
    class SigmoidAttention(MultiHeadAttention): ...

Commands find the parts of a file that is not installed by JUMOK_EXTENSIONS=FILE.py, or several
separated like the folders of PATH; so do the processes that a sweep or the server starts.
"""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from jumok.config_io import suggest
from jumok.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

PartT = TypeVar("PartT")

_REGISTERED: dict[tuple[str, str], object] = {}  # by group and name


@dataclass(frozen=True)
class Extension:
    """A part that is not of jumok, as a run records it."""

    group: str
    name: str
    module: str
    distribution: str  # "": of a program, not installed
    version: str
    sha256: str  # of the file of the module


def register(group: str, name: str, part: object = None) -> Callable[[PartT], PartT]:
    """Add a part of this program to a registry; also a decorator of a class or function.

    Raises InputError for a name that another part has.

    >>> @register("jumok.examples", "twice")
    ... def twice(x: float) -> float:
    ...     return 2 * x
    >>> Registry[Callable[[float], float]]("jumok.examples", "example").get("twice")(4)
    8
    """

    def add(part: PartT) -> PartT:
        known = _REGISTERED.setdefault((group, name), part)
        if _place(known) != _place(part):
            raise _taken(group, name, _place(known), _place(part))
        _REGISTERED[group, name] = part  # of a cell that ran again
        return part

    if part is not None:
        add(part)
    return add


def _taken(group: str, name: str, place: str, place_2: str) -> InputError:
    return InputError(
        "extension.name_taken",
        "{group} must have each name once, got {name!r} of {place} and of {place_2}; "
        "rename one of them",
        group=group,
        name=name,
        place=place,
        place_2=place_2,
    )


class Registry(Generic[PartT]):
    """The parts of one group by name; `noun` is what a message calls the name.

    >>> functions = Registry[Callable[[float], float]](
    ...     "jumok.examples", "function", {"root": "math:sqrt", "exp": "math:exp"})
    >>> functions.get("root")(9.0)
    3.0
    >>> functions.get("rot")
    Traceback (most recent call last):
    jumok.errors.InputError: function must be a known name, got 'rot'; did you mean root?
    """

    def __init__(self, group: str, noun: str, builtin: Mapping[str, str] | None = None) -> None:
        self.group, self.noun, self.builtin = group, noun, dict(builtin or {})

    def __contains__(self, name: object) -> bool:
        """Whether `get` finds a part."""
        if name in self.builtin:
            return True
        _import_files()
        return (self.group, name) in _REGISTERED or name in self._entry_points

    def names(self) -> tuple[str, ...]:
        """The names of all parts, those of jumok first."""
        _import_files()
        registered = (name for group, name in _REGISTERED if group == self.group)
        return tuple(dict.fromkeys([*self.builtin, *registered, *self._entry_points]))

    def get(self, name: str) -> PartT:
        """The part with this name, imported now if it was not. Raises InputError if unknown."""
        if name in self.builtin:
            if (self.group, name) in _REGISTERED:  # it would be left out in silence
                own = _place(_REGISTERED[self.group, name])
                raise _taken(self.group, name, f"jumok ({self.builtin[name]})", own)
            module, _, attribute = self.builtin[name].partition(":")
            return cast(PartT, getattr(import_module(module), attribute))
        _import_files()
        if (self.group, name) in _REGISTERED:
            return cast(PartT, _REGISTERED[self.group, name])
        self.check(name)
        entry = self._entry_points[name]
        try:
            return cast(PartT, entry.load())
        except (ImportError, AttributeError) as error:
            raise InputError(
                "extension.not_importable",
                "{noun} {name!r} must be {entry} of {distribution}, which cannot be imported: "
                "{error}; install it again",
                noun=self.noun,
                name=name,
                entry=entry.value,
                distribution=_distribution(entry)[0],
                error=error,
            ) from error

    def check(self, name: str) -> None:
        """Raise InputError, with the nearest name, for an unknown one."""
        if name not in self:
            raise InputError(
                "extension.unknown_name",
                "{noun} must be a known name, got {name!r}; {suggest}",
                noun=self.noun,
                name=name,
                suggest=suggest(str(name), self.names()),
            )

    def extension(self, name: str) -> Extension | None:
        """The record of a part of another distribution or of the program; None for one of jumok."""
        if name in self.builtin:
            return None
        part = self.get(name)
        entry = None if (self.group, name) in _REGISTERED else self._entry_points[name]
        distribution, version = ("", "") if entry is None else _distribution(entry)
        path = _source(part)
        module = str(part.__module__)
        if module == "__main__" and path:
            module = path.stem  # of a script, which another program imports by this name
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest() if path else ""
        return Extension(self.group, name, module, distribution, version, sha256)

    @property
    def _entry_points(self) -> Mapping[str, "EntryPoint"]:
        return _found_entry_points(self.group)


@cache
def _import_files() -> None:
    """Import the files of JUMOK_EXTENSIONS, each under its name without .py, if it is not."""
    for word in filter(None, os.environ.get("JUMOK_EXTENSIONS", "").split(os.pathsep)):
        path = Path(word).expanduser()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise InputError(
                "extension.no_such_file",
                "JUMOK_EXTENSIONS must name files of Python, got {word!r}; correct the path",
                word=word,
            )
        if path.stem in sys.modules:
            continue  # imported by the program, or by the file before it
        sys.modules[path.stem] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


@cache
def _found_entry_points(group: str) -> Mapping[str, "EntryPoint"]:
    from importlib.metadata import entry_points  # 20 ms

    return {entry.name: entry for entry in entry_points(group=group)}


def _distribution(entry: "EntryPoint") -> tuple[str, str]:
    """The name and version of the distribution of an entry point."""
    return ("", "") if entry.dist is None else (entry.dist.name, entry.dist.version)


def _place(part: object) -> str:
    named = part if hasattr(part, "__qualname__") else type(part)
    return f"{named.__module__}.{getattr(named, '__qualname__', '')}"


def _source(part: object) -> Path | None:
    """The file of a class or function; None for those of a notebook or a shell."""
    path = getattr(import_module(part.__module__), "__file__", None)
    return Path(path) if path else None
