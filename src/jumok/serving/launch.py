"""Start the interpreters of computing processes, also before the server itself is imported.

A computing process takes most of its start for `import torch`; the front process takes 0.3 s for
its own imports. `launched_ahead` lets both happen at the same time. This module imports little.
"""

import os
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
_log_format = "text"  # of what computing processes write to stderr

# Before the imports of the computing process, which may write warnings.
JSON_START = """
import sys
from jumok.serving.logs import LogStream
sys.stderr = LogStream("computing", sys.stderr)
from jumok.serving.worker import main
main(int(sys.argv[1]))
"""


def launch() -> Launched:
    """A computing process; one that was started ahead, if there is one.

    It imports from the same folders as this process, never from the current folder (`-P`).
    """
    if _ahead:
        return _ahead.pop()
    ours, theirs = socket.socketpair()
    with ExitStack() as on_failure, theirs:
        on_failure.enter_context(ours)
        start = ["-m", "jumok.serving.worker"] if _log_format == "text" else ["-c", JSON_START]
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", *start, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        on_failure.pop_all()
    return Launched(process, ours)


@contextmanager
def launched_ahead(n: int, log: str = "text") -> Iterator[None]:
    """Start `n` processes now, for the next calls of `launch`; end those that were not needed.

    These and all later ones write to stderr in the format `log`.
    """
    global _log_format
    _log_format = log
    _ahead.extend([launch() for _ in range(n)])
    try:
        yield
    finally:
        while _ahead:
            process, connection = _ahead.pop()
            connection.close()
            process.kill()
            process.wait()
