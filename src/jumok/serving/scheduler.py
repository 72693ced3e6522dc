"""The queue of one model: admission by expected wait, the nearest deadline first.

Work is measured in bytes of UTF-8 text plus a constant per text, for generated texts times the
hypotheses and tokens that a request asks for. The work that waits, over the
measured speed, is the expected wait; a request that would wait longer than `max_wait` is refused
with the time after which it is accepted: while refused requests may return, others are refused
from half of `max_wait` on. The texts of a request are taken all or none.
"""

import asyncio
import heapq
import json
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from jumok.errors import Message
from jumok.serving.computing import Computing
from jumok.serving.frames import BATCH_WORK, TEXT_WORK, WORK
from jumok.serving.limits import Limits
from jumok.web.errors import RequestError

IN_FLIGHT_SECONDS = 0.05  # of work in the computing process: enough to keep it busy
MIN_IN_FLIGHT_WORK = 2 * BATCH_WORK  # one is computed, and the next one has arrived
MAX_IN_FLIGHT = 256  # texts
MAX_GENERATING = 32  # texts that are generated side by side
LONG_SHARE = 0.25  # of `max_wait`: what others wait at most for a text of many tokens
TICK_SECONDS = 0.01  # between two looks at the deadlines; a timer for each request costs more
SPEED_SECONDS = 2.0  # over which the speed is averaged
MAX_RETRY_SECONDS = 60
RETURN_SECONDS = 5.0  # after the time in Retry-After, for a client that comes late
MAX_RESERVATIONS = 10_000


@dataclass(frozen=True)
class Answer:
    """The answer for one text: its bytes and the counted tokens."""

    payload: bytes
    info: dict[str, Any]
    hash: str


@dataclass(frozen=True)
class GenerationCost:
    """What the speed of a model that generates was measured with."""

    beam: int
    tokens: float  # of an answer

    def factor(self, decoding: str) -> float:
        """How many times the work of a measured text these settings of a request need at least.

        >>> GenerationCost(beam=4, tokens=16.0).factor('{"beam": 16, "min_length": 4096}')
        1024.0
        >>> GenerationCost(beam=4, tokens=16.0).factor("")
        1.0
        """
        settings = json.loads(decoding) if decoding else {}
        rows = max(settings.get("beam", self.beam), settings.get("n_best", 1))
        tokens = max(settings.get("min_length", 0), self.tokens)
        return float(max(rows * tokens / (self.beam * self.tokens), 1.0))


@dataclass(eq=False)
class Item:
    """One text that waits or is computed."""

    number: int
    message: dict[str, Any]
    payload: bytes
    deadline: float  # of time.monotonic
    done: asyncio.Future[Answer]
    queue: "ModelQueue"
    on_text: Callable[[bytes], None] | None = None
    process: Computing | None = None  # once it is computed
    work: int = 0
    load: int = 0  # the part of the work for which others wait

    def __lt__(self, other: "Item") -> bool:
        return (self.deadline, self.number) < (other.deadline, other.number)


class Speed:
    """Work per second of computing, averaged over the last seconds.

    >>> speed = Speed(100.0)
    >>> speed.add(300, 1.0)
    >>> 100 < speed.value < 300
    True
    """

    def __init__(self, value: float) -> None:
        self.value = value

    def add(self, work: float, seconds: float) -> None:
        """Record some work and the time that it took."""
        if seconds > 0:
            weight = 1 - math.exp(-seconds / SPEED_SECONDS)
            self.value += weight * (work / seconds - self.value)


class RetryReservations:
    """When refused work would be accepted: each refusal reserves its own time.

    Without reservations all refused clients would return at once and most would be refused again.
    A request that returns is recognized by its content.
    """

    def __init__(self) -> None:
        self._until = 0.0
        self._due: dict[int, deque[float]] = {}  # of each content, those that have not returned
        self._order: deque[tuple[float, int]] = deque()  # all of them

    def retry_after(self, now: float, excess: float, seconds: float, content: int = 0) -> int:
        """Whole seconds, for work that takes `seconds` and finds `excess` seconds too many.

        >>> reservations = RetryReservations()
        >>> [reservations.retry_after(100.0, 0.5, 1.0) for _ in range(3)]
        [2, 3, 4]
        """
        self._until = max(self._until, now + excess) + seconds
        self._until = min(self._until, now + MAX_RETRY_SECONDS)
        self._due.setdefault(content, deque()).append(self._until)
        self._order.append((self._until, content))
        if len(self._order) > MAX_RESERVATIONS:
            self._forget_oldest()
        return max(math.ceil(self._until - now), 1)

    def claim(self, now: float, content: int) -> bool:
        """Whether a request with this content returns after its time; each one counts once.

        >>> reservations = RetryReservations()
        >>> reservations.retry_after(100.0, 0.5, 1.0, content=7)
        2
        >>> [reservations.claim(101.0, 7), reservations.claim(102.0, 7)]
        [False, True]
        >>> reservations.claim(102.0, 7)
        False
        """
        due = self._due.get(content)
        if due is None or due[0] > now:
            return False
        self._remove_first(content)
        return True

    def pending(self, now: float) -> bool:
        """Whether a refused request may still return."""
        while self._order and self._order[0][0] + RETURN_SECONDS < now:
            self._forget_oldest()
        return bool(self._due)

    def _forget_oldest(self) -> None:
        until, content = self._order.popleft()
        due = self._due.get(content)
        if due is not None and due[0] <= until:  # it has not returned
            self._remove_first(content)

    def _remove_first(self, content: int) -> None:
        due = self._due[content]
        due.popleft()
        if not due:
            del self._due[content]


