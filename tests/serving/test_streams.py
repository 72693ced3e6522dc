"""A stream whose client leaves, counted in steps: nothing depends on time."""

import json
import os
import socket
from pathlib import Path

import pytest

from tests.serving.server_process import serving
from tests.serving.test_life import wait_until

TEXT = "삼 일 오"
SETTINGS = ("kernel=native", "precision=int8", "min_length=20", "max_length=20")

# Loaded by every Python process of the server: once the file in GATE exists, each step is counted
# in a second file, and from the fourth one on the thread waits until GATE is removed.
GATE = """
import os, time
from jumok.serving.jobs import JobHub
before, steps = JobHub.step, 0
def step(hub):
    global steps
    before(hub)
    gate = os.environ["GATE"]
    if steps or os.path.exists(gate):
        steps += 1
        with open(gate + ".steps", "a") as file:
            file.write(".")
        while steps == 4 and os.path.exists(gate):
            time.sleep(0.01)
JobHub.step = step
"""


@pytest.mark.slow
def test_a_stream_whose_client_leaves_is_not_computed_further(
    compiled: Path, reading_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(GATE, encoding="utf-8")
    gate, steps = tmp_path / "gate", tmp_path / "gate.steps"
    monkeypatch.setenv("GATE", str(gate))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    body = json.dumps({"prompt": TEXT, "stream": True}).encode()
    head = (
        b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with serving(tmp_path / "server", [reading_run], decoding=SETTINGS) as server:
        gate.touch()
        with socket.create_connection(server.address) as client:
            client.sendall(head % (server.port, len(body)) + body)
            client.recv(2**16)  # the headers at least
            wait_until(lambda: steps.exists() and steps.stat().st_size == 4)
        left = 'jumok_cancelled_texts_total{model="run"} 1.0'
        wait_until(lambda: left in server.request("/metrics").body.decode())
        gate.unlink()
        assert server.request("/v1/completions", {"prompt": TEXT}).status == 200
        whole = 20  # steps of the second request: one for each token
        assert not {"bug", "Traceback"} & {*server.log.read_text(encoding="utf-8").split()}
        assert whole <= steps.stat().st_size <= 4 + whole + 4
