"""Long work of a server, one piece at a time, in threads: the loop stays free for other answers."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from jumok.errors import JumokError

T = TypeVar("T")

MAX_WAITING = 8


class ServerBusyError(JumokError):
    """The work was not begun, or not done in time."""


class JobQueue:
    """Whoever comes first is served first; nobody waits longer than a limit.

    Work runs in threads that do not keep the process alive: Ctrl-C need not wait for it.

    >>> asyncio.run(JobQueue(seconds=5).submit(lambda: 6 * 7))
    42
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._waiting = 0

    @property
    def busy(self) -> bool:
        """Whether something is being done."""
        return self._lock.locked()

    async def submit(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises, after the turn of everybody before.

        Raises ServerBusyError when too many wait already, or when it takes too long; what has begun
        then goes on to its end, unheard.
        """
        if self._waiting >= MAX_WAITING:
            raise ServerBusyError(f"{self._waiting} requests wait already; ask again in a moment")
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        deadline = time.monotonic() + self.seconds

        def settle(result: T | None, error: BaseException | None) -> None:
            if outcome.done():  # nobody waits any more
                return
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(result)  # type: ignore[arg-type]  # without an error it is one

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
                f"not done within {self.seconds:.0f} seconds; give a shorter text or fewer beams"
            ) from None
        finally:
            self._waiting -= 1
