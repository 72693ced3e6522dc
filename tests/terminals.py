"""A real terminal for tests: what a program prints to it, and whether that controls it."""

import io
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from jumok.terminal import escape_control, safe_streams

# Retitle the window, clear the screen, a colour, a C1 sequence, backspace, DEL, turned letters.
HOSTILE = "PWNED\x1b]0;title\x07\x1b[2J\x1b[38;5;201m\x9b31m\x08\x7f\u202ecod\u2066.\u2028exe\r"

# What rich writes: colours, the cursor, a line that is erased.
_OF_RICH = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r(?=\x1b)")


def on_terminal(run: Callable[[], object]) -> str:
    """What `run` prints to stdout and stderr when both are a terminal."""
    pty = pytest.importorskip("pty")
    tty = pytest.importorskip("tty")
    master, slave = pty.openpty()
    tty.setraw(slave)  # otherwise LF becomes CR LF
    seen: list[bytes] = []
    reader = threading.Thread(target=_read, args=(master, seen))
    reader.start()
    try:
        with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
            for name in ("stdout", "stderr"):
                raw = stack.enter_context(open(os.dup(slave), "wb", buffering=0))
                stream = stack.enter_context(io.TextIOWrapper(raw, "utf-8", write_through=True))
                patch.setattr(sys, name, stream)
            patch.setenv("TERM", "xterm-256color")
            patch.setenv("COLUMNS", "80")
            patch.delenv("NO_COLOR", raising=False)
            with safe_streams():
                run()
    finally:
        os.close(slave)
        reader.join(30)
        os.close(master)
    return b"".join(seen).decode()


def _read(master: int, seen: list[bytes]) -> None:
    """Read until the other side is closed, which Linux reports as an error."""
    while True:
        try:
            data = os.read(master, 65536)
        except OSError:
            return
        if not data:
            return
        seen.append(data)


def check_harmless(shown: str) -> None:
    """Nothing in `shown` controls a terminal but what rich writes."""
    assert "\x1b[38;5;201m" not in shown
    rest = _OF_RICH.sub("", shown)
    assert escape_control(rest) == rest, ascii(rest)


def hostile_path(folder: Path) -> Path:
    """A path in `folder` whose name would control a terminal."""
    return folder / HOSTILE
