"""Something happens before each call that changes the disk: a fault, a death, a note."""

import contextlib
import io
import os
from collections.abc import Callable, Iterator
from typing import Any

CHANGING = ("mkdir", "open", "fsync", "close", "rename", "replace", "unlink", "rmdir")


@contextlib.contextmanager
def before_each_disk_call(act: Callable[[int, str, Any], None]) -> Iterator[None]:
    """Call `act(number, name, first argument)` before the calls of `os` that change the disk, and
    before `io.open` makes a new file; numbers count from 1."""
    count = 0

    def announced(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def announce(*words: Any, **named: Any) -> Any:
            nonlocal count
            if call is not opened or "x" in (words[1] if len(words) > 1 else ""):
                count += 1
                act(count, name, words[0])
            return call(*words, **named)

        return announce

    opened = io.open
    real = {name: getattr(os, name) for name in CHANGING}
    try:
        for name, call in real.items():
            setattr(os, name, announced(name, call))
        io.open = announced("create", opened)
        yield
    finally:
        io.open = opened
        for name, call in real.items():
            setattr(os, name, call)
