"""Read the lines of stdin as texts, with a limit on the length of a line."""

import os
import select
import sys
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from jumok.errors import Message, UsageError

_BLOCK = 2**16  # bytes: what a pipe holds on Linux


class LineStream(Protocol):
    """A stream of lines."""

    def readline(self, size: int, /) -> bytes:
        """The next line with its ending, or its first `size` bytes; b"" at the end."""


class PipeLines:
    r"""The lines of a pipe, a socket or a terminal, read ahead as far as they have arrived.

    >>> read_end, write_end = os.pipe()
    >>> _ = os.write(write_end, b"one\ntw")
    >>> lines = PipeLines(read_end)
    >>> lines.has_line(), lines.readline(100), lines.has_line()
    (True, b'one\n', False)
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self._searched = 0  # bytes without a line ending
        self._ended = False

    def readline(self, size: int, /) -> bytes:
        """Wait for the next line, or for `size` bytes of it; b"" at the end."""
        while True:
            end = self._line_end()
            if end or len(self._data) >= size or self._ended:
                length = min(end or len(self._data), size)
                line = bytes(self._data[:length])
                del self._data[:length]
                self._searched = 0
                return line
            self._read()

    def has_line(self) -> bool:
        """Whether `readline` returns a line that is complete without waiting for it."""
        while not self._line_end() and not self._ended and len(self._data) < _BLOCK:
            if not select.select([self._fd], [], [], 0)[0]:
                return False
            self._read()
        return self._line_end() > 0 or (self._ended and bool(self._data))

    def _line_end(self) -> int:
        """The length of the first line with its ending; 0 without one."""
        end = self._data.find(b"\n", self._searched) + 1
        if not end:
            self._searched = len(self._data)
        return end

    def _read(self) -> None:
        try:
            block = os.read(self._fd, _BLOCK)
        except BlockingIOError:  # the descriptor does not block
            select.select([self._fd], [], [])
            return
        self._ended = not block
        self._data += block


def open_stdin() -> BinaryIO:
    """Stdin as bytes. Raises InputError if the process was started with stdin closed."""
    if sys.stdin is None:
        raise UsageError("cli.stdin_closed", "stdin is closed; give texts as arguments or on stdin")
    return sys.stdin.buffer


def read_lines(stream: LineStream | None = None) -> Iterator[str]:
    """Yield each line without its line ending (LF or CR LF).

    Raises InputError with the line number for a line that is too long, is not UTF-8, or holds
    characters that texts may not have; the lines before it have been yielded.
    """
    from jumok.text.limits import MAX_TEXT_BYTES
    from jumok.text_files import advice_on, check_is_text, decode_line

    if stream is None:
        stream = open_stdin()
    number = 0
    while line := stream.readline(
        MAX_TEXT_BYTES + 3
    ):  # CR, LF, and one byte to detect a longer line
        number += 1
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(content) > MAX_TEXT_BYTES:
            raise UsageError(
                "cli.stdin_line_too_long",
                "stdin:{number}: lines must have at most {max_text_bytes:,} bytes; split the line",
                number=number,
                max_text_bytes=MAX_TEXT_BYTES,
            )
        if number == 1:
            check_is_text("stdin", content)
        text, fault = decode_line(content)
        if fault:
            raise UsageError(
                "file.bad_text_line",
                "{path}:{number}: {fault}; {advice}",
                path="stdin",
                number=number,
                fault=fault,
                advice=advice_on(fault, Message("file.correct_line", "correct the line")),
            )
        yield text.removeprefix("\ufeff") if number == 1 else text
