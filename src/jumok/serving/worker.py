"""The computing process of a model: it loads, warms up, and answers frames until their end.

    python -m jumok.serving.worker FD

FD is one end of a socket pair. The first frame is `load`; the answer is `ready` or `failed`. Then
any number of `run`, `cancel` and `ping`; each `run` is answered by one `done` or `error`, after
`text` frames when it streams. The end of the connection ends the process.
"""

import fcntl
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from jumok.errors import InputError, JumokError
from jumok.native.threads import set_kernel_threads
from jumok.serving.engine import Engine, EngineOptions, agreement
from jumok.serving.frames import FrameSocket
from jumok.serving.merging import JobHub

MAX_MESSAGE_CHARS = 400
WARM_ROUNDS = 3


class ComputeTurn:
    """Only one of several processes computes at a time, each with all cores.

    Two record locks of a file: the second one makes the order fair. The system releases the locks
    of a process that dies.
    """

    def __init__(self, fd: int | None, group: int) -> None:
        self._fd, self._group = fd, group

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Wait for the turn and hold it."""
        if self._fd is None:
            yield
            return
        turn, queue = 2 * self._group, 2 * self._group + 1
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, queue)
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, turn)
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, queue)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, turn)


class Worker:
    """Answers the frames of the front process."""

    def __init__(self, frames: FrameSocket, hub: JobHub, engine: Engine) -> None:
        self._frames, self._hub, self._engine = frames, hub, engine

    def run(self, turn: ComputeTurn) -> None:
        """Answer frames until the connection ends."""
        while True:
            for message, payload in self._frames.receive(wait=not len(self._hub)):
                if message["op"] == "run":
                    with turn():
                        self._start(message, payload.decode())
                elif message["op"] == "cancel":
                    self._hub.cancel(message["id"])
                elif message["op"] == "ping":
                    self._frames.send({"op": "pong"})
            if len(self._hub):
                with turn():
                    self._hub.step()
            self._frames.flush()

    def _start(self, message: dict[str, Any], text: str) -> None:
        number = message["id"]

        def job() -> None:
            try:
                header, payload = self._answer(message, text)
                self._frames.send({"op": "done", "id": number, **header}, payload)
            except Exception as error:
                self._frames.send({"op": "error", "id": number, **describe_error(error)})

        self._hub.start(number, job)

    def _answer(self, message: dict[str, Any], text: str) -> tuple[dict[str, Any], bytes]:
        engine, kind = self._engine, message["kind"]
        decoding = message.get("decoding", "")
        if kind == "embed":
            return self._counts(message, text), engine.embed(text, message["normalize"])
        if kind == "stream":

            def emit(part: str) -> None:
                self._frames.send({"op": "text", "id": message["id"]}, part.encode())

            line = engine.stream(text, decoding, emit)
        else:
            line = engine.predict(text, decoding)
        counts = self._counts(message, text)
        if counts:
            counts["new_tokens"] = engine.output_tokens(line, decoding)
        return counts, line.encode()

    def _counts(self, message: dict[str, Any], text: str) -> dict[str, Any]:
        return {"tokens": self._engine.count_tokens(text)} if message.get("count") else {}


def describe_error(error: Exception) -> dict[str, Any]:
    """The status and message of an error; the message does not repeat the input.

    >>> describe_error(InputError("a text must be short, got 'secret; x'; shorten it"))
    {'status': 400, 'message': 'a text must be short; shorten it'}
    """
    if isinstance(error, InputError):
        return {"status": 400, "message": without_input(str(error))}
    if isinstance(error, JumokError):
        return {"status": 500, "message": without_input(str(error))}
    print(f"jumok serve: {type(error).__name__}: {ascii(str(error))[:400]}", file=sys.stderr)
    return {"status": 500, "message": f"{type(error).__name__}; this is a bug in jumok"}


def without_input(message: str) -> str:
    """A message without the part that may repeat the input: all from ", got" to its advice."""
    before, got, after = message.partition(", got ")
    if got:
        _, advice, rest = after.rpartition("; ")
        before += f"; {rest}" if advice else ""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", before)[:MAX_MESSAGE_CHARS]


def set_threads(engine: Engine, threads: int) -> None:
    """Give all threads to the kernel and one to PyTorch, if the answers stay the same.

    The sums of PyTorch may depend on its threads. Outside of the kernel all texts have the same
    few shapes, so the model's examples show whether they do.
    """
    if threads == 1 or not engine.uses_kernel:
        return
    before = engine.example_answers()
    torch.set_num_threads(1)
    set_kernel_threads(threads)
    if engine.example_answers() != before:
        torch.set_num_threads(threads)
        set_kernel_threads(None)


def warm_up(engine: Engine) -> tuple[list[str], float]:
    """The answers for the model's examples, and the seconds that a byte of text takes."""
    texts = engine.examples()
    answers = engine.example_answers()
    started = time.perf_counter()
    for _ in range(WARM_ROUNDS):
        for text in texts:
            engine.predict(text)
    seconds = (time.perf_counter() - started) / WARM_ROUNDS
    return answers, seconds / sum(len(text.encode()) + 32 for text in texts)


def main(fd: int) -> None:
    """Load the model that the first frame names, then answer frames."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the front process ends this one
    frames = FrameSocket(socket.socket(fileno=fd))
    try:
        ((message, _),) = frames.receive(wait=True)
        torch.set_num_threads(message["threads"])
        hub = JobHub()
        turn = ComputeTurn(message["turn_fd"], message["turn_group"])
        options = EngineOptions(message["precision"], tuple(message["decoding"]))
        try:
            with turn():
                engine = Engine(message["folder"], options, hub)
                set_threads(engine, message["threads"])
                answers, seconds = warm_up(engine)
            if not all(_is_finite(answer) for answer in answers):
                raise InputError("the model's answers must be finite, got NaN; check its weights")
            before = message["answers"]
            comparable = len(before) == len(answers)
            info = {
                **engine.info,
                "examples": answers,
                "agreement": agreement(before, answers) if comparable and before else None,
                "seconds_per_byte": seconds,
            }
        except Exception as error:
            known = isinstance(error, JumokError)
            text = str(error) if known else f"{type(error).__name__}: {error}"
            frames.send({"op": "failed", "message": text, "known": known})
            frames.flush()
            return
        frames.send({"op": "ready", "pid": os.getpid(), **info})
        frames.flush()
        Worker(frames, hub, engine).run(turn)
    except (EOFError, ConnectionError):
        return


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
