"""Reloads and restarts, with a process that is held while it loads: no result depends on time."""

import asyncio
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from starlette.requests import Request
from starlette.types import Message

from jumok import errors
from jumok.serving.computing import ModelSource
from jumok.serving.limits import Limits
from jumok.serving.logs import Log
from jumok.serving.routes import answer
from jumok.serving.service import ServedModel, gather_answers
from jumok.tasks.pipeline.outputs import to_json
from jumok.threads import compute_threads
from jumok.web.errors import RequestError
from jumok.web.requests import ClientGone
from tests.errors import raises
from tests.serving.server_process import Server, served, serving
from tests.serving.test_life import TEXT, copy_of, retrain, wait_until
from tests.serving.test_scheduler import Recorder, finish
from tests.tiny_runs import reviews

# Loaded by every Python process of the server: while the file in HOLD exists, the first process
# that reads weights is held there.
HOLDER = """
import hashlib, os, time
digest = hashlib.file_digest
def held(*args):
    path = os.environ["HOLD"]
    try:
        if os.path.exists(path):
            os.close(os.open(path + ".pid", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            while os.path.exists(path):
                time.sleep(0.01)
    except FileExistsError:
        pass
    return digest(*args)
hashlib.file_digest = held
"""


class Hold:
    """Holds the next process that loads, until `release`."""

    def __init__(self, path: Path) -> None:
        self._path, self._taken = path, path.with_name(f"{path.name}.pid")

    def begin(self) -> None:
        self._taken.unlink(missing_ok=True)
        self._path.touch()

    @property
    def holds(self) -> bool:
        """Whether a process is held."""
        return self._taken.exists()

    def release(self) -> None:
        self._path.unlink(missing_ok=True)


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    (tmp_path / "sitecustomize.py").write_text(HOLDER, encoding="utf-8")
    monkeypatch.setenv("HOLD", str(tmp_path / "hold"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    found = Hold(tmp_path / "hold")
    yield found
    found.release()


def log_of(server: Server) -> str:
    return server.log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_models_answer_while_one_of_them_loads(
    review_run: Path, reading_run: Path, tmp_path: Path, hold: Hold
) -> None:
    reading = tmp_path / "reading"
    reading.symlink_to(reading_run)
    with (
        serving(tmp_path / "server", [review_run, reading]) as server,
        ThreadPoolExecutor() as pool,
    ):
        hold.begin()
        reload = pool.submit(server.request, "/admin/reload", {"model": "run"}, timeout=600)
        wait_until(lambda: hold.holds)
        for model in ("run", "reading"):
            assert server.predict("삼 일 오", model=model).status == 200
        assert not reload.done()
        hold.release()
        assert reload.result().status == 200


@pytest.mark.slow
def test_a_restart_that_a_reload_overtakes_is_dropped(
    review_run: Path, tmp_path: Path, hold: Hold
) -> None:
    run = copy_of(review_run, tmp_path, "model")
    with serving(tmp_path / "server", [run], workers=2) as server:
        first = server.predict(TEXT).json["hash"]
        hold.begin()
        os.kill(server.computing_pids()[0], signal.SIGKILL)
        wait_until(lambda: hold.holds)
        assert server.predict(TEXT).json["hash"] == first  # by the other process
        retrain(run)
        reply = server.request("/admin/reload", {}, timeout=600)
        assert reply.status == 200, reply.body
        hold.release()
        wait_until(lambda: len(server.computing_pids()) == 2)
        assert server.predict(TEXT).json["hash"] == reply.json["reloaded"][0]["hash"] != first
        assert "restarted" not in log_of(server)


@pytest.mark.slow
def test_a_restart_refuses_a_folder_that_has_changed(review_run: Path, tmp_path: Path) -> None:
    run = copy_of(review_run, tmp_path, "model")
    with serving(tmp_path / "server", [run], workers=1) as server:
        first = server.predict(TEXT).json["hash"]
        retrain(run)
        os.kill(server.computing_pids()[0], signal.SIGKILL)
        wait_until(lambda: "got another one; reload the model" in log_of(server))
        assert server.predict(TEXT).status == 503
        reply = server.request("/admin/reload", {}, timeout=600)
        assert reply.status == 200, reply.body
        assert server.predict(TEXT).json["hash"] != first
        wait_until(lambda: len(server.computing_pids()) == 1)
        assert "restarted" not in log_of(server)


@pytest.mark.slow
def test_a_version_with_other_labels_is_refused_and_its_process_ended(
    review_run: Path, tmp_path: Path
) -> None:
    run = copy_of(review_run, tmp_path, "model")
    with serving(tmp_path / "server", [run], workers=1) as server:
        before, pids = server.predict(TEXT), server.computing_pids()
        path = run / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["labels"] = config["labels"][::-1]
        del config["labels_sha256"]  # as in a run of its own
        path.write_text(json.dumps(config), encoding="utf-8")
        reply = server.request("/admin/reload", {})
        assert reply.status == 409
        assert "the labels of the running one" in reply.error["message"]
        assert server.predict(TEXT).body == before.body
        assert server.computing_pids() == pids


def test_a_reload_before_the_first_version_is_refused() -> None:
    before = psutil.Process().children()
    model = ServedModel([ModelSource(name="none", folder="none")], Limits(), Log("text"))
    with pytest.raises(RequestError, match="the model is loading; try again") as refused:
        asyncio.run(model.reload())
    assert refused.value.status == 503
    assert set(psutil.Process().children()) <= set(before)


def test_a_process_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    from jumok.errors import JumokError

    model = ServedModel([ModelSource(name="none", folder="none")], Limits(), Log("text"))

    async def start() -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            await model.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with raises(JumokError, "server.process_not_started"):
        asyncio.run(start())


@pytest.mark.slow
def test_two_workers(review_run: Path, tmp_path: Path, hold: Hold) -> None:
    """One is lost, one is stopped, both are reloaded: the other one answers meanwhile."""
    limits = {"stall_seconds": 8.0}
    with serving(tmp_path / "server", [review_run], workers=2, limits=limits) as server:
        expected = server.predict(TEXT).body
        first, second = server.computing_pids()
        hold.begin()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: hold.holds)
        for _ in range(5):
            assert server.predict(TEXT).body == expected
        hold.release()
        wait_until(lambda: log_of(server).count("restarted") == 1)
        (third,) = {*server.computing_pids()} - {second}
        os.kill(second, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(lambda _: server.predict(TEXT), range(12)))
        lost = [reply for reply in replies if reply.status != 200]
        assert len(lost) <= 4  # those that the stopped process was given
        assert {reply.status for reply in lost} <= {503}
        wait_until(lambda: log_of(server).count("restarted") == 2)
        assert f"pid={second}" in next(
            line for line in log_of(server).splitlines() if "stalled" in line
        )
        assert log_of(server).count("stalled") == 1
        assert third in server.computing_pids()
        assert server.predict(*[TEXT] * 20).status == 200
        assert server.request("/admin/reload", {}, timeout=600).status == 200
        wait_until(lambda: not {second, third} & {*server.computing_pids()})
        wait_until(lambda: len(server.computing_pids()) == 2)
        assert server.predict(TEXT).body == expected


@pytest.mark.slow
def test_each_request_is_answered_by_one_version_during_reloads(
    review_run: Path, tmp_path: Path
) -> None:
    versions = [copy_of(review_run, tmp_path, name) for name in ("first", "second")]
    retrain(versions[1])
    texts = [text for text, _ in reviews(12, 5)]
    before = torch.get_num_threads()
    torch.set_num_threads(compute_threads())  # the sums of PyTorch depend on it
    expected = [[to_json(served(version)(text)) for text in texts] for version in versions]
    torch.set_num_threads(before)
    assert expected[0] != expected[1]
    run = copy_of(review_run, tmp_path, "model")
    with serving(tmp_path / "server", [run], limits={"max_wait": 60.0}) as server:
        stop = threading.Event()
        found: list[tuple[str, list[Any]]] = []

        def ask() -> None:
            while not stop.is_set():
                reply = server.predict(*texts)
                assert reply.status == 200, reply.body
                found.append((reply.json["hash"], reply.json["answers"]))

        hashes = [server.predict(TEXT).json["hash"]]
        with ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(ask) for _ in range(3)]
            for number in range(1, 4):
                n = len(found)
                for name in ("model.safetensors", "config.json"):
                    shutil.copy(versions[number % 2] / name, run / name)
                reply = server.request("/admin/reload", {}, timeout=600)
                assert reply.status == 200, reply.body
                hashes.append(reply.json["reloaded"][0]["hash"])
                wait_until(lambda n=n: len(found) > n + 6)
            stop.set()
            for future in futures:
                future.result()
    assert hashes[0] == hashes[2] != hashes[1] == hashes[3]
    lines = [[json.loads(line) for line in each] for each in expected]
    by_hash = dict(zip(hashes[:2], lines, strict=True))
    assert {version for version, _ in found} == set(by_hash)
    for version, answers in found:
        assert answers == by_hash[version]


