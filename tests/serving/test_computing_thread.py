"""A thread of the server that computes: its end, restart, and what it leaves in memory."""

import asyncio
import gc
import threading
import weakref
from pathlib import Path

import pytest

from jumok.serving import text_engine, worker
from jumok.serving.computing import ModelSource
from jumok.serving.computing_thread import ComputingThread
from jumok.serving.engine import Engine, EngineOptions
from jumok.serving.limits import Limits
from jumok.serving.logs import Log
from jumok.serving.service import ServedModel, gather_answers
from jumok.web.errors import RequestError

TEXT = "이 영화 정말 재미있어요"
PREDICT = {"kind": "predict"}


def source(run: Path | str, **options: object) -> ModelSource:
    found = EngineOptions(**options)  # type: ignore[arg-type]
    return ModelSource(name="model", folder=str(run), options=found, isolated=False)


async def predict(model: ServedModel, text: str = TEXT) -> str:
    (found,) = await gather_answers(model, model.submit(PREDICT, [text], 60.0))
    return found.payload.decode()


def test_a_thread_that_fails_is_replaced(
    compiled: Path,
    review_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its texts get 503, and nothing of them is written."""

    def fail(self: object) -> None:
        raise RuntimeError("secret")

    async def run() -> None:
        model = ServedModel([source(review_run)], Limits(), Log("text"))
        await model.start()
        expected = await predict(model)
        with monkeypatch.context() as patch:
            patch.setattr(worker.Worker, "_next_batch", fail)
            with pytest.raises(RequestError, match="what computes the model ended") as refused:
                await predict(model, "secret")
            assert refused.value.status == 503
        while not model.ready:
            await asyncio.sleep(0.01)
        assert await predict(model) == expected
        assert model.restarts == 1
        await model.close()

    asyncio.run(run())
    written = capsys.readouterr().err
    assert "RuntimeError: test_computing_thread.py" in written
    assert "secret" not in written


def test_a_thread_that_does_not_respond_is_left_behind(
    compiled: Path, review_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, answers = threading.Event(), worker.Worker._next_batch

    def wait(self: worker.Worker) -> object:
        hangs.wait(60)
        return answers(self)

    async def run() -> None:
        model = ServedModel([source(review_run)], Limits(stall_seconds=0.4), Log("text"))
        await model.start()
        with monkeypatch.context() as patch:
            patch.setattr(worker.Worker, "_next_batch", wait)
            with pytest.raises(RequestError, match="what computes the model ended"):
                await predict(model)
        while not model.ready:
            await asyncio.sleep(0.01)
        assert await predict(model)
        hangs.set()
        await model.close()

    asyncio.run(run())


def test_a_model_that_was_replaced_leaves_the_memory(
    compiled: Path, reading_run: Path, review_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one with reference cycles, which the server does not collect: it freezes them."""
    engines: list[weakref.ref[Engine]] = []
    find = text_engine.find_engine

    def found(*arguments: object) -> Engine | None:
        engine = find(*arguments)  # type: ignore[arg-type]
        assert engine is not None
        engines.append(weakref.ref(engine))
        return engine

    monkeypatch.setattr(text_engine, "find_engine", found)

    async def run(folder: Path) -> None:
        model = ServedModel([source(folder)], Limits(), Log("text"))
        await model.start()
        gc.freeze()
        before = await predict(model)
        await model.reload()
        assert await predict(model) == before
        while model._draining:
            await asyncio.sleep(0.01)
        assert [engine() is None for engine in engines] == [True, False]
        await model.close()

    try:
        for folder in (reading_run, review_run):
            engines.clear()
            asyncio.run(run(folder))
    finally:
        gc.unfreeze()


def test_what_pytorch_computes_has_no_thread(compiled: Path, review_run: Path) -> None:
    async def start(found: ModelSource) -> ComputingThread | None:
        return await ComputingThread.start(found, [])

    assert asyncio.run(start(source(review_run, traces=True))) is None
    assert asyncio.run(start(source("none"))) is None  # a process reports the reason


def test_constraints_are_refused_without_pytorch(
    compiled: Path, reading_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        model = ServedModel([source(reading_run)], Limits(), Log("text"))
        await model.start()
        monkeypatch.setattr("jumok.serving.service.is_installed", lambda _: False)
        for decoding, name in (
            ('{"pattern": "[0-9]+"}', "decoding.pattern"),
            ('{"prefix": "1"}', "decoding.prefix"),
        ):
            with pytest.raises(RequestError, match=f"{name} needs PyTorch") as refused:
                model.submit({**PREDICT, "decoding": decoding}, [TEXT], 60.0)
            assert (refused.value.status, refused.value.message.code) == (400, "server.needs_torch")
        (item,) = model.submit({**PREDICT, "decoding": '{"beam": 3}'}, ["삼 일"], 60.0)
        assert (await item.done).payload
        await model.close()

    asyncio.run(run())


def test_pytorch_of_another_version_is_refused(
    compiled: Path, reading_run: Path, review_run: Path
) -> None:
    """The folder has changed since the engine read it."""

    async def run() -> None:
        model = ServedModel([source(reading_run)], Limits(), Log("text"))
        await model.start()
        model.info["hash"] = "another"
        items = model.submit({**PREDICT, "decoding": '{"pattern": "[0-9]+"}'}, ["삼 일"], 60.0)
        with pytest.raises(RequestError, match="PyTorch cannot load the model") as refused:
            await gather_answers(model, items)
        assert refused.value.status == 503
        assert await predict(model, "삼 일")
        await model.close()

    asyncio.run(run())
