"""Latency and throughput of `jumok serve` and of other servers under load.

    python -m benchmarks.serving                                   # jumok alone, 2 minutes
    python -m benchmarks.serving --own --save                      # a run, in the server's process
    python -m benchmarks.serving --peers ENV/bin/python --save     # with peers, 12 minutes

A BERT of 12 layers with random weights (d_model 384, a size of multilingual-e5-small) classifies
short reviews. All servers read the same folder in the format of transformers, have the same number
of threads and get the same texts over connections that stay open, in turns. jumok computes in int8,
LitServe with the linear maps quantized by PyTorch, infinity in float32 (it classifies in no other
precision on CPUs). Arrivals of the open loop are scheduled beforehand, and a latency counts from
the scheduled time, so that waiting in the client is not hidden. Every answer of jumok is compared
with the bytes of `predict`. With --own the model is a run of jumok of the same size, which the
server computes without PyTorch, in its own process and in another one; the peers cannot read it.
ENV is an environment with torch, transformers, infinity-emb and litserve.
text-embeddings-inference is written in Rust and published as a container only.
"""

import argparse
import asyncio
import gc
import http.client
import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psutil
import torch

from jumok.serving.pipeline_engine import with_precision
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.load import load
from jumok.tasks.runs.train import train
from tests.hf_folders import bert
from tests.tiny_runs import write_reviews

CLIENTS = 64
START_SECONDS = 90
RESULT = Path(__file__).parents[1] / "results" / "serving.txt"
PEERS = Path(__file__).with_name("peers.py")
WORDS = ["이", "영화", "정말", "너무", "재미있어요", "지루해요", "연기가", "최고예요", "결말이"]


@dataclass
class Measured:
    """Latencies in seconds of the answered requests, and the numbers of the others."""

    latencies: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)  # of requests with 429
    statuses: dict[int, int] = field(default_factory=dict)
    differing: int | None = None  # from `predict`; None: not compared
    seconds: float = 0.0

    def row(self, name: str) -> str:
        """One line of the table."""
        p50, p99 = percentiles(self.latencies)
        line = (
            f"{name:<42} {len(self.latencies) / self.seconds:8.1f}/s  p50 {1e3 * p50:8.2f} ms  "
            f"p99 {1e3 * p99:8.2f} ms  statuses {self.statuses}"
        )
        if self.differing is not None:
            line += f"  differing {self.differing}"
        if self.refusals:
            p50, p99 = percentiles(self.refusals)
            line += f"  429 after {1e3 * p50:.2f} ms (p50), {1e3 * p99:.2f} ms (p99)"
        return line


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile; NaN for none."""
    ordered = sorted(seconds) or [float("nan")]
    return median(ordered), ordered[int(0.99 * (len(ordered) - 1))]


def random_bert(folder: Path) -> Path:
    """A checkpoint of transformers with random weights, and a vocabulary of tiny texts."""
    torch.manual_seed(0)
    bert(
        folder,
        "ForSequenceClassification",
        ("부정", "긍정"),
        hidden_size=384,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=1536,
        max_position_embeddings=128,
    )
    return folder


def own_run(folder: Path) -> Path:
    """A classifier of jumok of the same size, after a step of training."""
    few = ["training.steps=1", "training.warmup_steps=0", "training.evaluate_every=1"]
    size = ["d_model=384", "n_layers=12", "n_heads=12", "d_ff=1536", "max_length=128"]
    model = [f"model.{each}" for each in (*size, "activation=gelu")]
    train(load_recipe(str(write_reviews(folder)), [*few, *model]), folder / "model")
    return folder / "model"


def sentence(chance: random.Random) -> str:
    """A review of 3 to 12 words."""
    return " ".join(chance.choices(WORDS, k=chance.randint(3, 12)))


@dataclass(frozen=True)
class Side:
    """A server: how it is started and asked."""

    name: str
    command: Sequence[str]
    path: str = "/v1/predict"
    ready: str = "/ready"

    def body(self, text: str) -> bytes:
        """The body of a request with one text."""
        bodies: dict[str, dict[str, object]] = {
            "/v1/predict": {"texts": [text]},
            "/predict": {"text": text},
            "/classify": {"model": "model", "input": [text]},
        }
        return json.dumps(bodies[self.path]).encode()


def sides(folder: Path, port: int, threads: int, peers: str | None, own: bool) -> list[Side]:
    """jumok, in one process and in two for a run, and the peers if they have an environment."""
    serve = [sys.executable, "-m", "jumok", "serve", str(folder), "--precision", "int8"]
    found = [Side("jumok serve int8", [*serve, "--port", str(port), "--max-wait", "2"])]
    if own:
        command = [*found[0].command, "--workers", "1"]
        found.append(Side(f"{found[0].name} --workers 1", command))
    if peers is not None:
        lit = [peers, str(PEERS), str(folder), str(port), str(threads)]
        infinity = [str(Path(peers).with_name("infinity_emb")), "v2", "--model-id", str(folder)]
        infinity += ["--served-model-name", "model", "--port", str(port), "--host", "127.0.0.1"]
        infinity += ["--engine", "torch", "--device", "cpu"]
        found.append(Side("LitServe, transformers int8", lit, "/predict", "/health"))
        found.append(Side("infinity-emb, torch float32", infinity, "/classify", "/health"))
    return found


@contextmanager
def running(side: Side, port: int, threads: int) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """A started server, and the seconds until it was ready. Raises RuntimeError if it never is."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
        "INFINITY_BETTERTRANSFORMER": "false",  # a feature of transformers 4 only
        "INFINITY_ANONYMOUS_USAGE_STATS": "0",
    }
    started = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(
            side.command, stdout=log, stderr=log, env=environment, start_new_session=True
        )
        try:
            while not is_ready(port, side.ready):
                time.sleep(0.01)
                if server.poll() is not None or time.perf_counter() - started > START_SECONDS:
                    log.seek(0)
                    end = log.read()[-800:].decode(errors="replace")
                    raise RuntimeError(f"{side.name} did not start: {end}")
            yield server, time.perf_counter() - started
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(40)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


