"""What computes for a model, and the server's end of a computing process: start, frames, death."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from jumok.errors import InputError, JumokError
from jumok.serving.engine import EngineOptions
from jumok.serving.frames import FrameBuffer, pack

LOAD_SECONDS = 1_800.0  # until a process is ready
SIGN_SECONDS = 60.0  # without a heartbeat while it loads: it is stopped, or hangs
END_SECONDS = 5.0  # for a computing process to end by itself
POLL_SECONDS = 0.01

# Before the imports of the computing process, which may write warnings.
JSON_START = """
import sys
from jumok.serving.logs import LogStream
sys.stderr = LogStream("computing", sys.stderr)
from jumok.serving.worker import main
main(int(sys.argv[1]))
"""

Handler = Callable[[dict[str, Any], bytes], None]


class StartError(JumokError):
    """A computing process that could not load its model."""


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """What is loaded, where, and with which cores."""

    name: str
    folder: str
    options: EngineOptions = field(default_factory=EngineOptions)
    threads: int = 1
    isolated: bool = True  # in a process of its own, whatever the model is
    log: str = "text"  # the format of what a process writes to stderr
    load_seconds: float = LOAD_SECONDS
    sign_seconds: float = SIGN_SECONDS


class Computing(Protocol):
    """What computes for a model, by messages: a `ComputingProcess`, or a `ComputingThread`."""

    info: dict[str, Any]  # about the model, see `Engine.info`
    lost: asyncio.Event  # set at its end
    closed: bool  # by `close`, and not by its own end
    unanswered_seconds: float  # since the first ping that was sent after its last message

    @property
    def pid(self) -> int:
        """The process id."""

    def listen(self, on_frame: Handler, on_frames_end: Callable[[], None], /) -> None:
        """Pass every message to `on_frame`, and call the other after those that came together."""

    def send(self, message: dict[str, Any], payload: bytes = b"", /) -> None:
        """Send a message; lost with what is lost."""

    def kill(self) -> None:
        """End it at once."""

    async def close(self) -> None:
        """End it."""


class FrameConnection(asyncio.Protocol):
    """Our end of the connection: frames to `on_frame`, collected writes, `lost` at its end.

    Frames that arrive before `on_frame` is set are kept. All frames that are sent in one turn of
    the event loop are written together: each write would wake the computing process.
    """

    def __init__(self) -> None:
        self.lost = asyncio.Event()
        self._on_frame: Handler | None = None
        self._on_frames_end: Callable[[], None] | None = None
        self._buffer, self._early = FrameBuffer(), asyncio.Queue[tuple[dict[str, Any], bytes]]()
        self._out: list[bytes] = []
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport: Any = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """The computing process has ended, or the connection was closed."""
        self.lost.set()

    def data_received(self, data: bytes) -> None:
        """Pass on the frames that these bytes complete."""
        for frame in self._buffer.feed(data):
            if self._on_frame is None:
                self._early.put_nowait(frame)
            else:
                self._on_frame(*frame)
        if self._on_frames_end is not None:
            self._on_frames_end()
            self._flush()  # the next texts are sent before the responses are written

    async def first_frame(self, seconds: float) -> tuple[dict[str, Any], bytes]:
        """The next early frame.

        Raises EOFError if the connection ends before, TimeoutError after so many seconds.
        """
        frame = asyncio.ensure_future(self._early.get())
        end = asyncio.ensure_future(self.lost.wait())
        try:
            await asyncio.wait((frame, end), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if frame.done():
                return frame.result()
            raise EOFError if end.done() else TimeoutError
        finally:
            frame.cancel()
            end.cancel()

    def listen(self, on_frame: Handler, on_frames_end: Callable[[], None]) -> None:
        """Pass every frame to `on_frame`, and call the other after those that came together."""
        self._on_frame, self._on_frames_end = on_frame, on_frames_end
        while not self._early.empty():
            on_frame(*self._early.get_nowait())

    def send(self, frame: bytes) -> None:
        """Write a frame at the end of this turn of the event loop."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(frame)

    def _flush(self) -> None:
        frames, self._out = self._out, []
        if frames and not self._transport.is_closing():
            self._transport.write(b"".join(frames))

    def close(self) -> None:
        """Close the connection."""
        self._flush()
        self._transport.close()