class ModelQueue:
    """The texts that wait for a model, and those that its computing processes work on."""

    def __init__(self, limits: Limits, generates: bool, speed: float) -> None:
        self.limits, self.generates = limits, generates
        self.speed = Speed(speed)
        self.processes: list[Computing] = []
        self.cancelled = 0
        self.work: dict[str, float] = dict.fromkeys(WORK, 0)  # of all answers
        self._waiting: list[Item] = []
        self._in_flight: dict[int, Item] = {}
        self._loads: dict[Computing, tuple[int, int]] = {}  # their texts and work
        self._stale = 0  # cancelled texts that are still in `_waiting`
        self._numbers = count()
        self.cost: GenerationCost | None = None  # of a model that generates
        self._reservations = RetryReservations()
        self._waiting_work = self._flight_work = 0
        self._busy_since: float | None = None
        self._work_done = 0
        self._ticks = False  # whether `_tick` will be called

    @property
    def idle(self) -> bool:
        """Whether no text waits or is computed."""
        return not self.waiting_texts

    @property
    def waiting_texts(self) -> int:
        """Texts that wait or are computed."""
        return len(self._waiting) - self._stale + len(self._in_flight)

    @property
    def waiting_work(self) -> int:
        """Their work in bytes."""
        return self._waiting_work + self._flight_work

    @property
    def expected_wait(self) -> float:
        """Seconds until a new text would be done."""
        return self.waiting_work / max(self.speed.value * max(len(self.processes), 1), 1e-9)

    def submit(
        self,
        message: dict[str, Any],
        texts: Sequence[str],
        deadline: float,
        on_text: Callable[[bytes], None] | None = None,
        *,
        accepted: bool = False,
    ) -> list[Item]:
        """Accept all texts of a request, or raise RequestError 429 unless it is `accepted`."""
        payloads = [text.encode() for text in texts]
        now = time.monotonic()
        wait, speed = self.expected_wait, max(self.speed.value * len(self.processes), 1e-9)
        allowed = min(self.limits.max_wait, max(deadline - now, 0.0))
        factor = self.cost.factor(message.get("decoding", "")) if self.cost is not None else 1.0
        works = [round((len(payload) + TEXT_WORK) * factor) for payload in payloads]
        # Texts are generated side by side, so that others do not wait for all of a long one.
        most = round(speed * self.limits.max_wait * LONG_SHARE)
        loads = [min(each, max(most, round(each / factor))) for each in works]
        work = sum(loads)
        if factor > 1 and max(works) / speed > deadline - now and not accepted:
            raise RequestError(
                "request.too_expensive",
                "the tokens and hypotheses of a text would take {works:.0f} s, longer than "
                "the deadline; reduce decoding.min_length or decoding.beam",
                param="decoding",
                works=max(works) / speed,
            )
        limit, content = allowed, 0
        if wait > allowed / 2:  # half of the queue is kept for requests that return as they should
            content = hash((*payloads, *message.values()))
            if self._reservations.pending(now) and not self._reservations.claim(now, content):
                limit = allowed / 2
        full = self.waiting_work + work > self.limits.waiting_bytes and not self.idle
        if not accepted and (wait > limit or full):
            excess = max(wait - allowed, 0.0)
            raise RequestError(
                "request.overloaded",
                "the expected wait of {wait:.1f} s exceeds {limit:.1f} s; send the request "
                "again after the time in Retry-After",
                status=429,
                retry_after=self._reservations.retry_after(now, excess, work / speed, content),
                wait=wait,
                limit=limit,
            )
        loop = asyncio.get_running_loop()
        items = [
            Item(
                next(self._numbers),
                message,
                payload,
                deadline,
                loop.create_future(),
                self,
                on_text,
                work=each,
                load=load,
            )
            for payload, each, load in zip(payloads, works, loads, strict=True)
        ]
        for item in items:
            heapq.heappush(self._waiting, item)
        self._waiting_work += work
        if not self._ticks:
            self._ticks = True
            loop.call_later(TICK_SECONDS, self._tick)
        self.pump()
        return items

    def _tick(self) -> None:
        """Drop the texts whose deadline has passed, as long as there are texts."""
        now = time.monotonic()
        self.cancel([each for each in self._in_flight.values() if each.deadline <= now], expired())
        self._drop_late(now)
        self._ticks = not self.idle
        if self._ticks:
            asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _drop_late(self, now: float) -> None:
        """Remove cancelled and late texts from the head of the queue."""
        while self._waiting:
            item = self._waiting[0]
            if item.done.done():
                self._stale -= 1
            elif item.deadline <= now:
                self._waiting_work -= item.load
                item.done.set_exception(expired())
            else:
                return
            heapq.heappop(self._waiting)

    def pump(self) -> None:
        """Send waiting texts to computing processes with free capacity."""
        while self.processes:
            self._drop_late(time.monotonic())
            if not self._waiting:
                return
            item = self._waiting[0]
            process = self._process_with_room(item)
            if process is None:
                return
            heapq.heappop(self._waiting)
            self._waiting_work -= item.load
            item.process = process
            self._count(item, 1)
            if not self._in_flight:
                self._busy_since, self._work_done = time.monotonic(), 0
            self._in_flight[item.number] = item
            process.send({"op": "run", "id": item.number, **item.message}, item.payload)

    def _process_with_room(self, item: Item) -> Computing | None:
        best, least = None, math.inf
        for process in self.processes:
            n, work = self._loads.get(process, (0, 0))
            if self.generates:
                has_capacity = n < MAX_GENERATING
            else:
                budget = max(self.speed.value * IN_FLIGHT_SECONDS, MIN_IN_FLIGHT_WORK)
                fits = not n or work + item.load <= budget
                has_capacity = fits and n < MAX_IN_FLIGHT
            if has_capacity and work < least:
                best, least = process, work
        return best

    def cancel(self, items: Sequence[Item], error: RequestError | None = None) -> None:
        """Drop texts whose client left, or with an error those whose deadline has passed."""
        items = [item for item in items if not item.done.done()]
        if not items:
            return
        for item in items:
            if error is None:
                self.cancelled += 1
                item.done.cancel()
            else:
                item.done.set_exception(error)
            if item.number in self._in_flight:
                assert item.process is not None
                item.process.send({"op": "cancel", "id": item.number})
                self._finish(item, counts=False)
            else:
                self._waiting_work -= item.load
                self._stale += 1
        if self._stale > len(self._waiting) // 2:
            self._waiting = [item for item in self._waiting if not item.done.done()]
            heapq.heapify(self._waiting)
            self._stale = 0
        self.pump()

    def on_frame(self, process: Computing, message: dict[str, Any], payload: bytes) -> None:
        """Handle a frame of a computing process; `pump` follows after all that came together."""
        process.unanswered_seconds = 0.0
        for key, value in message.get("work", {}).items():
            self.work[key] += value
        item = self._in_flight.get(message.get("id", -1))
        if item is None:  # cancelled, or a pong
            return
        if message["op"] == "text":
            if item.on_text is not None:
                item.on_text(payload)
            return
        self._finish(item, counts=True)
        if not item.done.done():
            if message["op"] == "done":
                item.done.set_result(Answer(payload, message, process.info["hash"]))
            else:
                error = Message.from_json(message["message"])
                item.done.set_exception(RequestError.of(error, message["status"]))

    def _finish(self, item: Item, *, counts: bool) -> None:
        del self._in_flight[item.number]
        self._count(item, -1)
        if counts:
            self._work_done += item.work
        now = time.monotonic()
        assert self._busy_since is not None
        seconds = now - self._busy_since
        if seconds > 0.1 or (not self._in_flight and seconds > 0):
            if self._work_done:
                self.speed.add(self._work_done / max(len(self.processes), 1), seconds)
            self._busy_since, self._work_done = now, 0

    def fail(self, process: Computing | None, error: RequestError) -> None:
        """Fail the texts that a lost process computed, or with None all that wait."""
        for item in [each for each in self._in_flight.values() if process in (None, each.process)]:
            del self._in_flight[item.number]
            self._count(item, -1)
            if not item.done.done():
                item.done.set_exception(error)
        if not self.processes or process is None:
            for item in self._waiting:
                if not item.done.done():
                    item.done.set_exception(error)
            self._waiting.clear()
            self._waiting_work, self._stale = 0, 0

    def busy(self, process: Computing) -> bool:
        """Whether a process still computes accepted texts."""
        return process in self._loads

    def _count(self, item: Item, sign: int) -> None:
        """Add a text to the load of its process, or remove it."""
        assert item.process is not None
        self._flight_work += sign * item.load
        n, work = self._loads.get(item.process, (0, 0))
        self._loads[item.process] = n + sign, work + sign * item.load
        if n + sign == 0:
            del self._loads[item.process]


def expired() -> RequestError:
    """The error of a text whose deadline has passed."""
    return RequestError(
        "request.deadline_passed",
        "the deadline passed before the answer was ready; allow more time",
        status=504,
    )
