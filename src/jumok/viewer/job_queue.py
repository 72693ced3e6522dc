"""A queue for long computations of a server: one at a time, in threads next to the event loop."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from jumok.errors import JumokError

ResultT = TypeVar("ResultT")

MAX_WAITING = 8


class ServerBusyError(JumokError):
    """The queue is full, or a job did not finish in time."""


class JobQueue:
    """Runs jobs in order, one at a time, each with a time limit.

    Jobs run in daemon threads, so Ctrl-C does not wait for them.

    >>> asyncio.run(JobQueue(seconds=5).submit(lambda: 6 * 7))
    42
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._waiting = 0

    @property
    def busy(self) -> bool:
        """Whether a job is running."""
        return self._lock.locked()

    async def submit(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` after all earlier jobs and return its result.

        Raises ServerBusyError if too many jobs wait or the time limit is exceeded; a running job
        then continues, and its result is dropped.
        """
        if self._waiting >= MAX_WAITING:
            raise ServerBusyError(f"{self._waiting} requests are waiting; try again later")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[ResultT] = loop.create_future()
        deadline = time.monotonic() + self.seconds

        def settle(result: ResultT | None, error: BaseException | None) -> None:
            if outcome.done():  # the caller has timed out
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, error = None, None
            with self._lock:
                if time.monotonic() > deadline:
                    return
                try:
                    result = work()
                except BaseException as failure:
                    error = failure
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error)

        self._waiting += 1
        try:
            threading.Thread(target=run, daemon=True, name="jumok-view").start()
            return await asyncio.wait_for(outcome, self.seconds)
        except TimeoutError:
            raise ServerBusyError(
                f"not finished within {self.seconds:.0f} seconds; try a shorter text or fewer beams"
            ) from None
        finally:
            self._waiting -= 1
