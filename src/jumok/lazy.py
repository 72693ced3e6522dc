"""Packages whose names are imported from their modules when they are first used."""

import sys

TYPE_CHECKING = False  # `import jumok` imports nothing else

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


def lazy_names(
    package: str, names: "Mapping[str, Iterable[str]]"
) -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """`__getattr__` and `__dir__` of a package with the names of each of its modules.

    >>> import jumok.nn
    >>> get, names = lazy_names("jumok.nn", {"rope": ["RopeConfig"]})
    >>> get("RopeConfig").__module__, "sinusoids" in names()
    ('jumok.nn.rope', True)
    >>> get("Rope")
    Traceback (most recent call last):
        ...
    AttributeError: module 'jumok.nn' has no attribute 'Rope'
    """
    modules = {name: module for module, own in names.items() for name in own}

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from jumok.extras import import_attribute  # names the extra of a missing library

        value = import_attribute(package, f"{package}.{modules[name]}", name)
        vars(sys.modules[package])[name] = value  # the next access does not come here
        return value

    def listed() -> list[str]:
        found = vars(sys.modules[package])
        return sorted({*found, *found["__all__"]})

    return get, listed
