"""Reloads and restarts, with a process that is held while it loads: no result depends on time."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from jumok.serving.computing import ModelSource
from jumok.serving.limits import Limits
from jumok.serving.logs import Log
from jumok.serving.replies import RequestError
from jumok.serving.service import ServedModel
from tests.serving.server_process import Server, serving
from tests.serving.test_life import TEXT, copy_of, retrain, wait_until

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
    with serving(tmp_path / "server", [run]) as server:
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
    with serving(tmp_path / "server", [run]) as server:
        before, pids = server.predict(TEXT), server.computing_pids()
        path = run / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["labels"] = config["labels"][::-1]
        path.write_text(json.dumps(config), encoding="utf-8")
        reply = server.request("/admin/reload", {})
        assert reply.status == 409
        assert "the labels of the running one" in reply.error["message"]
        assert server.predict(TEXT).body == before.body
        assert server.computing_pids() == pids


@pytest.mark.slow
def test_the_hash_names_the_labels_too(review_run: Path, tmp_path: Path) -> None:
    from jumok.serving.engine import Engine, EngineOptions
    from jumok.serving.merging import JobHub

    run = copy_of(review_run, tmp_path, "model")
    first = Engine(str(run), EngineOptions(), JobHub()).hash
    assert Engine(str(review_run), EngineOptions(), JobHub()).hash == first
    path = run / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["labels"] = config["labels"][::-1]
    path.write_text(json.dumps(config), encoding="utf-8")
    assert Engine(str(run), EngineOptions(), JobHub()).hash != first


def test_a_reload_before_the_first_version_is_refused() -> None:
    model = ServedModel([ModelSource(name="none", folder="none")], Limits(), Log("text"))
    with pytest.raises(RequestError, match="the model is loading; try again") as refused:
        asyncio.run(model.reload())
    assert refused.value.status == 503
    assert not psutil.Process().children()


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

    with pytest.raises(JumokError, match=r"none cannot be started \(Too many open files\); free"):
        asyncio.run(start())
