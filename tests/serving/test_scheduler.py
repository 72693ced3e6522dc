"""Admission and order of the queue, with a process that only records what it is sent."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from jumok.serving.limits import Limits
from jumok.serving.scheduler import TEXT_WORK, GenerationCost, ModelQueue
from jumok.web.errors import RequestError


@dataclass(eq=False)
class Recorder:
    """The interface of a computing process, of which the queue uses `send` and `info`."""

    sent: list[tuple[dict[str, Any], bytes]] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=lambda: {"hash": "h"})

    def send(self, message: dict[str, Any], payload: bytes = b"") -> None:
        self.sent.append((message, payload))


def queue_with(recorder: Recorder, **limits: float) -> ModelQueue:
    queue = ModelQueue(Limits(**limits), generates=False, speed=10.0 * (TEXT_WORK + 1))
    queue.processes.append(recorder)  # type: ignore[arg-type]
    return queue


def finish(queue: ModelQueue, recorder: Recorder, index: int) -> None:
    number = recorder.sent[index][0]["id"]
    queue.on_frame(recorder, {"op": "done", "id": number}, b"answer")  # type: ignore[arg-type]
    queue.pump()


@pytest.mark.slow
def test_the_nearest_deadline_is_first_and_expired_texts_are_not_sent() -> None:
    async def run() -> None:
        recorder = Recorder()
        queue = queue_with(recorder)
        queue.speed.value = 20_000.0
        now = time.monotonic()
        first = queue.submit({}, ["1" * 5_000], now + 100)  # in flight
        late = queue.submit({}, ["3"], now + 50)
        soon = queue.submit({}, ["4"], now + 20)
        gone = queue.submit({}, ["5"], now + 2)
        assert [payload for _, payload in recorder.sent] == [b"1" * 5_000]
        await asyncio.sleep(2.1)
        finish(queue, recorder, 0)
        assert [payload for _, payload in recorder.sent[1:]] == [b"4", b"3"]
        assert (await first[0].done).payload == b"answer"
        with pytest.raises(RequestError, match="the deadline passed"):
            await gone[0].done
        queue.cancel([*late, *soon])
        assert queue.cancelled == 2
        assert queue.idle
        assert queue.waiting_work == 0

    asyncio.run(run())


def test_a_request_is_taken_whole_or_refused_whole() -> None:
    async def run() -> None:
        queue = queue_with(Recorder(), max_wait=1.0)
        deadline = time.monotonic() + 100
        queue.submit({}, ["a"] * 30, deadline)  # 3 s of work: an idle model takes any request
        waits = []
        for _ in range(3):
            with pytest.raises(RequestError, match=r"the expected wait of 3\.0 s") as refused:
                queue.submit({}, ["a"] * 10, deadline)
            waits.append(refused.value.retry_after)
        assert waits == [3, 4, 5]  # each refusal reserves its own second
        assert queue.waiting_texts == 30

    asyncio.run(run())


def test_a_request_after_the_time_in_retry_after_is_accepted() -> None:
    """Also while others keep the queue as full as they can."""

    async def run() -> None:
        queue = queue_with(Recorder(), max_wait=10.0)
        deadline = time.monotonic() + 100
        queue.submit({}, ["a" * 9_000], deadline)  # in flight: nothing else fits
        queue.speed.value = queue.waiting_work / 10.5
        with pytest.raises(RequestError) as refused:
            queue.submit({}, ["b"], deadline)
        assert refused.value.retry_after == 1
        queue.speed.value = queue.waiting_work / 9.0  # as after 1.5 s of work
        for text in ("c", "b"):  # another one, and one that is too early
            with pytest.raises(RequestError, match=r"9\.0 s exceeds 5\.0 s"):
                queue.submit({}, [text], deadline)
        await asyncio.sleep(1)
        (accepted,) = queue.submit({}, ["b"], deadline)
        with pytest.raises(RequestError):  # it has a reservation too, but only for later
            queue.submit({}, ["d"], deadline)
        queue.speed.value = queue.waiting_work / 4.0
        queue.submit({}, ["d"], deadline)
        assert not accepted.done.done()

    asyncio.run(run())


def test_forced_tokens_and_hypotheses_count_as_work() -> None:
    """A request of 100 bytes may ask for as much as a thousand usual ones."""

    async def run() -> None:
        queue = queue_with(Recorder(), max_wait=2.0)
        queue.generates = True
        queue.speed.value = TEXT_WORK * 1_000.0
        queue.cost = GenerationCost(beam=4, tokens=16.0)
        now = time.monotonic()
        long = {"decoding": '{"beam": 16, "min_length": 4096}'}
        with pytest.raises(RequestError, match="would take 60 s, longer than") as error:
            queue.submit(long, ["1" * (58 * TEXT_WORK)], now + 50)
        assert (error.value.status, queue.waiting_work) == (400, 0)
        queue.submit(long, ["1"], now + 50)
        assert queue.expected_wait == pytest.approx(0.5)  # of 1.0 s
        queue.submit({"decoding": '{"beam": 4, "max_length": 4096}'}, ["2"], now + 50)
        assert queue.expected_wait == pytest.approx(0.5, abs=0.01)
        for _ in range(3):
            queue.submit(long, ["3"], now + 50)
        with pytest.raises(RequestError, match=r"the expected wait of 2\.0 s exceeds 2\.0 s"):
            queue.submit(long, ["4"], now + 50)

    asyncio.run(run())


def test_the_texts_of_clients_that_left_do_not_count_as_work() -> None:
    async def run() -> None:
        queue = queue_with(Recorder(), max_wait=3.0)
        deadline = time.monotonic() + 100
        queue.submit({}, ["a" * 9_000], deadline)  # in flight: nothing else fits
        queue.speed.value = 1e6
        kept = queue.submit({}, ["b"], deadline - 50)
        for _ in range(1_000):
            before = queue.waiting_work
            left = queue.submit({}, ["c" * 1_000] * 3, deadline)
            queue.cancel(left)
            assert queue.waiting_work == before
        assert len(queue._waiting) < 10
        assert queue.waiting_texts == 2
        assert not kept[0].done.done()

    asyncio.run(run())