class ComputingProcess:
    """A child process with a loaded model; `lost` is set at its end."""

    def __init__(
        self, process: subprocess.Popen[bytes], connection: FrameConnection, info: dict[str, Any]
    ) -> None:
        self.info = info
        self.lost = connection.lost
        self.closed = False  # by `close`, and not by its own end
        self.unanswered_seconds = 0.0  # since the first ping that was sent after its last frame
        self._process, self._connection = process, connection

    @classmethod
    async def start(cls, source: ModelSource, answers: list[str]) -> "ComputingProcess":
        """Start a process and wait until its model is loaded and warm.

        `answers` are those of the former version, which the new one is compared with. Raises
        InputError for a model that cannot be loaded, StartError for a process that ended or
        could not be started.
        """
        try:
            process, ours = _launch(source.log)
        except OSError as error:
            raise StartError(
                "server.process_not_started",
                "the computing process of {source} cannot be started ({strerror}); free memory "
                "or file descriptors",
                source=source.name,
                strerror=error.strerror,
            ) from error
        close: Callable[[], None] = ours.close
        try:
            loop = asyncio.get_running_loop()
            transport, connection = await loop.create_connection(FrameConnection, sock=ours)
            close = transport.abort
            settings = {"folder": source.folder, "threads": source.threads, "answers": answers}
            connection.send(pack({"op": "load", "options": asdict(source.options), **settings}))
            message = await _loaded(connection, source)
        except TimeoutError as error:
            close()
            process.kill()
            process.wait()
            raise StartError(
                "server.computing_process_silent",
                "the computing process of {source} did not answer while it loaded, and was "
                "ended; load the model again",
                source=source.name,
            ) from error
        except (EOFError, OSError) as error:
            close()
            await _end(process)
            raise StartError(
                "server.computing_process_ended",
                "the computing process of {source} ended while it loaded; see its messages",
                source=source.name,
            ) from error
        except asyncio.CancelledError:
            close()
            process.kill()
            process.wait()
            raise
        if message["op"] == "failed":
            connection.close()
            await _end(process)
            error_class = InputError if message["known"] else StartError
            template = "{reason}"  # the message of the process
            raise error_class("server.not_loaded", template, reason=message["message"])
        return cls(process, connection, message)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def listen(self, on_frame: Handler, on_frames_end: Callable[[], None]) -> None:
        """Pass every frame to `on_frame`, and call the other after those that came together."""
        self._connection.listen(on_frame, on_frames_end)

    def send(self, message: dict[str, Any], payload: bytes = b"") -> None:
        """Send a frame; lost with a lost process."""
        self._connection.send(pack(message, payload))

    def kill(self) -> None:
        """End the process at once."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Close the connection, which ends the process."""
        self.closed = True
        self._connection.close()
        await _end(self._process)


def _launch(log: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """A computing process, and our end of its connection; `log`: the format that it logs in.

    It imports from the same folders as this process, never from the current folder (`-P`). Its
    threads of PyTorch sleep while they wait: other models compute in the same cores.
    """
    ours, theirs = socket.socketpair()
    with ExitStack() as on_failure, theirs:
        on_failure.enter_context(ours)
        start = ["-m", "jumok.serving.worker"] if log == "text" else ["-c", JSON_START]
        path = os.pathsep.join(path for path in sys.path if path)
        process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", *start, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={"OMP_WAIT_POLICY": "PASSIVE"} | os.environ | {"PYTHONPATH": path},
        )
        on_failure.pop_all()
    return process, ours


async def _loaded(connection: FrameConnection, source: ModelSource) -> dict[str, Any]:
    """The frame that ends the loading of a model; heartbeats come before it.

    Raises TimeoutError if they stop, or after `load_seconds`.
    """
    async with asyncio.timeout(source.load_seconds):
        while True:
            message, _ = await connection.first_frame(source.sign_seconds)
            if message["op"] != "pong":
                return message


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process whose connection is closed; kill it if it does not end.

    By polling: a thread that waits needs files of Python, which cannot be opened where the process
    is lost for lack of descriptors.
    """
    end = time.monotonic() + END_SECONDS
    while process.poll() is None:
        if time.monotonic() > end:
            process.kill()
        await asyncio.sleep(POLL_SECONDS)
