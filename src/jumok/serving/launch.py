"""Start the interpreters of computing processes."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from typing import NamedTuple


class Launched(NamedTuple):
    """A process that waits for its first frame, and our end of the connection."""

    process: subprocess.Popen[bytes]
    connection: socket.socket


# Before the imports of the computing process, which may write warnings.
JSON_START = """
import sys
from jumok.serving.logs import LogStream
sys.stderr = LogStream("computing", sys.stderr)
from jumok.serving.worker import main
main(int(sys.argv[1]))
"""


def launch(log: str = "text") -> Launched:
    """A computing process, which writes to stderr in the format `log`.

    It imports from the same folders as this process, never from the current folder (`-P`). Its
    threads of PyTorch sleep while they wait: other models compute in the same cores.
    """
    ours, theirs = socket.socketpair()
    with ExitStack() as on_failure, theirs:
        on_failure.enter_context(ours)
        start = ["-m", "jumok.serving.worker"] if log == "text" else ["-c", JSON_START]
        path = os.pathsep.join(path for path in sys.path if path)
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", *start, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | {"PYTHONPATH": path},
        )
        on_failure.pop_all()
    return Launched(process, ours)
