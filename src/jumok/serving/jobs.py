"""Jobs that run side by side, with their kernel calls merged into one.

A job is the unchanged code of `jumok predict` for one text, in a greenlet. Where it reaches the
kernel it is suspended. When no job can go on, the calls of one kind are computed together, and the
jobs with results continue. So batches form without a timer, a new text joins the others at the next
step, and a finished one leaves. The kernel computes each row independently of the others
(`linear.h`), so an answer has the same bytes alone and in a batch.
"""

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from greenlet import GreenletExit, getcurrent, greenlet

from jumok.native.decoder_session import DecoderSession, search_together

BATCH_TOKENS = 512  # of one call of an encoder, or rows of a step, as in jumok.inference


class MergedCall(Protocol):
    """A kind of kernel call: how several of them are computed together."""

    @property
    def order(self) -> int:
        """Calls with the lowest order are computed first."""

    def size(self, arguments: Any) -> int:
        """The size of a call; a batch has at most `BATCH_TOKENS`, or a single call."""

    def compute(self, calls: Sequence[Any]) -> Sequence[Any]:
        """The result of each call."""


@dataclass(eq=False)
class _Waiting:
    job: greenlet
    call: MergedCall
    arguments: Any


class JobHub:
    """Runs jobs until each has ended or waits for a result; `step` computes one batch.

    A hub belongs to the thread that makes it. Jobs run in `context`, one for each resumption.
    """

    def __init__(self, context: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        self._hub, self._context = getcurrent(), context
        self._jobs: dict[Hashable, greenlet] = {}
        self._keys: dict[greenlet, Hashable] = {}
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        return len(self._jobs)

    def start(self, key: Hashable, function: Callable[[], None]) -> None:
        """Run a job up to its first kernel call, or to its end."""
        job = greenlet(function)
        self._jobs[key], self._keys[job] = job, key
        self._resume(job)

    def cancel(self, key: Hashable) -> bool:
        """End a job by raising GreenletExit in it. False if it has ended already."""
        job = self._jobs.pop(key, None)
        if job is None:
            return False
        del self._keys[job]
        self._waiting = [each for each in self._waiting if each.job is not job]
        with self._context():
            job.throw(GreenletExit)
        return True

    def call(self, call: MergedCall, arguments: Any) -> Any:
        """Compute a kernel call together with those of other jobs; alone outside of a job."""
        current = getcurrent()
        if current is self._hub:
            return call.compute([arguments])[0]
        return self._hub.switch(_Waiting(current, call, arguments))

    def search_step(self, session: DecoderSession) -> int:
        """A step of the search of a session, together with those of other jobs; its status."""
        return int(self.call(SEARCH_STEP, session))

    def step(self) -> None:
        """Compute one batch of waiting calls and continue their jobs."""
        if not self._waiting:
            return
        first = min(self._waiting, key=lambda each: each.call.order)
        batch: list[_Waiting] = []
        size = 0
        for each in self._waiting:
            if each.call is not first.call:
                continue
            size += each.call.size(each.arguments)
            if batch and size > BATCH_TOKENS:
                break
            batch.append(each)
        chosen = set(map(id, batch))
        self._waiting = [each for each in self._waiting if id(each) not in chosen]
        self._compute(batch)

    def _compute(self, batch: Sequence[_Waiting]) -> None:
        """Compute a batch; if that fails, each of its calls, so that one fails alone."""
        try:
            results = batch[0].call.compute([each.arguments for each in batch])
        except Exception as error:
            if len(batch) == 1:
                self._resume(batch[0].job, error=error)
                return
            for each in batch:
                self._compute([each])
            return
        for each, result in zip(batch, results, strict=True):
            self._resume(each.job, result)

    def _resume(self, job: greenlet, value: Any = None, error: Exception | None = None) -> None:
        with self._context():
            if error is not None:
                waiting = job.throw(error)
            elif job:  # has started
                waiting = job.switch(value)
            else:
                waiting = job.switch()
        if isinstance(waiting, _Waiting):
            self._waiting.append(waiting)
        if job.dead:
            self._jobs.pop(self._keys.pop(job, None), None)


class SearchStep:
    """A step of several searches: those of one model are one call of the kernel."""

    order = 1

    def size(self, arguments: Any) -> int:
        """The number of rows."""
        return int(arguments.search_rows)

    def compute(self, calls: Sequence[Any]) -> Sequence[int]:
        """The status of each search."""
        groups: dict[int, list[int]] = {}
        for number, session in enumerate(calls):
            groups.setdefault(id(session.weights), []).append(number)
        statuses = [0] * len(calls)
        for numbers in groups.values():
            found = search_together([calls[number] for number in numbers])
            for number, status in zip(numbers, found, strict=True):
                statuses[number] = status
        return statuses


SEARCH_STEP = SearchStep()
