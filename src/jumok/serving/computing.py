"""The front process's end of one computing process: start, frames, death."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jumok.errors import InputError, JumokError
from jumok.serving.frames import HEADER_BYTES, pack, unpack_lengths

END_SECONDS = 5.0  # for a computing process to end by itself
MAX_FRAME_BYTES = 2**26

Handler = Callable[[dict[str, Any], bytes], None]


class StartError(JumokError):
    """A computing process that could not load its model."""


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """What a computing process loads, and with which cores."""

    name: str
    folder: str
    precision: str | None = None
    decoding: tuple[str, ...] = ()
    threads: int = 1
    turn_fd: int | None = None  # a file whose locks let one process compute at a time
    turn_group: int = 0


class ComputingProcess:
    """A child process with a loaded model; `on_frame` gets its frames, `lost` its end."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        info: dict[str, Any],
    ) -> None:
        self.info = info
        self.lost = asyncio.Event()
        self._process, self._reader, self._writer = process, reader, writer
        self._task: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, source: ModelSource, answers: list[str]) -> "ComputingProcess":
        """Start a process and wait until its model is loaded and warm.

        `answers` are those of the former version, which the new one is compared with. Raises
        InputError for a model that cannot be loaded, StartError for a process that ended.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            fds = [theirs.fileno(), *([] if source.turn_fd is None else [source.turn_fd])]
            process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "jumok.serving.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=fds,
            )
        try:
            reader, writer = await asyncio.open_connection(sock=ours, limit=2**20)
            settings = {
                "folder": source.folder,
                "precision": source.precision,
                "decoding": list(source.decoding),
                "threads": source.threads,
                "turn_fd": source.turn_fd,
                "turn_group": source.turn_group,
                "answers": answers,
            }
            writer.write(pack({"op": "load", **settings}))
            message, _ = await _read_frame(reader)
        except (EOFError, ConnectionError, OSError) as error:
            ours.close()
            await _end(process)
            raise StartError(
                f"the computing process of {source.name} ended while it loaded; see its messages"
            ) from error
        except asyncio.CancelledError:
            ours.close()
            process.kill()
            process.wait()
            raise
        if message["op"] == "failed":
            writer.close()
            await _end(process)
            raise (InputError if message["known"] else StartError)(message["message"])
        return cls(process, reader, writer, message)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def listen(self, on_frame: Handler) -> None:
        """Pass every frame to `on_frame` until the process is lost."""
        self._task = asyncio.create_task(self._read(on_frame))

    def send(self, message: dict[str, Any], payload: bytes = b"") -> None:
        """Send a frame; lost with a lost process."""
        if not self._writer.is_closing():
            self._writer.write(pack(message, payload))

    def kill(self) -> None:
        """End the process at once."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """Close the connection, which ends the process."""
        self._writer.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await _end(self._process)

    async def _read(self, on_frame: Handler) -> None:
        try:
            while True:
                on_frame(*await _read_frame(self._reader))
        except (EOFError, ConnectionError, OSError):
            self.lost.set()


async def _read_frame(reader: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    n_text, n_payload = unpack_lengths(await reader.readexactly(HEADER_BYTES))
    assert n_text + n_payload <= MAX_FRAME_BYTES
    text = await reader.readexactly(n_text)
    return json.loads(text), await reader.readexactly(n_payload)


async def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process whose connection is closed; kill it if it does not end."""
    try:
        await asyncio.to_thread(process.wait, END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        await asyncio.to_thread(process.wait)
