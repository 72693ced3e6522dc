"""What computes the answers of a model, in a thread of the server or in a process of its own.

    python -m jumok.serving.worker FD

FD is one end of a socket pair. The first frame is `load`; the answer is `ready` or `failed`. Then
any number of `run`, `cancel` and `ping`; each `run` is answered by one `done` or `error`, after
`text` frames when it streams. The end of the connection ends the process. A thread of the server
has the same messages in a queue.
"""

import gc
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from jumok.errors import InputError, JumokError, Message
from jumok.serving.engine import Engine, EngineOptions, agreement, open_engine
from jumok.serving.frames import BATCH_WORK, TEXT_WORK, WORK, FrameSocket
from jumok.serving.logs import location
from jumok.tasks.pipeline.outputs import GeneratedText, Output, to_json

WARM_ROUNDS = 3
HEARTBEAT_SECONDS = 1.0  # between two frames of a process that loads


class Channel(Protocol):
    """The messages between the server and what computes."""

    def receive(self, *, wait: bool) -> list[tuple[dict[str, Any], bytes]]:
        """The messages that have arrived; with `wait` at least one. Raises EOFError at the end."""

    def send(self, message: Mapping[str, Any], payload: bytes = b"", /) -> None:
        """Collect a message for the next `flush`."""

    def flush(self) -> None:
        """Send the collected messages."""