def test_texts_of_the_former_version_are_computed_again() -> None:
    """A reload happens between two texts of a request."""

    async def run() -> None:
        model = ServedModel([ModelSource(name="m", folder="m")], Limits(), Log("text"))
        old, new = Recorder(info={"hash": "old"}), Recorder(info={"hash": "new"})
        queue = model.queue
        queue.speed.value = 1e6
        queue.processes.append(old)  # type: ignore[arg-type]
        scope = {"type": "http", "headers": []}
        never_leaves = asyncio.Event()

        async def receive() -> Message:
            await never_leaves.wait()
            return {"type": "http.disconnect"}

        texts = ["1" * 60_000, "2" * 60_000]  # the second one waits for the first
        answers = asyncio.create_task(
            answer(Request(scope, receive), model, {}, texts, Limits(), "texts")
        )
        await asyncio.sleep(0)
        queue.processes[:], model.info = [new], {"hash": "new"}  # type: ignore[list-item]
        finish(queue, old, 0)
        finish(queue, new, 0)
        while len(new.sent) < 2:
            await asyncio.sleep(0)
        assert [payload[:1] for _, payload in (*old.sent, *new.sent)] == [b"1", b"2", b"1"]
        finish(queue, new, 1)
        assert [each.hash for each in await answers] == ["new", "new"]

    asyncio.run(run())


