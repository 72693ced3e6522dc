"""A `jumok serve` in a process of its own, and HTTP requests to it."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from jumok.tasks.pipeline.encoder_choice import with_packed_encoder
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.load import load

START = """
import json, sys
from jumok.serving.limits import Limits
from jumok.serving.server import ServeOptions, serve
options = json.loads(sys.argv[1])
limits = Limits(**options.pop("limits", {}))
options["decoding"] = tuple(options.get("decoding", ()))
serve(ServeOptions(**options, limits=limits))
"""


@dataclass(frozen=True)
class Reply:
    """A response; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, whose shape is checked."""
        assert len(self.body) <= 2048
        assert set(self.json) == {"error"}
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert re.fullmatch(r"[a-z]+\.[a-z0-9_]+", error["code"])
        return error


def served(run: Path | str) -> Pipeline:
    """What `jumok predict` and `jumok serve` compute with without --precision."""
    return with_packed_encoder(load(run), None)


@dataclass(frozen=True)
class Server:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path
    token: str | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return "127.0.0.1", self.port

    def request(
        self,
        path: str,
        body: object = None,
        method: str | None = None,
        timeout: float = 60,
        **headers: str,
    ) -> Reply:
        """GET, or POST with a body (JSON unless it is bytes)."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        content = body if isinstance(body, bytes | None) else json.dumps(body)
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            caller.request(method or ("GET" if body is None else "POST"), path, content, sent)
            came = caller.getresponse()
            found = {name.lower(): value for name, value in came.getheaders()}
            return Reply(came.status, found, came.read())
        finally:
            caller.close()

    def predict(self, *texts: str, **fields: object) -> Reply:
        """POST /v1/predict."""
        return self.request("/v1/predict", {"texts": list(texts), **fields})

    def raw(self, data: bytes, timeout: float = 10) -> bytes:
        """Everything that the server sends after these bytes, until it closes."""
        came = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as client:
            try:
                client.sendall(data)
                while part := client.recv(65536):
                    came += part
            except (ConnectionResetError, BrokenPipeError):
                pass
        return came

    def until_ready(self, seconds: float = 120) -> float:
        """Wait for 200 of /ready; the seconds that it took."""
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            try:
                if self.request("/ready").status == 200:
                    return time.monotonic() - started
            except OSError:
                pass
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            time.sleep(0.02)
        raise AssertionError(self.log.read_text(encoding="utf-8"))

    def computing_pids(self) -> list[int]:
        """The process ids of the computing processes."""
        return [child.pid for child in psutil.Process(self.process.pid).children()]

    def rss(self) -> int:
        """Bytes of memory of the front process."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(
    folder: Path, runs: Sequence[Path], *, stderr: Path | None = None, **options: object
) -> Iterator[Server]:
    """Serve runs within the context; `options` are those of `ServeOptions`, limits as a dict.

    The log is written to `stderr` if it is given, else to a file in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"folders": list(map(str, runs)), "port": port, **options}
    log.touch()
    with (stderr or log).open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps(settings)],
            stderr=output,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    token = options.get("token")
    server = Server(process, port, log, str(token) if token else None)
    try:
        server.until_ready()
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
