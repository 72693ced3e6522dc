"""Every public name has a docstring with an example, shapes where it takes tensors, and errors.

The examples are run by `--doctest-modules`. Public: `__all__` of `jumok` and of `PACKAGES`, and the
methods of those classes that the class itself defines.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from types import ModuleType

import pytest

import jumok
import jumok.decoding
import jumok.interpret
import jumok.models
import jumok.nn

PACKAGES = (jumok.nn, jumok.models, jumok.decoding, jumok.interpret)
SHAPE = re.compile(r"\((?:\.\.\.|[A-Z0-9][A-Za-z0-9_|]*|[a-z_]+), [^()]*\)|\(\.\.\.\)|\d,? ?\d")


def _public() -> Iterator[tuple[str, object]]:
    for name in jumok.__all__:
        if name != "__version__":
            yield f"jumok.{name}", getattr(jumok, name)
    for package in PACKAGES:
        for name in package.__all__:
            yield f"{package.__name__}.{name}", getattr(package, name)


PUBLIC = {
    name: item for name, item in _public() if inspect.isclass(item) or inspect.isfunction(item)
}


def _methods(cls: type) -> Iterator[Callable[..., object]]:
    for method in vars(cls).values():
        function = getattr(method, "__func__", getattr(method, "fget", method))
        function = inspect.unwrap(function) if callable(function) else function
        if inspect.isfunction(function):
            yield function


def _documents(item: object) -> str:
    """The docstring of a function, or those of a class and its methods."""
    own = inspect.getdoc(item) or ""
    if inspect.isclass(item):
        own += "\n".join(function.__doc__ or "" for function in _methods(item))
    return own


def test_there_are_public_names() -> None:
    assert len(PUBLIC) > 120


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_the_names_of_a_package_are_unique_and_exist(package: ModuleType) -> None:
    assert len(set(package.__all__)) == len(package.__all__)
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = package.no_such_name


def test_docstrings() -> None:
    """A sentence of its own, not the signature that dataclass writes."""
    for name, item in PUBLIC.items():
        first = (inspect.getdoc(item) or "").partition("\n")[0]
        assert len(first) > 15, f"{name} needs a sentence"
        if is_dataclass(item):
            assert not first.startswith(f"{item.__name__}("), name


def test_every_method_has_a_docstring() -> None:
    undocumented = [
        f"{name}.{function.__name__}"
        for name, item in PUBLIC.items()
        if inspect.isclass(item)
        for function in _methods(item)
        if not function.__name__.startswith(("_", "<"))
        and function.__module__ == item.__module__
        and not function.__doc__
    ]
    assert undocumented == []


def test_every_docstring_has_an_example() -> None:
    assert [name for name, item in PUBLIC.items() if ">>> " not in _documents(item)] == []


def _takes_tensors(item: object) -> bool:
    functions = list(_methods(item)) if inspect.isclass(item) else [item]
    return any(
        "Tensor" in str(hint)
        for function in functions
        for key, hint in getattr(function, "__annotations__", {}).items()
        if key != "return" and not getattr(function, "__name__", "_").startswith("__")
    )


def test_tensors_have_shapes() -> None:
    takes = [name for name, item in PUBLIC.items() if _takes_tensors(item)]
    assert [name for name in takes if not SHAPE.search(_documents(PUBLIC[name]))] == []


def test_errors() -> None:
    """What raises an error for users in its own source says when."""
    raises = re.compile(r"raise (Input|Storage|Jumok|Checkpoint)Error")
    silent = [
        name
        for name, item in PUBLIC.items()
        if item is not jumok.JumokError
        and raises.search(inspect.getsource(item))
        and "Raises" not in _documents(item)
    ]
    assert silent == []
