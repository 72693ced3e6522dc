"""Find an object of jumok by its dotted path."""

from importlib import import_module


def find_object(path: str) -> object:
    """The module, class, function or attribute `jumok.PATH`; raises ImportError without one."""
    names = path.split(".")
    for end in range(len(names), -1, -1):
        try:
            found: object = import_module(".".join(["jumok", *names[:end]]))
        except ModuleNotFoundError:
            continue
        for name in names[end:]:
            if not hasattr(found, name):
                raise ImportError(f"jumok.{path} does not exist: {found!r} has no {name}")
            found = getattr(found, name)
        return found
    raise ImportError(f"jumok.{path} does not exist")