class Work:
    """Counts of texts, tokens and batches, and the seconds of computing.

    >>> work = Work()
    >>> with work.timed():
    ...     work.add(5)
    >>> counts = work.take()
    >>> counts["texts"], counts["tokens"], counts["batches"]
    (1, 5, 1)
    >>> work.take()["batches"]
    0
    """

    def __init__(self) -> None:
        self._counts: dict[str, float] = dict.fromkeys(WORK, 0)

    def add(self, tokens: int, new_tokens: int = 0) -> None:
        """One answered text."""
        for key, value in (("texts", 1), ("tokens", tokens), ("new_tokens", new_tokens)):
            self._counts[key] += value

    @contextmanager
    def timed(self) -> Iterator[None]:
        """One batch."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._counts["batches"] += 1
            self._counts["seconds"] += time.perf_counter() - started

    def take(self) -> dict[str, float]:
        """What has been added since the last call."""
        found, self._counts = self._counts, dict.fromkeys(WORK, 0)
        return found


class Worker:
    """Answers the messages of the server."""

    def __init__(self, channel: Channel, engine: Engine) -> None:
        self._channel, self._jobs, self._engine = channel, engine.jobs, engine
        self._texts: dict[int, tuple[dict[str, Any], str]] = {}  # wait for the next batch
        self._work = Work()  # since the last frame that reported it

    def run(self) -> None:
        """Answer messages until their end, which raises EOFError."""
        with self._engine.counting_tokens():
            while True:
                self._read()
                self._channel.flush()
                if self._texts:
                    with self._work.timed():
                        self._answer_batch(self._next_batch())
                if self._jobs:
                    with self._work.timed():
                        self._jobs.step()
                self._channel.flush()

    def _read(self) -> None:
        """Read what has arrived, and start texts that are not computed in batches."""
        for message, payload in self._channel.receive(wait=not self._texts and not self._jobs):
            if message["op"] == "run":
                if message["kind"] in self._engine.batched:
                    self._texts[message["id"]] = message, payload.decode()
                    continue
                self._channel.flush()  # the answers before this one
                with self._work.timed():
                    self._start(message, payload.decode())
            elif message["op"] == "cancel":
                if self._texts.pop(message["id"], None) is None:
                    self._jobs.cancel(message["id"])
            elif message["op"] == "ping":
                self._channel.send({"op": "pong"})

    def _next_batch(self) -> list[tuple[dict[str, Any], str]]:
        """The texts of one kind that came first: at least one, and not more work than a batch."""
        batch: list[tuple[dict[str, Any], str]] = []
        work = 0
        for number, (message, text) in list(self._texts.items()):
            if batch and _kind(message) != _kind(batch[0][0]):
                continue
            work += len(text.encode()) + TEXT_WORK
            if batch and work > BATCH_WORK:
                break
            batch.append((message, text))
            del self._texts[number]
        return batch

    def _answer_batch(self, batch: Sequence[tuple[dict[str, Any], str]]) -> None:
        """Answer texts together; if that fails, each alone, so that only a wrong one fails."""
        texts = [text for _, text in batch]
        kind, normalize, ids, prompt_name = _kind(batch[0][0])
        found: list[bytes]
        try:
            if kind == "embed":
                found = self._engine.embed_batch(
                    texts, bool(normalize), ids=ids, prompt_name=prompt_name
                )
            else:
                found = [line.encode() for line in self._engine.predict_batch(texts)]
            for (message, text), payload in zip(batch, found, strict=True):
                self._done(message, self._counts(message, text), payload)
        except Exception as error:
            if len(batch) > 1:
                for each in batch:
                    self._answer_batch([each])
                return
            self._channel.send(
                {"op": "error", "id": batch[0][0]["id"], **describe_error(error, given(*batch[0]))}
            )

    def _done(self, message: dict[str, Any], header: dict[str, Any], payload: bytes) -> None:
        """Send an answer, with the work since the last one."""
        work = self._work.take()
        self._channel.send({"op": "done", "id": message["id"], **header, "work": work}, payload)

    def _start(self, message: dict[str, Any], text: str) -> None:
        number = message["id"]

        def job() -> None:
            try:
                header, payload = self._answer(message, text)
                self._done(message, header, payload)
            except Exception as error:
                described = describe_error(error, given(message, text))
                self._channel.send({"op": "error", "id": number, **described})

        self._jobs.start(number, job)

    def _answer(self, message: dict[str, Any], text: str) -> tuple[dict[str, Any], bytes]:
        engine, kind = self._engine, message["kind"]
        decoding = message.get("decoding", "")
        if kind == "embed":
            _, normalize, ids, prompt_name = _kind(message)
            vector = engine.embed(text, bool(normalize), ids=ids, prompt_name=prompt_name)
            return self._counts(message, text), vector
        if kind == "trace":
            return {}, engine.trace(text)

        def emit(part: str) -> None:
            if kind == "stream" or message.get("stream"):
                self._channel.send({"op": "text", "id": message["id"]}, part.encode())

        if kind == "complete":
            return engine.complete(message, text, emit)
        if kind == "stream":
            output = engine.stream(text, decoding, emit)
        else:
            sentences = message.get("sentences", False)
            output = engine.output(text, decoding, sentences=sentences)
        return self._counts(message, text, output), to_json(output).encode()

    def _counts(
        self, message: dict[str, Any], text: str, output: Output | None = None
    ) -> dict[str, Any]:
        """The tokens of a text and of its answer, where a route reports them; all are added up.

        Generated tokens include [EOS].
        """
        engine, ids = self._engine, message.get("ids", False)
        count = engine.count_embedded if message["kind"] == "embed" else engine.count_tokens
        counts: dict[str, Any] = {}
        if not isinstance(output, GeneratedText):
            counts["tokens"] = count(text, ids=ids)
        else:
            counts["tokens"] = engine.count_prompt(text, output)
            counts["new_tokens"] = len(output.tokens)
            counts["finish_reason"] = output.finish_reason
        self._work.add(counts["tokens"], counts.get("new_tokens", 0))
        return counts if message.get("count") else {}


def _kind(message: dict[str, Any]) -> tuple[str, bool | None, bool, str]:
    """What the texts of a batch have in common: kind, normalize, ids, prompt_name."""
    return (
        message["kind"],
        message.get("normalize"),
        message.get("ids", False),
        message.get("prompt_name", ""),
    )


def given(message: dict[str, Any], text: str) -> list[str]:
    """The texts of a request: its text, and those of its settings.

    >>> given({"decoding": '{"prefix": "b", "stop": ["c"], "beam": 2}'}, "a")
    ['a', 'b', 'c']
    """
    found = [text]
    for value in json.loads(message.get("decoding") or "{}").values():
        found += [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return found


def describe_error(error: Exception, texts: Sequence[str]) -> dict[str, Any]:
    """The status and message of an error for these texts of a request, which it does not repeat.

    >>> error = InputError(
    ...     "text.long", "a text must be short, got {text!r}; shorten it", text="secret; x")
    >>> described = describe_error(error, ["secret; x"])
    >>> described["status"], str(Message.from_json(described["message"]))
    (400, 'a text must be short, got …; shorten it')
    """
    if isinstance(error, JumokError):
        status = 400 if isinstance(error, InputError) else 500
        return {"status": status, "message": error.message.without(texts).to_json()}
    print(f"jumok serve: {type(error).__name__}: {location(error)}", file=sys.stderr)
    message = Message("request.bug", "{kind}; this is a bug in jumok", kind=type(error).__name__)
    return {"status": 500, "message": message.to_json()}


def warm_up(engine: Engine) -> tuple[list[str], float]:
    """The answers for the model's examples, and the seconds that a byte of text takes.

    The fastest of several rounds counts: another program may have had the processor meanwhile.
    """
    texts = engine.examples()
    answers = engine.example_answers()
    if "predict" in engine.batched and engine.predict_batch(texts) != answers:
        engine.batched.discard("predict")
    if "embed" in engine.batched and engine.embed_batch(texts) != list(map(engine.embed, texts)):
        engine.batched.discard("embed")
    rounds = []
    for _ in range(WARM_ROUNDS):
        started = time.perf_counter()
        engine.example_answers()
        rounds.append(time.perf_counter() - started)
    return answers, min(rounds) / sum(len(text.encode()) + TEXT_WORK for text in texts)


def prepare(engine: Engine, threads: int, before: Sequence[str]) -> dict[str, Any]:
    """Warm up an engine; returns its description for the front process.

    `before` are the answers of the version that it replaces, if there is one. Raises InputError for
    a model whose answers are not finite.
    """
    engine.set_threads(threads)
    answers, seconds = warm_up(engine)
    if not all(map(_is_finite, answers)):
        raise InputError(
            "server.answers_not_finite",
            "the model's answers must be finite, got NaN; check its weights",
        )
    comparable = before and len(before) == len(answers)
    return {
        **engine.info,
        "examples": answers,
        "agreement": agreement(before, answers) if comparable else None,
        "seconds_per_byte": seconds,
        "generation": engine.generation(answers),
    }


def main(fd: int) -> None:
    """Load the model that the first frame names, then answer frames."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the front process ends this one
    frames = FrameSocket(socket.socket(fileno=fd))

    def send_heartbeat() -> None:
        frames.send({"op": "pong"})
        frames.flush()

    try:
        ((message, _),) = frames.receive(wait=True)
        loaded = threading.Event()
        signs = threading.Thread(target=_send_signs, args=(send_heartbeat, loaded), daemon=True)
        signs.start()

        def end_signs() -> None:  # before this thread writes frames
            loaded.set()
            signs.join()

        settings = message["options"]
        try:
            options = EngineOptions(**settings | {"decoding": tuple(settings["decoding"])})
            engine = open_engine(message["folder"], options)
            info = prepare(engine, message["threads"], message["answers"])
        except Exception as error:
            known = isinstance(error, JumokError)
            text = str(error) if known else f"{type(error).__name__}: {error}"
            end_signs()
            frames.send({"op": "failed", "message": text, "known": known})
            frames.flush()
            return
        gc.collect()
        gc.freeze()  # a collection would visit all objects of PyTorch: a pause of some 0.1 s
        end_signs()
        frames.send({"op": "ready", "pid": os.getpid(), **info})
        frames.flush()
        Worker(frames, engine).run()
    except (EOFError, ConnectionError):
        return


def _send_signs(send: Callable[[], None], loaded: threading.Event) -> None:
    """Send heartbeats until the model is loaded."""
    with suppress(OSError):  # the front process has ended
        while not loaded.wait(HEARTBEAT_SECONDS):
            send()


def _is_finite(line: str) -> bool:
    def refuse(_: str) -> None:
        raise ValueError

    try:
        json.loads(line, parse_constant=refuse)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]))
