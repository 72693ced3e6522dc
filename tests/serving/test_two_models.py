"""Two models under load: their thread pools never compute at the same time."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from jumok.serving.pipeline_engine import with_precision
from jumok.tasks.pipeline.outputs import to_json
from jumok.tasks.runs.load import load
from tests.serving.server_process import Server, serving

# Loaded by every Python process of the server: it records when a process has the turn, and whether
# it has it while it predicts. The first turn is taken before the first prediction.
RECORDER = """
import fcntl, functools, json, os, sys, time
before = fcntl.lockf
since, wrapped = None, False
def write(row):
    with open(os.environ["TURNS"] + f".{os.getpid()}", "a") as file:
        file.write(json.dumps(row) + chr(10))
def recorded(method):
    @functools.wraps(method)
    def predict(*args, **settings):
        write({"predicted in turn": since is not None})
        return method(*args, **settings)
    return predict
def lockf(fd, operation, length=0, start=0, *rest):
    global since, wrapped
    if start % 2 == 0 and operation == fcntl.LOCK_UN:
        write({"turn": [since, time.monotonic_ns()]})
        since = None
    before(fd, operation, length, start, *rest)
    if start % 2 == 0 and operation & fcntl.LOCK_EX:
        since = time.monotonic_ns()
        if not wrapped:
            wrapped, engine = True, sys.modules["jumok.serving.engine"].Engine
            for name in ("predict", "predict_batch"):
                setattr(engine, name, recorded(getattr(engine, name)))
fcntl.lockf = lockf
"""


def test_each_model_has_its_own_options(
    compiled: Path, review_run: Path, reading_run: Path, tmp_path: Path
) -> None:
    """A classifier with an int8 encoder, and a model that the native kernel decodes."""
    reading = tmp_path / "reading"
    reading.symlink_to(reading_run)
    native = ("kernel=native", "precision=int8")
    text = "겨울은 추워요"
    expected = {
        "run": to_json(with_precision(load(review_run), "int8")(text)),
        "reading": to_json(load(reading_run).with_decoding(native)(text)),
    }
    options = {"precision": ["run:int8"], "decoding": [f"reading:{each}" for each in native]}
    with serving(tmp_path / "server", [review_run, reading], **options) as server:
        for model, line in expected.items():
            assert line.encode() in server.predict(text, model=model).body


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
        rows = recorded(tmp_path, server)
    check_turns(rows)


def check_turns(rows: list[list[dict[str, Any]]]) -> None:
    """No two turns overlap, and all predictions are made in one."""
    turns = sorted(row["turn"] for each in rows for row in each if "turn" in row)
    assert len(turns) > 20
    for (_, stop), (start, _) in pairwise(turns):
        assert stop <= start
    for each in rows:
        in_turn = [row["predicted in turn"] for row in each if "turn" not in row]
        assert len(in_turn) > 10
        assert all(in_turn)


@pytest.mark.slow
def test_versions_of_a_model_compute_in_turns(
    compiled: Path, review_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that a reload starts warms up between the answers of the running one."""
    (tmp_path / "sitecustomize.py").write_text(RECORDER, encoding="utf-8")
    monkeypatch.setenv("TURNS", str(tmp_path / "turns"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with serving(tmp_path / "server", [review_run], precision="int8") as server:
        stop = threading.Event()

        def ask() -> int:
            n = 0
            while not stop.is_set():
                assert server.predict("겨울은 추워요").status == 200
                n += 1
            return n

        with ThreadPoolExecutor(2) as pool:
            counts = [pool.submit(ask) for _ in range(2)]
            assert server.request("/admin/reload", {}, timeout=600).status == 200
            stop.set()
            assert min(count.result() for count in counts) > 0
    files = list(tmp_path.glob("turns.*"))
    assert len(files) == 2
    check_turns([rows_of(file) for file in files])


def recorded(folder: Path, server: Server) -> list[list[dict[str, Any]]]:
    """What each computing process wrote: its turns, and whether it predicted in one."""
    files = [folder / f"turns.{pid}" for pid in server.computing_pids()]
    assert len(files) == 2
    return [rows_of(file) for file in files]


def rows_of(file: Path) -> list[dict[str, Any]]:
    """The rows of one process."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
