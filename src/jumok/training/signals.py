"""Graceful shutdown: the first SIGINT or SIGTERM saves a checkpoint, the second one terminates."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from jumok.errors import Interrupted
from jumok.terminal import command_line

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PARENT = "JUMOK_PARENT"  # the id of a process that a training must not outlive
PARENT_SECONDS = 0.5  # between two looks


@dataclass
class StopRequest:
    """The number of the first signal that was received, or None."""

    requested: int | None = None

    def interruption(self, step: int, run: Path) -> Interrupted:
        """The error to raise once the checkpoint of `step` is written; exit code 128 + the signal.

        >>> stop = StopRequest(requested=signal.SIGTERM)
        >>> error = stop.interruption(40, Path("runs/nsmc"))
        >>> print(error, error.exit_code)
        stopped by SIGTERM after step 40, which is saved; to resume: jumok train --resume \
runs/nsmc 143
        """
        assert self.requested is not None  # only called after a signal
        name = signal.Signals(self.requested).name
        return Interrupted(
            "training.stopped",
            "stopped by {name} after step {step}, which is saved; to resume: {value}",
            name=name,
            step=step,
            value=command_line("jumok", "train", "--resume", run),
            signal_number=int(self.requested),
        )


@contextlib.contextmanager
def handle_signals() -> Iterator[StopRequest]:
    """Context in which the first SIGINT or SIGTERM only sets `requested`; a second one terminates.

    The previous handlers are restored at the end. Only the main thread can handle signals: in any
    other thread this does nothing, and `requested` stays None.

    >>> with handle_signals() as stop:
    ...     signal.raise_signal(signal.SIGTERM)
    ...     stop.requested == signal.SIGTERM
    True
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.requested is None:
            stop.requested = number
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)  # None: set outside Python


def end_with_parent() -> None:
    """Send this process a SIGTERM once the process in JUMOK_PARENT has ended, even by a kill."""
    parent = int(os.environ.pop(PARENT, 0))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    if parent:
        threading.Thread(target=watch, daemon=True).start()
