"""Packages whose names are imported from their modules when they are first used."""

import sys

TYPE_CHECKING = False  # `import jumok` imports nothing else

if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(package: str) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """`__getattr__` and `__dir__` of a package with the names that it imports for type checkers.

    Those are the imports of its file below `if TYPE_CHECKING:`.

    >>> import jumok.nn
    >>> get, names = lazy_names("jumok.nn")
    >>> get("RopeConfig").__module__, "sinusoids" in names()
    ('jumok.nn.rope', True)
    >>> get("Rope")
    Traceback (most recent call last):
        ...
    AttributeError: module 'jumok.nn' has no attribute 'Rope'
    """
    modules: dict[str, str] = {}

    def get(name: str) -> object:
        if not modules:
            modules.update(_imports(str(sys.modules[package].__file__)))
        if name not in modules:
            from importlib import import_module, util

            if name.isidentifier() and not name.startswith("_"):
                module = f"{package}.{name}"
                if util.find_spec(module) is not None:  # as `jumok.nn` after `import jumok`
                    return import_module(module)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from jumok.extras import import_attribute  # names the extra of a missing library

        value = import_attribute(package, modules[name], name)
        vars(sys.modules[package])[name] = value  # the next access does not come here
        return value

    def listed() -> list[str]:
        found = vars(sys.modules[package])
        return sorted({*found, *found["__all__"]})

    return get, listed


def _imports(file: str) -> dict[str, str]:
    """The module of each name that the file of a package imports below `if TYPE_CHECKING:`."""
    import re

    with open(file, encoding="utf-8") as source:
        block = source.read().partition("if TYPE_CHECKING:\n")[2]
    found = re.findall(r"^    from (\S+) import (?:\(([^)]*)\)|(.+))$", block, re.M)
    return {
        name.strip(): module
        for module, lines, line in found
        for name in (lines or line).split(",")
        if name.strip()
    }
