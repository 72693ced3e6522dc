"""Two models under load: their thread pools never compute at the same time."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.serving.server_process import Server, serving

# Loaded by every Python process of the server: it records when a process has the turn, and the
# processor time of all its threads at both ends.
RECORDER = """
import fcntl, json, os, time
before = fcntl.lockf
since = None
def lockf(fd, operation, length=0, start=0, *rest):
    global since
    if start % 2 == 0 and operation == fcntl.LOCK_UN:
        ended = (time.monotonic_ns(), time.process_time_ns())
        with open(os.environ["TURNS"] + f".{os.getpid()}", "a") as file:
            file.write(json.dumps([*since, *ended]) + chr(10))
    before(fd, operation, length, start, *rest)
    if start % 2 == 0 and operation == fcntl.LOCK_EX:
        since = (time.monotonic_ns(), time.process_time_ns())
fcntl.lockf = lockf
"""


@pytest.mark.slow
def test_processes_compute_in_turns(
    compiled: Path,
    review_run: Path,
    reading_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "sitecustomize.py").write_text(RECORDER, encoding="utf-8")
    monkeypatch.setenv("TURNS", str(tmp_path / "turns"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    reading = tmp_path / "reading"
    reading.symlink_to(reading_run)
    with serving(tmp_path / "server", [review_run, reading]) as server:
        end = time.monotonic() + 4

        def ask(number: int) -> int:
            n = 0
            while time.monotonic() < end:
                model = ("run", "reading")[number % 2]
                assert server.predict("겨울은 추워요", model=model).status == 200
                n += 1
            return n

        with ThreadPoolExecutor(6) as pool:
            counts = list(pool.map(ask, range(6)))
        assert min(counts) > 0  # no model waits for ever
        turns = recorded(tmp_path, server)
    by_start = sorted((start, stop) for each in turns.values() for start, _, stop, _ in each)
    assert len(by_start) > 20
    for (_, stop), (start, _) in pairwise(by_start):
        assert stop <= start
    for each in turns.values():  # little is computed outside of the turns
        whole = each[-1][3] - each[0][1]
        inside = sum(stop - start for _, start, _, stop in each)
        assert inside > 0.6 * whole


def recorded(folder: Path, server: Server) -> dict[int, list[list[int]]]:
    """The turns of each computing process: wall clock and processor time of start and end."""
    files = {pid: folder / f"turns.{pid}" for pid in server.computing_pids()}
    assert len(files) == 2
    return {
        pid: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for pid, file in files.items()
    }
