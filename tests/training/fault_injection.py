"""Run a callback before each system call that changes the disk: to fail, to exit, to record."""

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from typing import Any

CALLS = ("mkdir", "open", "fsync", "close", "rename", "replace", "unlink", "rmdir")


@contextlib.contextmanager
def before_each_disk_call(act: Callable[[int, str, Any], None]) -> Iterator[None]:
    """Call `act(number, name, first argument)` before the calls of `os` that change the disk, and
    before `io.open` makes a new file; numbers count from 1."""
    count = 0

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if call is not original_open or "x" in (args[1] if len(args) > 1 else ""):
                count += 1
                act(count, name, args[0])
            return call(*args, **kwargs)

        return wrapper

    original_open = io.open
    originals = {name: getattr(os, name) for name in CALLS}
    try:
        for name, call in originals.items():
            setattr(os, name, wrapped(name, call))
        io.open = wrapped("create", original_open)
        yield
    finally:
        io.open = original_open
        for name, call in originals.items():
            setattr(os, name, call)
