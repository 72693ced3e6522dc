"""Start the interpreters of computing processes, also before the server itself is imported.

A computing process takes most of its start for `import torch`; the front process takes 0.3 s for
its own imports. `launched_ahead` lets both happen at the same time. This module imports little.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple


class Launched(NamedTuple):
    """A process that waits for its first frame, and our end of the connection."""

    process: subprocess.Popen[bytes]
    connection: socket.socket


_ahead: list[Launched] = []


def launch() -> Launched:
    """A computing process; one that was started ahead, if there is one."""
    if _ahead:
        return _ahead.pop()
    ours, theirs = socket.socketpair()
    with ExitStack() as on_failure, theirs:
        on_failure.enter_context(ours)
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "jumok.serving.worker", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        on_failure.pop_all()
    return Launched(process, ours)


@contextmanager
def launched_ahead(n: int) -> Iterator[None]:
    """Start `n` processes now, for the next calls of `launch`; end those that were not needed."""
    _ahead.extend([launch() for _ in range(n)])
    try:
        yield
    finally:
        while _ahead:
            process, connection = _ahead.pop()
            connection.close()
            process.kill()
            process.wait()