class ClientConnection(asyncio.Protocol):
    """One connection of a client; not a stream of asyncio, which takes twice the time a request.

    The clients share the cores with the server that they measure.
    """

    def __init__(self) -> None:
        self.ended = False
        self.stays_open = True  # after the newest response
        self._data = b""
        self._reply: asyncio.Future[tuple[int, bytes] | None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: bytes) -> "asyncio.Future[tuple[int, bytes] | None]":
        """The status and the body of the response; None if the connection ended."""
        self._data, self._reply = b"", asyncio.get_running_loop().create_future()
        if self.ended:
            self._reply.set_result(None)
        else:
            self._transport.write(request)
        return self._reply

    def data_received(self, data: bytes) -> None:
        """Return the response when it is complete."""
        self._data += data
        head, found, content = self._data.partition(b"\r\n\r\n")
        if not found or self._reply is None or self._reply.done():
            return
        head = head.lower() + b"\r\n"
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(content) >= length:
            self.stays_open = b"connection: close" not in head
            self._reply.set_result((int(head.split(b" ", 2)[1]), content))

    def connection_lost(self, exc: Exception | None) -> None:
        """The server has closed the connection."""
        self.ended = True
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(None)

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()


class Connections:
    """Connections to a server that stay open; a request uses one that is free."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[ClientConnection] = []

    def request(self, path: str, body: bytes) -> bytes:
        """The bytes of a POST request with JSON."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost:{self._port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of the response to a POST request with JSON."""
        return await self.send(self.request(path, body))

    async def send(self, request: bytes) -> tuple[int, bytes]:
        """The status and the body of the response; 0 if the connection ended.

        A connection that was idle may have been closed; as every client does, another one is tried.
        """
        while self._free:
            found = await self._send(self._free.pop(), request)
            if found is not None:
                return found
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(ClientConnection, "127.0.0.1", self._port)
        return await self._send(connection, request) or (0, b"")

    async def _send(self, connection: ClientConnection, request: bytes) -> tuple[int, bytes] | None:
        found = await connection.send(request)
        if found is not None and connection.stays_open:
            self._free.append(connection)
        else:
            connection.close()
        return found


class Load:
    """Texts for a server, and the answers that `predict` gives to each alone."""

    def __init__(
        self, port: int, side: Side, texts: Sequence[str], expected: Sequence[str] | None
    ) -> None:
        self._connections = Connections(port)
        self._expected = expected
        self._requests = [self._connections.request(side.path, side.body(text)) for text in texts]

    async def send(self, number: int, scheduled: float, measured: Measured) -> None:
        """Send a text and record the latency from its scheduled time."""
        status, content = await self._connections.send(self._requests[number])
        measured.statuses[status] = measured.statuses.get(status, 0) + 1
        if status == 429:
            measured.refusals.append(time.perf_counter() - scheduled)
        if status == 200:
            measured.latencies.append(time.perf_counter() - scheduled)
            if self._expected is not None:
                differs = self._expected[number].encode() not in content
                measured.differing = (measured.differing or 0) + differs

    async def closed(self, clients: int, seconds: float) -> Measured:
        """A number of clients, each with one request in flight."""
        measured, chance = Measured(), random.Random(1)
        started = time.perf_counter()

        async def client() -> None:
            while time.perf_counter() - started < seconds:
                number = chance.randrange(len(self._requests))
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
            number = chance.randrange(len(self._requests))
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


