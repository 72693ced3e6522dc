"""Counts of `jumok serve` under load: answers, signals, lost processes, reloads, connections.

    python -m benchmarks.serving.reliability                       # all counts, some hours
    python -m benchmarks.serving.reliability --only mixed,connections --scale 0.1
    python -m benchmarks.serving.reliability --models FOLDER --only kills --scale 0.2 --seed 3

The models are trained in seconds: a classifier in int8 and a sequence-to-sequence model whose
tokens the C++ kernel computes. `--scale` multiplies the numbers of requests, signals and seconds;
counts may be taken in parts, each with a seed of its own and with the models of the first part;
`--minutes` ends signals and reloads early, with the number of those that were done.
Every count is a number of events, not a time, except where seconds are printed.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import torch

from jumok.serving.pipeline_engine import with_precision
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.runs.load import load
from jumok.threads import compute_threads
from tests.serving.server_process import Server, serving
from tests.tiny_runs import readings, reviews, write_readings, write_reviews

from .__main__ import processor

RESULT = Path(__file__).parents[1] / "results" / "serving_reliability.txt"
OVERLOAD = 64  # texts of a request, so that its clients need few of the cores
PATIENT = {"max_wait": 60.0}
RETRY_SECONDS = 0.05  # before the next request of a client that failed, or of an attacker


@dataclass(frozen=True)
class Reply:
    """A response to a request that was sent over a connection of its own."""

    status: int
    headers: dict[str, str]
    body: bytes


async def post(port: int, path: str, content: object, **headers: str) -> Reply | None:
    """POST JSON; None if the connection could not be made or ended without a response."""
    body = json.dumps(content).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{more}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return None
    try:
        writer.write(head.encode() + body)
        came = await reader.read()
    except OSError:
        return None
    finally:
        writer.close()
    start, _, content_bytes = came.partition(b"\r\n\r\n")
    lines = start.decode("latin-1").split("\r\n")
    if not came.startswith(b"HTTP/1.1 "):
        return None
    fields = dict(line.lower().split(": ", 1) for line in lines[1:])
    if len(content_bytes) != int(fields.get("content-length", len(content_bytes))):
        return None
    return Reply(int(lines[0].split(" ")[1]), fields, content_bytes)


@dataclass
class Models:
    """Both runs, their texts, and the answers of `predict` to texts alone."""

    folder: Path
    review: Path
    reading: Path
    expected: dict[str, str] = field(default_factory=dict)
    read: dict[str, str] = field(default_factory=dict)
    seed: int = 0
    until: float = math.inf  # of time.monotonic: counts of events end there

    def numbers(self, n: int) -> Iterator[int]:
        """0, 1, ... below n, as long as there is time; at least one."""
        for number in range(n):
            if number and time.monotonic() > self.until:
                return
            yield number

    @classmethod
    def train(cls, folder: Path, seed: int) -> "Models":
        """Train them unless the folder has them, and predict every text alone."""
        runs = [folder / write.__name__.removeprefix("write_") for write in WRITERS]
        for run, write in zip(runs, WRITERS, strict=True):
            if not (run / "model.safetensors").exists():
                _train(folder, run, write)
        models = cls(folder, runs[0], runs[1], seed=seed)
        pipeline = with_precision(load(models.review), "int8")
        chance = random.Random(2)
        texts = [f"{text} {chance.randrange(10**6)}" for text, _ in reviews(400, 5)]  # canaries
        models.expected = {text: to_json(pipeline(text)) for text in texts}
        reader = load(models.reading)
        models.read = {text: to_json(reader(text)) for text, _ in readings(200, 6)}
        return models

    def chance(self, number: int) -> random.Random:
        """The random numbers of a client."""
        return random.Random(f"{self.seed} {number}")

    def request(self, chance: random.Random) -> tuple[dict[str, Any], str]:
        """A request of 1 to 8 texts, and the answers that it must get."""
        name, table = chance.choice([("reviews", self.expected), ("readings", self.read)])
        texts = chance.choices(list(table), k=chance.choice([1, 1, 1, 2, 8]))
        return {"model": name, "texts": texts}, ", ".join(table[text] for text in texts)


WRITERS = (write_reviews, write_readings)


def _train(folder: Path, run: Path, write: Callable[[Path], Path]) -> None:
    recipe = write(folder / f"{run.name}-data")
    command = [sys.executable, "-m", "jumok", "train", str(recipe), "--out", str(run)]
    subprocess.run(command, check=True, capture_output=True)


@contextmanager
def both(models: Models, **limits: float) -> Iterator[Server]:
    """A server of both models."""
    log = Path(tempfile.mkdtemp(dir=models.folder))
    runs = [models.review, models.reading]
    with serving(log, runs, limits=PATIENT | limits) as server:
        yield server


@contextmanager
def classifier(models: Models, workers: int = 0, **limits: float) -> Iterator[Server]:
    """A server of the classifier in int8."""
    log, runs, limits = Path(tempfile.mkdtemp(dir=models.folder)), [models.review], PATIENT | limits
    with serving(log, runs, workers=workers, precision="int8", limits=limits) as server:
        yield server


@asynccontextmanager
async def load_on(
    server: Server, models: Models, clients: int, pause: float = 0.0
) -> AsyncIterator[Counter[str]]:
    """Clients that send one text after another meanwhile, and a count of what they got.

    They wait for `pause` between their requests, and at least `RETRY_SECONDS` after a failed one.
    """
    counts: Counter[str] = Counter()
    stop = asyncio.Event()

    async def client(number: int) -> None:
        chance = models.chance(number)
        while not stop.is_set():
            text = chance.choice(list(models.expected))
            reply = await post(server.port, "/v1/predict", {"texts": [text]})
            if reply is None:
                counts["no response"] += 1
            elif reply.status == 200 and models.expected[text].encode() not in reply.body:
                counts["wrong answer"] += 1
            else:
                counts[str(reply.status)] += 1
            failed = reply is None or reply.status != 200
            await asyncio.sleep(max(pause, RETRY_SECONDS) if failed else pause)

    tasks = [asyncio.create_task(client(number)) for number in range(clients)]
    try:
        yield counts
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def until_ready(server: Server, seconds: float = 120) -> float:
    """The seconds until /ready is 200."""
    started = time.monotonic()
    while (await asyncio.to_thread(server.request, "/ready")).status != 200:
        assert time.monotonic() - started < seconds
        await asyncio.sleep(0.02)
    return time.monotonic() - started


def mixed(models: Models, scale: float) -> str:
    """Requests of 1 to 8 texts to both models: their bytes are those of each text alone."""
    n = round(10_000 * scale)
    server_models = models.expected
    pipeline = load(models.review)  # two models are served without --precision
    models.expected = {text: to_json(pipeline(text)) for text in server_models}
    counts: Counter[str] = Counter()
    try:
        with both(models) as server:

            async def client(number: int) -> None:
                chance = models.chance(number)
                for _ in range(n // 16):
                    content, expected = models.request(chance)
                    reply = await post(server.port, "/v1/predict", content)
                    good = reply is not None and f"[{expected}]".encode() in reply.body
                    counts["equal" if good else "different"] += 1

            async def run() -> None:
                await asyncio.gather(*(client(number) for number in range(16)))

            asyncio.run(run())
    finally:
        models.expected = server_models
    with classifier(models) as server:

        async def loaded() -> Counter[str]:
            async with load_on(server, models, 32) as found:
                while sum(found.values()) < n:
                    await asyncio.sleep(0.05)
            return found

        found = asyncio.run(loaded())
    return (
        f"{n // 16 * 16} mixed requests of 16 clients: {dict(counts)}; single texts of 32 clients "
        f"in int8: {dict(found)}"
    )


def sigterms(models: Models, scale: float) -> str:
    """SIGTERM while requests are in progress: each one that was accepted is answered."""
    counts: Counter[str] = Counter()
    slowest = 0.0
    for number in models.numbers(max(round(100 * scale), 1)):
        with classifier(models) as server:

            async def run(server: Server = server, number: int = number) -> float:
                chance = models.chance(number)
                texts = chance.choices(list(models.expected), k=200)
                expected = ", ".join(models.expected[text] for text in texts).encode()
                asked = [
                    asyncio.create_task(post(server.port, "/v1/predict", {"texts": texts}))
                    for _ in range(16)
                ]
                await asyncio.sleep(chance.random() * 0.2)
                started = time.monotonic()
                server.process.send_signal(signal.SIGTERM)
                for reply in await asyncio.gather(*asked):
                    if reply is None:
                        counts["lost"] += 1
                    elif reply.status == 200:
                        counts["answered" if expected in reply.body else "different"] += 1
                    else:
                        counts[f"status {reply.status}"] += 1
                code = await asyncio.to_thread(server.process.wait, 60)
                counts[f"exit {code}"] += 1
                return time.monotonic() - started

            slowest = max(slowest, asyncio.run(run()))
    return f"SIGTERM with 16 requests of 200 texts: {dict(counts)}; slowest end {slowest:.1f} s"


def kills(models: Models, scale: float) -> str:
    """SIGKILL of the computing process under load: every request gets an answer or an error."""
    n = max(round(200 * scale), 1)
    seconds: list[float] = []
    with classifier(models, workers=1) as server:

        async def run() -> Counter[str]:
            chance = models.chance(8)
            async with load_on(server, models, 8) as counts:
                for _ in models.numbers(n):
                    await asyncio.sleep(chance.random() * 0.3)  # requests are in progress again
                    (pid,) = server.computing_pids()
                    os.kill(pid, signal.SIGKILL)
                    while psutil.pid_exists(pid):
                        await asyncio.sleep(0.01)
                    seconds.append(await until_ready(server))
            return counts

        counts = asyncio.run(run())
    return (
        f"{len(seconds)} kills of the computing process, 8 clients: {dict(counts)}; back after "
        f"{max(seconds):.1f} s at most"
    )


def reloads(models: Models, scale: float) -> str:
    """Reloads under load: no answer of another version than the two, and no memory is kept."""
    n = max(round(1_000 * scale), 2)
    with classifier(models) as server:

        async def run() -> tuple[Counter[str], int]:
            async with load_on(server, models, 4, pause=0.02) as counts:
                await post(server.port, "/admin/reload", {})
                before = server.rss()
                for _ in models.numbers(n):
                    reply = await post(server.port, "/admin/reload", {})
                    counts[f"reload {reply and reply.status}"] += 1
                return counts, server.rss() - before

        counts, drift = asyncio.run(run())
        time.sleep(2)  # the former one ends when it has answered
        left = len(server.computing_pids())
    return (
        f"reloads, 4 clients: {dict(counts)}; memory of the front process {_mib(drift)}, "
        f"computing processes at the end: {left}"
    )


def connections(models: Models, scale: float) -> str:
    """Idle connections: the memory that they take, and an answer meanwhile."""
    n = round(10_000 * min(scale * 10, 1))
    with classifier(models) as server:
        before = server.rss()

        async def run() -> tuple[int, int, int]:
            opened, failed = [], 0
            for _ in range(n):
                try:
                    opened.append(await asyncio.open_connection("127.0.0.1", server.port))
                except OSError:
                    failed += 1
            await asyncio.sleep(1)
            text = next(iter(models.expected))
            reply = await post(server.port, "/v1/predict", {"texts": [text]})
            during = server.rss()
            closed = 0
            for reader, writer in opened:
                closed += reader.at_eof()
                writer.close()
            assert reply is not None
            assert reply.status == 200
            return during, failed, closed

        during, failed, closed = asyncio.run(run())
    return (
        f"{n} idle connections: {failed} refused, {closed} closed, memory of the front process "
        f"{_mib(during)} ({_mib(during - before)} more)"
    )


ATTACKS = (
    b"\x16\x03\x01\x02\x00\x01",
    b"GET /health\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n",
    b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 40000000\r\n\r\n" + b"a" * 100_000,
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost",
)


def drift(models: Models, scale: float) -> str:
    """Mixed load and attacks: memory and descriptors afterwards."""
    seconds = 3_600 * scale
    with classifier(models, body_seconds=2.0) as server:
        front = psutil.Process(server.process.pid)

        async def attack(number: int, stop: float) -> None:
            chance = models.chance(number)
            while time.monotonic() < stop:
                with contextlib.suppress(OSError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                    writer.write(chance.choice(ATTACKS))
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(), chance.random() * 3)
                    writer.close()
                await asyncio.sleep(RETRY_SECONDS)

        async def run(seconds: float) -> Counter[str]:
            stop = time.monotonic() + seconds
            async with load_on(server, models, 8, pause=RETRY_SECONDS) as counts:
                await asyncio.gather(*(attack(number, stop) for number in range(16)))
            await asyncio.sleep(4)  # the deadlines of open connections
            return counts

        asyncio.run(run(min(seconds / 4, 60)))  # fills pools and caches
        rss, descriptors = server.rss(), front.num_fds()
        counts = asyncio.run(run(seconds))
        end = time.monotonic() + 60  # on a busy machine connections are closed later
        while front.num_fds() > descriptors and time.monotonic() < end:
            time.sleep(0.5)
        rss, descriptors = server.rss() - rss, front.num_fds() - descriptors
    return (
        f"{seconds:.0f} s of 8 clients and 16 attackers: {dict(counts)}; memory of the front "
        f"process {_mib(rss)}, descriptors {descriptors:+d}"
    )


def overload(models: Models, scale: float) -> str:
    """Twice the load that the server can bear: goodput, refusals, and Retry-After obeyed."""
    seconds = max(60 * scale, 4.0)
    with classifier(models, max_wait=2.0) as server:
        texts = list(models.expected)
        numbers = count()  # a request that is sent again is recognized by its content

        chance, counts = models.chance(0), Counter[str]()

        def request() -> dict[str, list[str]]:
            return {"texts": [f"{chance.choice(texts)} {next(numbers)}" for _ in range(OVERLOAD)]}

        async def capacity() -> float:
            done, end = 0, time.monotonic() + seconds

            async def client() -> None:
                nonlocal done
                while time.monotonic() < end:
                    reply = await post(server.port, "/v1/predict", request())
                    done += reply is not None and reply.status == 200

            await asyncio.gather(*(client() for _ in range(8)))
            return done / seconds

        best = asyncio.run(capacity())
        refusals: list[float] = []
        again: Counter[str] = Counter()

        async def one(obeys: bool) -> None:
            content, started = request(), time.monotonic()
            reply = await post(server.port, "/v1/predict", content)
            counts["no response" if reply is None else str(reply.status)] += 1
            if reply is not None and reply.status == 429:
                refusals.append(time.monotonic() - started)
                if obeys:
                    await asyncio.sleep(int(reply.headers["retry-after"]))
                    reply = await post(server.port, "/v1/predict", content)
                    again["accepted" if reply and reply.status == 200 else "refused"] += 1

        async def arrivals() -> None:
            tasks, started, at = [], time.monotonic(), 0.0
            while (at := at + chance.expovariate(2 * best)) < seconds:
                await asyncio.sleep(max(started + at - time.monotonic(), 0))
                tasks.append(asyncio.create_task(one(chance.random() < 0.2)))
            await asyncio.gather(*tasks)

        asyncio.run(arrivals())
    ordered = sorted(refusals) or [0.0]
    return (
        f"{2 * best:.0f} requests/s of {OVERLOAD} texts for {seconds:.0f} s, twice the capacity: "
        f"{dict(counts)}; answered {counts['200'] / seconds / best:.2f} of the capacity; 429 after "
        f"{1e3 * ordered[len(ordered) // 2]:.1f} ms (median), "
        f"{1e3 * ordered[int(0.99 * (len(ordered) - 1))]:.1f} ms (p99); sent again after "
        f"Retry-After: {dict(again)}"
    )


def _mib(n: int) -> str:
    return f"{n / 2**20:.1f} MiB"


COUNTS: dict[str, Callable[[Models, float], str]] = {
    each.__name__: each for each in (mixed, sigterms, kills, reloads, connections, drift, overload)
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the counts, and write them to results/ with --save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(COUNTS))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--models", type=Path, help="a folder in which the models are kept")
    parser.add_argument("--seed", type=int, default=0, help="of another part of the counts")
    parser.add_argument("--minutes", type=float, default=math.inf, help="a count may end earlier")
    parser.add_argument("--save", action="store_true", help="append to results/")
    options = parser.parse_args(arguments)
    folder = options.models or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    torch.set_num_threads(compute_threads())  # as the server: sums in float32 depend on them
    now = datetime.now(UTC).strftime("%Y-%m-%d")
    lines = [
        f"python -m benchmarks.serving.reliability --only {options.only} --scale {options.scale:g}",
        f"{now}; {processor()}, {len(os.sched_getaffinity(0))} cores; torch {torch.__version__}",
    ]
    print(*lines, sep="\n", flush=True)
    try:
        models = Models.train(folder, options.seed)
        gc.collect()
        gc.freeze()  # a collection would stop the clients for some 0.1 s
        for name in options.only.split(","):
            models.until = time.monotonic() + 60 * options.minutes
            lines.append(f"{name}: {COUNTS[name](models, options.scale)}")
            print(lines[-1], flush=True)
    finally:
        if options.models is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.save:
        with RESULT.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n\n")


if __name__ == "__main__":
    main()
