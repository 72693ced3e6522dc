"""A queue for long computations of a server: one at a time, in threads next to the event loop."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from jumok.web.errors import RequestError

ResultT = TypeVar("ResultT")

MAX_WAITING = 8


class JobQueue:
    """Runs jobs in order, one at a time, each with a time limit.

    Jobs run in daemon threads, so Ctrl-C does not wait for them; it waits for those of anyio.

    >>> asyncio.run(JobQueue(seconds=5).submit(lambda: 6 * 7))
    42
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._waiting = 0

    async def submit(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` after all earlier jobs and return its result.

        Raises RequestError 503 if too many jobs wait or the time limit is exceeded; a running job
        then continues, and its result is dropped.
        """
        if self._waiting >= MAX_WAITING:
            raise RequestError(
                "page.too_many_requests",
                "{waiting} requests are waiting; try again later",
                status=503,
                waiting=self._waiting,
            )
        outcome: Future[ResultT] = Future()

        def run() -> None:
            with self._lock:
                if not outcome.set_running_or_notify_cancel():  # the time is over
                    return
                try:
                    outcome.set_result(work())
                except BaseException as error:
                    outcome.set_exception(error)

        self._waiting += 1
        try:
            threading.Thread(target=run, daemon=True, name="jumok-view").start()
            return await asyncio.wait_for(asyncio.wrap_future(outcome), self.seconds)
        except TimeoutError:
            raise RequestError(
                "page.timeout",
                "not finished within {seconds:.0f} seconds; try a shorter text or fewer beams",
                status=503,
                seconds=self.seconds,
            ) from None
        finally:
            self._waiting -= 1
