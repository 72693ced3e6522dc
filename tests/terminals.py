"""A real terminal for tests: what a program prints to it, and whether that controls it."""

import io
import os
import re
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from jumok.terminal import escape_control, safe_streams

# Retitle the window, clear the screen, a colour, a C1 sequence, backspace, DEL, turned letters.
HOSTILE = "PWNED\x1b]0;title\x07\x1b[2J\x1b[38;5;201m\x9b31m\x08\x7f\u202ecod\u2066.\u2028exe\r"

# What rich and tqdm write: colours, and the return to the start of a line.
_OF_LIBRARIES = re.compile(r"\x1b\[[0-9;]*m|(?<!exe)\r")


def on_terminal(run: Callable[[], object]) -> str:
    """What `run` prints to stdout and stderr when both are a terminal."""
    pty = pytest.importorskip("pty")
    tty = pytest.importorskip("tty")
    master, slave = pty.openpty()
    set_size(slave)
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


def set_size(terminal: int, columns: int = 80) -> None:
    """Set the size of a terminal; a new one has no columns."""
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


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
    """Nothing in `shown` controls a terminal but what rich and tqdm write."""
    assert "\x1b[38;5;201m" not in shown
    rest = _OF_LIBRARIES.sub("", shown)
    assert escape_control(rest) == rest, ascii(rest)