def test_a_text_that_is_dropped_with_its_request_is_not_of_a_client_that_left() -> None:
    async def run() -> None:
        model = ServedModel([ModelSource(name="m", folder="m")], Limits(), Log("text"))
        recorder = Recorder()
        model.queue.processes.append(recorder)  # type: ignore[arg-type]
        items = model.submit({}, ["a", "b"], 100.0)
        message = errors.Message("text.wrong", "wrong").to_json()
        error = {"op": "error", "id": items[0].number, "status": 400, "message": message}
        model.queue.on_frame(recorder, error, b"")  # type: ignore[arg-type]
        with pytest.raises(RequestError, match="wrong"):
            await gather_answers(model, items)
        assert model.queue.idle
        assert model.queue.cancelled == 0
        assert recorder.sent[-1][0] == {"op": "cancel", "id": items[1].number}

    asyncio.run(run())


def test_a_stream_is_named_by_the_version_that_computes_it() -> None:
    """It waits for the running version, which a reload replaces."""

    async def run() -> None:
        model = ServedModel([ModelSource(name="m", folder="m")], Limits(), Log("text"))
        model.info = {"hash": "old"}
        old, new = Recorder(info={"hash": "old"}), Recorder(info={"hash": "new"})
        model.queue.processes.append(old)  # type: ignore[arg-type]
        texts = ["1" * 60_000, "2", "3" * 60_000]
        first, second, third = model.submit({}, texts, 100.0)
        assert await model.version(first) == "old"
        version = asyncio.create_task(model.version(second))
        await asyncio.sleep(0)
        model.queue.processes[:] = [new]  # type: ignore[list-item]
        model.queue.pump()
        assert await version == "new"
        gone = asyncio.create_task(model.version(third))
        await asyncio.sleep(0)
        model.queue.cancel([first, second, third])
        with pytest.raises(ClientGone):
            await gone

    asyncio.run(run())
