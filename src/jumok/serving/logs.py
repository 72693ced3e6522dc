r"""The server's log on stderr: one line per event, as text or JSON.

Every value is written as JSON in ASCII, so no request can add a line or a control character. A full
disk or a closed stderr loses lines and nothing else.
"""

import io
import json
import logging
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]
LogLevel = Literal["info", "debug"]

_encode = json.JSONEncoder().encode


class Log:
    r"""Writes events.

    >>> line = Log("text").line("reply", route="/v1/predict", status=200, seconds=0.0123)
    >>> line.partition(" ")[2]
    'reply route="/v1/predict" status=200 seconds=0.0123'
    >>> Log("text").line("load", name="a\nb\u202e").partition(" ")[2]
    'load name="a\\nb\\u202e"'
    """

    def __init__(
        self, kind: LogFormat, level: LogLevel = "info", stream: TextIO | None = None
    ) -> None:
        """It writes to the stream; None: to what `sys.stderr` is then."""
        self._kind, self._level, self._stream = kind, level, stream

    def line(self, event: str, **fields: object) -> str:
        """The line of an event."""
        if self._kind == "json":
            values = {key: _rounded(value) for key, value in fields.items()}
            return _encode({"time": round(time.time(), 3), "event": event, **values})
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return " ".join([now, event, *[f"{key}={_text(value)}" for key, value in fields.items()]])

    def __call__(self, event: str, **fields: object) -> None:
        """Write the line of an event."""
        try:
            stream = self._stream or sys.stderr
            stream.write(self.line(event, **fields) + "\n")
            stream.flush()
        except (OSError, ValueError, AttributeError):
            return

    def debug(self, event: str, **fields: object) -> None:
        """Write the line of an event at level debug only."""
        if self._level == "debug":
            self(event, **fields)

    def capture(self, *names: str) -> None:
        """Write the warnings of these loggers in the same form."""
        for name in names:
            logger = logging.getLogger(name)
            logger.handlers = [_Handler(self)]
            logger.propagate = False
            logger.setLevel(logging.WARNING)


class LogStream(io.TextIOBase):
    r"""A text stream that writes each line as an event.

    >>> written = io.StringIO()
    >>> print("a warning\nof two lines", file=LogStream("computing", written))
    >>> [json.loads(line)["message"] for line in written.getvalue().splitlines()]
    ['a warning', 'of two lines']
    """

    def __init__(self, event: str, stream: TextIO) -> None:
        self._event, self._stream, self._start = event, stream, ""
        self._log = Log("json")

    def write(self, text: str) -> int:
        """Write the lines that end here; keep the start of the next one."""
        *lines, self._start = (self._start + text).split("\n")
        for line in filter(str.strip, lines):
            self._stream.write(self._log.line(self._event, message=line[:400]) + "\n")
        self._stream.flush()
        return len(text)

    def fileno(self) -> int:
        """The descriptor of the stream, for faulthandler."""
        return self._stream.fileno()


class _Handler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; of an exception its type only."""
        error = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
        self._log(record.levelname.lower(), message=record.getMessage()[:400], error=error)


def location(error: BaseException) -> str:
    """Where an error was raised; its message may contain the input.

    >>> try:
    ...     int("secret")
    ... except ValueError as error:
    ...     print(location(error).rpartition(":")[2])
    2
    """
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _text(value: object) -> str:
    kind = type(value)
    if kind is float:
        return repr(_rounded(value))
    return repr(value) if kind is int else _encode(value)


def _rounded(value: object) -> object:
    return round(value, 6) if isinstance(value, float) else value
