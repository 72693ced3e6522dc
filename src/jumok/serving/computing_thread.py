"""A thread of the server that computes for one model, for what `jumok.engine` computes."""

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakSet

from jumok.allocator import release_memory
from jumok.errors import JumokError
from jumok.serving.computing import Handler, ModelSource, StartError
from jumok.serving.jobs import JobHub
from jumok.serving.logs import location
from jumok.serving.worker import Worker, prepare

END_SECONDS = 5.0  # for a thread to end by itself

Frame = tuple[dict[str, Any], bytes]


class _Mailbox:
    """The thread's end: messages of the server in a queue, and answers to its event loop."""

    def __init__(self, deliver: Callable[[list[Frame]], None]) -> None:
        self._loop, self._deliver = asyncio.get_running_loop(), deliver
        self._in: SimpleQueue[Frame | None] = SimpleQueue()  # None is the end
        self._out: list[Frame] = []

    def put(self, frame: Frame | None) -> None:
        """In the server: a message for the thread, or None for the end."""
        self._in.put(frame)

    def receive(self, *, wait: bool) -> list[Frame]:
        """The messages that have arrived; with `wait` at least one. Raises EOFError at the end."""
        found = [self._in.get()] if wait else []
        with suppress(Empty):
            while True:
                found.append(self._in.get_nowait())
        if None in found:
            raise EOFError
        return [each for each in found if each is not None]

    def send(self, message: Mapping[str, Any], payload: bytes = b"") -> None:
        """Collect a message for the next `flush`."""
        self._out.append((dict(message), payload))

    def flush(self) -> None:
        """Pass the collected messages to the server."""
        if self._out:
            frames, self._out = self._out, []
            self.call(self._deliver, frames)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the thread of the server, unless it has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)


_threads: "WeakSet[ComputingThread]" = WeakSet()


@atexit.register
def _end_threads() -> None:
    """Let threads end that are still loading: Python ends them within C++, which aborts then."""
    for each in list(_threads):
        each.kill()
    for each in list(_threads):
        each.join(END_SECONDS)


class ComputingThread:
    """A thread with a loaded model; `lost` is set at its end.

    The kernel computes without Python's lock, so requests are read and answered meanwhile. The
    thread waits in a queue and takes no processor time then.
    """

    def __init__(self, source: ModelSource, answers: list[str]) -> None:
        self.info: dict[str, Any] = {}
        self.lost = asyncio.Event()
        self.closed = False
        self.unanswered_seconds = 0.0
        self._mailbox = _Mailbox(self._deliver)
        self._on_frame: Handler = lambda message, payload: None
        self._on_frames_end: Callable[[], None] = lambda: None
        self._started: asyncio.Future[dict[str, Any] | None]
        self._started = asyncio.get_running_loop().create_future()
        self._thread = threading.Thread(target=self._run, args=(source, answers), daemon=True)
        _threads.add(self)

    @classmethod
    async def start(cls, source: ModelSource, answers: list[str]) -> "ComputingThread | None":
        """Load a model and warm up; None for a model that needs a process with PyTorch.

        `answers` are those of the former version, which the new one is compared with. Raises
        JumokError for a model that cannot be loaded.
        """
        found = cls(source, answers)
        found._thread.start()
        info = await found._started
        if info is None:
            return None
        found.info = info
        return found

    @property
    def pid(self) -> int:
        """The process id, which is that of the server."""
        return os.getpid()

    def listen(self, on_frame: Handler, on_frames_end: Callable[[], None]) -> None:
        """Pass every message to `on_frame`, and call the other after those that came together."""
        self._on_frame, self._on_frames_end = on_frame, on_frames_end

    def send(self, message: dict[str, Any], payload: bytes = b"") -> None:
        """Send a message to the thread."""
        self._mailbox.put((message, payload))

    def kill(self) -> None:
        """Give up the thread, which ends after what it computes: nothing ends a thread at once."""
        self._mailbox.put(None)
        self.lost.set()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, so long at most."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    async def close(self) -> None:
        """End the thread; one that goes on computing is left behind."""
        self.closed = True
        self._mailbox.put(None)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.lost.wait(), END_SECONDS)

    def _run(self, source: ModelSource, answers: list[str]) -> None:
        """The thread: load, then answer messages until their end."""
        from jumok.serving.text_engine import find_engine

        mailbox = self._mailbox
        try:
            engine = find_engine(source.folder, source.options, JobHub())
            info = None if engine is None else prepare(engine, source.threads, answers)
            release_memory()  # what loading needed
        except Exception as error:
            mailbox.call(self._fail, error if isinstance(error, JumokError) else _bug(error))
            return
        mailbox.call(self._succeed, info)
        if engine is None:
            return
        try:
            Worker(mailbox, engine).run()
        except EOFError:
            pass
        except Exception as error:  # its message may contain a text
            print(f"jumok serve: {type(error).__name__}: {location(error)}", file=sys.stderr)
        del engine
        release_memory()
        mailbox.call(self.lost.set)

    def _fail(self, error: JumokError) -> None:
        if not self._started.done():  # else the server ends
            self._started.set_exception(error)

    def _succeed(self, info: dict[str, Any] | None) -> None:
        if not self._started.done():
            self._started.set_result(info)

    def _deliver(self, frames: list[Frame]) -> None:
        if self.lost.is_set():
            return
        for message, payload in frames:
            self._on_frame(message, payload)
        self._on_frames_end()


def _bug(error: Exception) -> StartError:
    return StartError("server.not_loaded", "{reason}", reason=f"{type(error).__name__}: {error}")