class Table:
    """Printed lines, kept for the file."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Print a line."""
        self.lines.append(line)
        print(line, flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2, help="of all servers in turns")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--peers", metavar="PYTHON", help="of the environment with the peers")
    model.add_argument("--own", action="store_true", help="a run of jumok, without PyTorch")
    parser.add_argument("--save", action="store_true", help="write results/serving.txt, or _own")
    options = parser.parse_args()
    table = Table()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as name:
        folder = own_run(Path(name)) if options.own else random_bert(Path(name) / "model")
        table.add("python -m benchmarks.serving " + " ".join(sys.argv[1:]))
        names = ("torch", "transformers", "starlette", "uvicorn")
        versions = ", ".join(f"{each} {version(each)}" for each in names) + of_peers(options.peers)
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        table.add(f"{date}; {processor()}; {options.threads} threads; {versions}")
        measure(folder, options, table)
    if options.save:
        path = RESULT.with_stem("serving_own") if options.own else RESULT
        path.write_text("\n".join(table.lines) + "\n", encoding="utf-8")


def of_peers(
    python: str | None,
    names: Sequence[str] = ("torch", "transformers", "litserve", "infinity_emb"),
) -> str:
    """The versions of the peers."""
    if python is None:
        return ""
    code = f"from importlib.metadata import version; print(*map(version, {tuple(names)}))"
    printed = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    pairs = zip(names, printed.stdout.split(), strict=True)
    return "; peers: " + ", ".join(f"{name} {found}" for name, found in pairs)


def measure(folder: Path, options: argparse.Namespace, table: Table) -> None:
    """All servers in turns, and the direct calls in this process."""
    chance = random.Random(3)
    texts = [sentence(chance) for _ in range(512)]
    pipeline = with_precision(load(folder), "int8")
    expected = [to_json(pipeline(text)) for text in texts]
    gc.collect()
    gc.freeze()  # a collection would stop all clients for some 0.1 s
    port = free_port()
    rates: dict[str, list[float]] = {}
    for number in range(options.rounds):
        table.add(f"round {number + 1}")
        table.add(direct(pipeline, texts, options.seconds).row("direct call in Python"))
        best = offline(pipeline, texts, options.seconds)
        rates.setdefault("predict", []).append(best)
        table.add(f"{'predict on a file (chunks of 256)':<42} {best:8.1f}/s")
        for side in sides(folder, port, options.threads, options.peers, options.own):
            answers = expected if side.path == "/v1/predict" else None
            try:
                with running(side, port, options.threads) as (server, seconds):
                    load_test = Load(port, side, texts, answers)
                    table.add(f"{side.name}: ready after {seconds:.2f} s")
                    full = asyncio.run(measure_side(side, load_test, options.seconds, table))
                    rates.setdefault(side.name, []).append(full)
                    root = psutil.Process(server.pid)
                    for each in [root, *root.children(recursive=True)]:
                        table.add(
                            f"  memory of a process: {each.memory_info().rss / 2**20:.0f} MiB"
                        )
            except RuntimeError as error:
                table.add(str(error))
    for name, found in rates.items():
        share = median(found) / median(rates["predict"])
        table.add(f"{name}: {median(found):.1f}/s (median), {share:.3f} of predict on a file")


async def measure_side(side: Side, load_test: Load, seconds: float, table: Table) -> float:
    """One client, many clients, an open loop at 0.7 and at 2 times their rate; the rate."""
    await load_test.closed(8, 2)  # warms up
    table.add((await load_test.closed(1, seconds)).row("  1 client"))
    full = await load_test.closed(CLIENTS, seconds)
    table.add(full.row(f"  {CLIENTS} clients"))
    capacity = len(full.latencies) / full.seconds
    table.add((await load_test.open(0.7 * capacity, seconds)).row("  open loop at 0.7 x"))
    if side.path == "/v1/predict":  # the others have no limit
        table.add((await load_test.open(2.0 * capacity, seconds)).row("  open loop at 2 x"))
    return capacity


def is_ready(port: int, path: str) -> bool:
    """Whether a GET is answered with 200."""
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        caller.request("GET", path)
        return caller.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        caller.close()


def free_port() -> int:
    """A port that no program listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def processor() -> str:
    """The name of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor()


if __name__ == "__main__":
    main()
