"""Ctrl-C and SIGTERM as a wish: finish the step, commit, say how to go on. The second one kills."""

import contextlib
import shlex
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from jumok.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class StopRequest:
    """Whether somebody asked the work to stop: the number of the signal, or None."""

    requested: int | None = None

    def interruption(self, step: int, run: Path) -> Interrupted:
        """The error to raise once `step` is committed; its exit code is 128 + the signal.

        >>> stop = Stop(requested=signal.SIGTERM)
        >>> error = stop.interruption(40, Path("runs/nsmc"))
        >>> print(error, error.exit_code)
        stopped by SIGTERM after step 40, which is committed; to go on: jumok train --resume \
runs/nsmc 143
        """
        assert self.requested is not None  # nobody stops unasked
        name = signal.Signals(self.requested).name
        return Interrupted(
            f"stopped by {name} after step {step}, which is committed; "
            f"to go on: jumok train --resume {shlex.quote(str(run))}",
            int(self.requested),
        )


@contextlib.contextmanager
def handle_signals() -> Iterator[StopRequest]:
    """Inside, the first SIGINT or SIGTERM only marks `requested`; a second one ends at once.

    The old handlers are back on leaving. Only the main thread can listen to signals: in any other
    this does nothing, and `requested` stays None.

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
