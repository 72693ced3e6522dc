"""Latency and throughput of `jumok serve` under open-loop load.

    python -m benchmarks.serving [--rates 0.5,0.8] [--seconds 10]

A 12-layer encoder with random weights (d_model 384, a size of multilingual-e5-small) classifies
short reviews in int8. Arrivals are scheduled beforehand, and a latency counts from the scheduled
time, so that waiting in the client is not hidden. Every answer is compared with the bytes of
`predict`.
"""

import argparse
import asyncio
import http.client
import json
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil
import torch

from jumok.serving.engine import with_precision
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load

CLIENTS = 64
MAX_WAIT = 2.0  # seconds
RECIPE = """
name = "serving"
task = "classification"
[data]
train = "{folder}/train.tsv"
dev = "{folder}/train.tsv"
test = "{folder}/train.tsv"
[vocabulary]
size = 40
[model]
d_model = 384
n_heads = 12
d_ff = 1536
n_layers = 12
max_length = 128
[training]
steps = 1
batch_tokens = 256
evaluate_every = 1
precision = "float32"
"""
WORDS = ["이", "영화", "정말", "너무", "재미있어요", "지루해요", "연기가", "최고예요", "결말이"]


@dataclass
class Measured:
    """Latencies in seconds of the answered requests, and the numbers of the others."""

    latencies: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    differing: int = 0
    seconds: float = 0.0

    def row(self, name: str) -> str:
        """One line of the table."""
        ordered = sorted(self.latencies) or [float("nan")]
        p50, p99 = median(ordered), ordered[min(int(0.99 * len(ordered)), len(ordered) - 1)]
        return (
            f"{name:<42} {len(self.latencies) / self.seconds:8.1f}/s  p50 {1e3 * p50:8.2f} ms  "
            f"p99 {1e3 * p99:8.2f} ms  statuses {self.statuses}  differing {self.differing}"
        )


def train_run(folder: Path) -> Path:
    """A run with one step of training: its weights are random."""
    chance = random.Random(0)
    rows = ["text\tlabel"]
    rows += [f"{sentence(chance)}\t{'ab'[number % 2]}" for number in range(200)]
    (folder / "train.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder), encoding="utf-8")
    command = [sys.executable, "-m", "jumok", "train", str(folder / "recipe.toml")]
    subprocess.run([*command, "--out", str(folder / "run")], check=True, capture_output=True)
    return folder / "run"


def sentence(chance: random.Random) -> str:
    """A review of 3 to 12 words."""
    return " ".join(chance.choices(WORDS, k=chance.randint(3, 12)))


async def request(port: int, body: bytes) -> tuple[int, bytes]:
    """One POST over a new connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    reply = await reader.read()
    writer.close()
    start, _, content = reply.partition(b"\r\n\r\n")
    return int(start.split(b" ", 2)[1]), content


def body_of(text: str) -> bytes:
    """The body of a request with one text."""
    return json.dumps({"texts": [text]}).encode()


class Load:
    """Texts with the answers that `predict` gives alone."""

    def __init__(self, port: int, texts: Sequence[str], expected: Sequence[str]) -> None:
        self._port, self._texts, self._expected = port, texts, expected

    async def send(self, number: int, scheduled: float, measured: Measured) -> None:
        """Send a text and record the latency from its scheduled time."""
        status, content = await request(self._port, body_of(self._texts[number]))
        measured.statuses[status] = measured.statuses.get(status, 0) + 1
        if status == 200:
            measured.latencies.append(time.perf_counter() - scheduled)
            measured.differing += self._expected[number].encode() not in content

    async def closed(self, clients: int, seconds: float) -> Measured:
        """A number of clients, each with one request in flight."""
        measured, chance = Measured(), random.Random(1)
        started = time.perf_counter()

        async def client() -> None:
            while time.perf_counter() - started < seconds:
                number = chance.randrange(len(self._texts))
                await self.send(number, time.perf_counter(), measured)

        await asyncio.gather(*(client() for _ in range(clients)))
        measured.seconds = time.perf_counter() - started
        return measured

    async def open(self, rate: float, seconds: float) -> Measured:
        """Poisson arrivals at a rate, scheduled beforehand."""
        measured, chance = Measured(), random.Random(2)
        started, at = time.perf_counter(), 0.0
        tasks = []
        while (at := at + chance.expovariate(rate)) < seconds:
            await asyncio.sleep(max(started + at - time.perf_counter(), 0))
            number = chance.randrange(len(self._texts))
            tasks.append(asyncio.create_task(self.send(number, started + at, measured)))
        await asyncio.gather(*tasks)
        measured.seconds = time.perf_counter() - started
        return measured


def offline(pipeline: Pipeline, texts: Sequence[str], seconds: float) -> float:
    """Texts per second of `predict` on a file: chunks of 256."""
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        done += len([to_json(output) for output in pipeline.predict(list(texts[:256]))])
    return done / (time.perf_counter() - started)


def direct(pipeline: Pipeline, texts: Sequence[str], seconds: float) -> Measured:
    """One call after another in this process."""
    measured, started = Measured(), time.perf_counter()
    while (now := time.perf_counter()) - started < seconds:
        to_json(pipeline(texts[len(measured.latencies) % len(texts)]))
        measured.latencies.append(time.perf_counter() - now)
    measured.seconds = time.perf_counter() - started
    return measured


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rates", default="0.7,2.0")
    parser.add_argument("--run", type=Path, help="a run instead of the one with random weights")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measure(options.run or train_run(Path(name)), options.seconds, options.rates)


def measure(run: Path, seconds: float, rates: str) -> None:
    """Start the server and measure it."""
    chance = random.Random(3)
    texts = [sentence(chance) for _ in range(512)]
    pipeline = with_precision(load(run), "int8")
    expected = [to_json(pipeline(text)) for text in texts]
    print(f"processor: {processor()}; {torch.get_num_threads()} threads")
    print(direct(pipeline, texts, seconds).row("direct call in Python"))
    best = offline(pipeline, texts, seconds)
    print(f"{'predict on a file (chunks of 256)':<42} {best:8.1f}/s")
    port = 8765
    command = [sys.executable, "-m", "jumok", "serve", str(run), "--precision", "int8"]
    command += ["--max-wait", str(MAX_WAIT)]
    started = time.perf_counter()
    with subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL) as server:
        try:
            while not is_ready(port):
                time.sleep(0.01)
            print(f"from the start to /ready: {time.perf_counter() - started:.2f} s")
            load_test = Load(port, texts, expected)
            asyncio.run(load_test.closed(8, 2))  # warms up
            print(asyncio.run(load_test.closed(1, seconds)).row("1 client"))
            full = asyncio.run(load_test.closed(CLIENTS, seconds))
            print(full.row(f"{CLIENTS} clients"))
            capacity = len(full.latencies) / full.seconds
            print(f"share of predict on a file: {capacity / best:.3f}")
            for share in map(float, rates.split(",")):
                found = asyncio.run(load_test.open(share * capacity, seconds))
                print(found.row(f"open loop at {share:g} x capacity"))
            for each in [psutil.Process(server.pid), *psutil.Process(server.pid).children()]:
                print(f"memory of {each.pid}: {each.memory_info().rss / 2**20:.0f} MiB")
        finally:
            server.send_signal(signal.SIGTERM)


def is_ready(port: int) -> bool:
    """Whether /ready is 200."""
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        caller.request("GET", "/ready")
        return caller.getresponse().status == 200
    except OSError:
        return False
    finally:
        caller.close()


def processor() -> str:
    """The name of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor()


if __name__ == "__main__":
    main()
