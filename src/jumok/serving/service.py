"""The served models: what computes for them, restarts, reloads, and answers to texts."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jumok.config_io import from_dict
from jumok.decoding.config import DecodingConfig
from jumok.errors import InputError, JumokError, Message
from jumok.extras import is_installed
from jumok.native.decoder_session import unsupported_setting
from jumok.serving.computing import Computing, ComputingProcess, ModelSource
from jumok.serving.computing_thread import ComputingThread
from jumok.serving.engine import decoding_overrides
from jumok.serving.limits import Limits
from jumok.serving.logs import Log
from jumok.serving.scheduler import Answer, GenerationCost, Item, ModelQueue, Speed
from jumok.web.errors import RequestError
from jumok.web.requests import ClientGone

BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.05, 10.0
STABLE_SECONDS = 30.0  # of life, after which the backoff starts again
PING_SECONDS = 5.0
KINDS = ("task", "labels", "paired")  # what all versions of a model have in common
DRAIN_POLL_SECONDS = 0.02


@dataclass
class Served:
    """What a request was answered with, for its log line and the metrics."""

    id: str = ""
    model: str = ""
    texts: int = 0


SERVED: ContextVar[Served] = ContextVar("served")  # of the request that the task answers


class ServedModel:
    """A model by its name: a thread of the server or computing processes, and their queue.

    What the engine of a thread does not compute, such as patterns, is computed by PyTorch: by a
    process that is started for the first such text, with a queue of its own.
    """

    def __init__(self, sources: Sequence[ModelSource], limits: Limits, log: Log) -> None:
        self.sources, self.limits, self._log = sources, limits, log
        self.name = sources[0].name
        self.info: dict[str, Any] = {}
        self.queue = ModelQueue(limits, generates=False, speed=1.0)
        self.restarts = self.reloads = 0
        self.reason = "the model is loading"  # why it does not answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()
        self._generation = 0  # of reloads: a restart that began before the newest one is dropped
        self._draining: set[Computing] = set()  # replaced, with texts that they compute
        self._torch: ServedModel | None = None  # computes what the engine does not
        self._ending = self._closed = False

    @property
    def ready(self) -> bool:
        """Whether the model is loaded and warm."""
        return bool(self.queue.processes)

    @property
    def queues(self) -> list[ModelQueue]:
        """Its queue, and that of PyTorch."""
        return [self.queue, *(self._torch.queues if self._torch is not None else ())]

    @property
    def idle(self) -> bool:
        """Whether no text waits or is computed."""
        return all(queue.idle for queue in self.queues)

    @property
    def hash(self) -> str:
        """The hash of the newest weights."""
        return str(self.info.get("hash", ""))

    async def start(self, version: str = "") -> None:
        """Load the model. Raises JumokError if it cannot be loaded, or has not this version."""
        processes = await _start_all(self.sources, [])
        if version not in ("", processes[0].info["hash"]):
            await _close_all(processes)
            raise _other_version()
        self._log("ready", model=self.name, hash=processes[0].info["hash"])
        info = processes[0].info
        self.info = info
        self.queue.generates = info["generates"]
        self.queue.speed = Speed(1 / max(info["seconds_per_byte"], 1e-9))
        self.queue.cost = generation_cost(info)
        for source, process in zip(self.sources, processes, strict=True):
            self._adopt(source, process)
        self._spawn(self._watch_stalls())
        self.queue.pump()

    def refuse(self) -> None:
        """Accept no more texts: the server ends."""
        self._ending = True

    async def close(self) -> None:
        """End all at once, also what computes."""
        self._closed = True
        if self._torch is not None:
            await self._torch.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        processes, self.queue.processes = [*self.queue.processes, *self._draining], []
        for process in processes:
            process.kill()
        await _close_all(processes)

    async def reload(self) -> dict[str, Any]:
        """Load the folder again while the running version answers, compare, switch, drain.

        Raises JumokError, and the running version stays, if the new one cannot be loaded, has
        another task, or its answers are not finite; RequestError 503 before the first version.
        """
        if not self.info:
            raise self.unavailable()
        if self._reloading.locked():
            raise InputError(
                "server.reload_in_progress",
                "a reload of {value} must end before the next one; send the request later",
                value=self.name,
            )
        async with self._reloading:
            started = time.monotonic()
            processes = await _start_all(self.sources, self.info.get("examples", []))
            info = processes[0].info
            if any(info[key] != self.info[key] for key in KINDS):
                await _close_all(processes)
                raise InputError(
                    "server.other_task_or_labels",
                    "the new version must have the task and the labels of the running one; start "
                    "another server for it",
                )
            before, self.queue.processes = self.queue.processes, []
            former, self.info = self.info, info
            self._generation += 1
            self.reloads += 1
            self.queue.cost = generation_cost(info)
            for source, process in zip(self.sources, processes, strict=True):
                self._adopt(source, process)
            self.queue.pump()
            if self._torch is not None:  # it computes with the former version
                self.queue.cancelled += self._torch.queue.cancelled
                self._spawn(self._torch.drain())
                self._torch = None
            for process in before:
                self._draining.add(process)
                self._spawn(self._drain(process))
            result = {
                "model": self.name,
                "hash": info["hash"],
                "former_hash": former["hash"],
                "agreement": info["agreement"],
                "seconds": round(time.monotonic() - started, 3),
            }
            self._log("reload", **result)
            return result

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _adopt(self, source: ModelSource, process: Computing) -> None:
        queue = self.queue
        self.queue.processes.append(process)
        process.listen(
            lambda message, payload: queue.on_frame(process, message, payload), queue.pump
        )
        self._spawn(self._watch(source, process, self._generation))

    async def drain(self) -> None:
        """Let all texts finish, then end."""
        while not self.idle:
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        await self.close()

    async def _drain(self, process: Computing) -> None:
        """Let what is replaced finish its texts, then end it."""
        while self.queue.busy(process) and not process.lost.is_set():
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        await process.close()
        self._draining.discard(process)

    async def _watch(self, source: ModelSource, process: Computing, generation: int) -> None:
        """Restart a process that is lost, after a pause that doubles with each failure.

        Only with the version that runs: a folder that has changed needs a reload.
        """
        adopted = time.monotonic()
        await process.lost.wait()
        if process.closed:  # replaced by a reload
            return
        current = process in self.queue.processes
        if current:
            self.queue.processes.remove(process)
            self.reason = "what computes the model ended and is started again"
        self.queue.fail(process, self.unavailable())
        self._log("lost", model=self.name, pid=process.pid)
        await process.close()
        pause = BACKOFF_SECONDS
        while current and not self._closed and generation == self._generation:
            self.restarts += 1
            if time.monotonic() - adopted < STABLE_SECONDS:
                await asyncio.sleep(pause)
            try:
                replacement = await _start(source, [])
                if generation != self._generation:  # a reload has replaced this process
                    await replacement.close()
                    return
                if replacement.info["hash"] != self.hash:
                    await replacement.close()
                    raise _other_version()
            except JumokError as error:
                self.reason = "the model cannot be loaded again; see the log"
                self._log("failed", model=self.name, message=str(error)[:400])
                pause = min(2 * pause, MAX_BACKOFF_SECONDS)
                adopted = time.monotonic()
                continue
            self._adopt(source, replacement)
            self._log("restarted", model=self.name, pid=replacement.pid)
            self.queue.pump()
            return

    async def _watch_stalls(self) -> None:
        """Kill each process that has not answered a ping for too long.

        Intervals are counted: if this process was stopped for a while, so were the others.
        """
        pause = min(PING_SECONDS, self.limits.stall_seconds / 4)
        while True:
            await asyncio.sleep(pause)
            for process in (*self.queue.processes, *self._draining):
                if process.unanswered_seconds >= self.limits.stall_seconds:
                    self._log("stalled", model=self.name, pid=process.pid)
                    process.kill()
                else:
                    process.unanswered_seconds += pause
                    process.send({"op": "ping"})

    def unavailable(self) -> RequestError:
        """The error while no process is ready."""
        return RequestError(
            "request.unavailable",
            "{reason}; try again",
            status=503,
            retry_after=2,
            reason=self.reason,
        )

    def submit(
        self,
        message: dict[str, Any],
        texts: Sequence[str],
        seconds: float,
        on_text: Callable[[bytes], None] | None = None,
        *,
        accepted: bool = False,
    ) -> list[Item]:
        """Queue the texts of a request, or of one that was accepted and is computed again.

        Raises RequestError 429 or 503.
        """
        served = SERVED.get(Served())
        served.model, served.texts = self.name, served.texts + len(texts)
        if self._ending and not accepted:
            raise RequestError(
                "request.shutting_down",
                "the server shuts down; send it to another one",
                status=503,
                retry_after=1,
            )
        if not self.ready:
            raise self.unavailable()
        deadline = time.monotonic() + seconds
        reason = unsupported(self.info, message)
        queue = self.queue if reason is None else self._queue_of_torch(reason)
        return queue.submit(message, texts, deadline, on_text, accepted=accepted)

    def cancel(self, items: Sequence[Item]) -> None:
        """Drop texts of one request, whose client left."""
        if items:
            items[0].queue.cancel(items)

    def _queue_of_torch(self, reason: Message) -> ModelQueue:
        """The queue of PyTorch, which is started if it does not run.

        Raises RequestError 400 with the reason where PyTorch is not installed.
        """
        if not is_installed("torch"):
            raise RequestError.of(reason)
        if self._torch is None:
            options = replace(self.sources[0].options, torch=True)
            source = replace(self.sources[0], options=options, isolated=True)
            self._torch = ServedModel([source], self.limits, self._log)
            queue = self._torch.queue
            queue.generates, queue.cost, queue.work = True, self.queue.cost, self.queue.work
            queue.speed.value = self.queue.speed.value  # until its own is measured
            self._spawn(self._start_torch(self._torch))
        return self._torch.queue

    async def _start_torch(self, model: "ServedModel") -> None:
        """Load a model for PyTorch, or fail the texts that wait for it."""
        try:
            await model.start(version=self.hash)
        except JumokError as error:
            self._log("failed", model=self.name, message=str(error)[:400])
            model.reason = "PyTorch cannot load the model; see the log"
            model.queue.fail(None, model.unavailable())
            if self._torch is model:
                self._torch = None
            await model.close()

    async def version(self, item: Item) -> str:
        """The hash of the version that computes a text, as soon as its process is chosen.

        Raises ClientGone if the client leaves before.
        """
        while item.process is None and not item.done.done():
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        if item.process is None and item.done.cancelled():
            raise ClientGone
        return self.hash if item.process is None else str(item.process.info["hash"])


def generation_cost(info: Mapping[str, Any]) -> GenerationCost | None:
    """What the speed of a model that generates was measured with."""
    found = info.get("generation")
    return GenerationCost(found["beam"], max(found["tokens"], 1.0)) if found else None


def unsupported(info: Mapping[str, Any], message: Mapping[str, Any]) -> Message | None:
    """Why the engine of a model does not compute a request; None if it does, or there is none.

    >>> from jumok.config_io import to_dict
    >>> info = {"decoding": to_dict(DecodingConfig()), "translates": True}
    >>> unsupported(info, {"kind": "predict", "decoding": '{"beam": 4}'})
    >>> print(unsupported(info, {"kind": "predict", "decoding": '{"prefix": "A"}'}))
    decoding.prefix needs PyTorch, which the server has not installed; leave it out
    """
    if "decoding" not in info or message["kind"] == "embed":
        return None
    if message["kind"] == "complete":  # of other models it is an error
        return None if info["translates"] else _needs_torch("token ids, logprobs or max_tokens = 0")
    if not message.get("decoding"):
        return None
    changes = decoding_overrides(json.loads(message["decoding"]))
    try:
        config = from_dict(DecodingConfig, info["decoding"], "decoding").overridden(changes)
    except InputError:  # the engine raises it
        return None
    name = unsupported_setting(config)
    return None if name is None else _needs_torch(f"decoding.{name}")


def _needs_torch(what: str) -> Message:
    return Message(
        "server.needs_torch",
        "{what} needs PyTorch, which the server has not installed; leave it out",
        what=what,
    )


def _other_version() -> InputError:
    return InputError(
        "server.folder_of_other_version",
        "the folder must be that of the running version, got another one; reload the model",
    )


async def _close_all(processes: Sequence[Computing]) -> None:
    await asyncio.gather(*(process.close() for process in processes))


async def _start(source: ModelSource, answers: list[str]) -> Computing:
    """A thread for what the engine computes, if it need not be isolated; else a process."""
    thread = None if source.isolated else await ComputingThread.start(source, answers)
    return thread or await ComputingProcess.start(source, answers)


async def _start_all(sources: Sequence[ModelSource], answers: list[str]) -> list[Computing]:
    """What computes each source; if one fails, or has another version, the others are ended."""
    starts = (_start(source, answers) for source in sources)
    found = await asyncio.gather(*starts, return_exceptions=True)
    started = [each for each in found if not isinstance(each, BaseException)]
    for each in found:
        if isinstance(each, BaseException):
            await _close_all(started)
            raise each
    if len({process.info["hash"] for process in started}) > 1:
        await _close_all(started)
        raise InputError(
            "server.folder_changed",
            "the folder of {sources} must not change while it is loaded; load it again",
            sources=sources[0].name,
        )
    return started


@dataclass
class Service:
    """All models by name; the first one answers requests that name none."""

    models: Mapping[str, ServedModel]
    draining: bool = False

    @property
    def ready(self) -> bool:
        """Whether every model answers and the server is not ending."""
        return not self.draining and all(model.ready for model in self.models.values())

    @property
    def idle(self) -> bool:
        """Whether no text waits or is computed."""
        return all(model.idle for model in self.models.values())

    def model(self, name: object = None) -> ServedModel:
        """A model by its name. Raises RequestError 404."""
        if name is None:
            return next(iter(self.models.values()))
        found = self.models.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(self.models)
            raise RequestError(
                "request.unknown_model",
                "model must be one of {known}",
                status=404,
                param="model",
                known=known[:400],
            )
        return found

    def model_that(
        self, property_name: str, what: str, name: object = None, *, preferred: str = ""
    ) -> ServedModel:
        """The named model, or the first one with a property. Raises RequestError.

        Among those with the property, one with the property `preferred` takes precedence.
        """
        if name is None:
            models = list(self.models.values())
            suitable = [model for model in models if model.info.get(property_name)]
            best = [model for model in suitable if model.info.get(preferred)]
            loading = [model for model in models if not model.info]
            if preferred and not best and loading:  # the answer must not depend on the start
                raise loading[0].unavailable()
            if best or suitable:
                return (best or suitable)[0]
        model = self.model(name)
        if model.ready and not model.info[property_name]:
            raise RequestError(
                "request.unsuitable_model",
                "the model must {what}; see /v1/models",
                param="model",
                what=what,
            )
        return model

    async def start(self) -> None:
        """Load all models side by side."""
        await asyncio.gather(*(model.start() for model in self.models.values()))

    def refuse(self) -> None:
        """Accept no more texts: the server ends."""
        for model in self.models.values():
            model.refuse()

    async def close(self) -> None:
        """End all computing processes."""
        await asyncio.gather(*(model.close() for model in self.models.values()))

    async def reload(self, name: object = None) -> list[dict[str, Any]]:
        """Reload one model, or all of them one after another."""
        models = list(self.models.values()) if name is None else [self.model(name)]
        return [await model.reload() for model in models]


async def gather_answers(model: ServedModel, items: Sequence[Item]) -> list[Answer]:
    """The answers of all texts of a request; the others are dropped if one fails."""
    try:
        return [await item.done for item in items]
    except RequestError as error:
        items[0].queue.cancel(items, error)
        raise
    finally:
        model.cancel(items)
        for item in items:  # marks errors as read
            if item.done.done() and not item.done.cancelled():
                item.done.exception()


def unique_names(folders: Sequence[str]) -> list[str]:
    """The name of each model: the last part of its folder. Raises InputError for equal ones.

    >>> unique_names(["runs/nsmc", "runs/koen/"])
    ['nsmc', 'koen']
    """
    names = [Path(folder).absolute().name or folder for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                "server.model_name_twice",
                "served models must have different names, got {name} twice",
                name=name,
            )
    return names
