"""The lines of a file, plain or compressed, with limits on lines and on decompression."""

import gzip
import hashlib
import io
import lzma
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jumok.atomic_io import check_path_name
from jumok.errors import DataError, Message, StorageError
from jumok.text_files import SAMPLE_BYTES, Fault, check_is_text, quote

COMPRESSED = (".xz", ".gz")
MAX_LINE_BYTES = 2**20
MAX_EXPANSION = 200  # text is usually compressed to a tenth, rarely to a fiftieth
MIN_EXPANDED_BYTES = 16 * 2**20  # allowed for archives of any size

_BLOCK = 2**18
_DAMAGED = (gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_UTF8_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    r"""One line without its line ending; `fault` is the reason if it cannot be used.

    Only "\n" ends a line, with an optional "\r" before it: U+2028, U+0085 and others are text.
    """

    number: int
    content: bytes
    fault: Fault = ""
    last: bool = False  # the file is broken here, and no line follows


@dataclass(frozen=True)
class Content:
    """Checksum and size in bytes of the decompressed content, as far as it can be read."""

    sha256: str
    size: int


class _ExpansionError(ValueError):
    """A small compressed file decompresses to a huge one."""


class _Limited(io.RawIOBase):
    """A decompressing stream that raises _ExpansionError after `limit` bytes."""

    def __init__(self, stream: gzip.GzipFile | lzma.LZMAFile, limit: int) -> None:
        self.stream = stream
        self.left = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.stream.read1(len(buffer))
        self.left -= len(data)
        if self.left < 0:
            raise _ExpansionError
        buffer[: len(data)] = data
        return len(data)


def suffix(path: Path) -> str:
    """The suffix of the format, without that of the compression.

    >>> suffix(Path("ratings.TSV.xz"))
    '.tsv'
    """
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return inner.suffix.lower()


def checksum(path: Path) -> str:
    """The sha256 of the file itself, compressed or not."""
    with _reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def measure_content(path: Path) -> Content:
    """Checksum and size of the decompressed content."""
    digest, size = hashlib.sha256(), 0
    with _open(path) as stream:
        try:
            while block := stream.read1(_BLOCK):
                digest.update(block)
                size += len(block)
        except (EOFError, *_DAMAGED, _ExpansionError):
            pass  # `read_lines` reports it with its line
    return Content(digest.hexdigest(), size)


def read_lines(path: Path, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """The lines of a file, plain, .gz or .xz, numbered from 1, without a byte order mark.

    A line that is too long and the end of a truncated archive are lines with a fault; the lines
    before are valid. Raises StorageError for an unreadable file, InputError for an archive with a
    wrong checksum (any line may be wrong), for other files than text, as those of Excel, and for
    lines that end in CR only.
    """
    with _open(path) as stream:
        number = 1
        while True:
            try:
                if number == 1:
                    check_is_text(path, stream.peek(SAMPLE_BYTES)[:SAMPLE_BYTES])
                content = stream.readline(max_line_bytes + 1)
                dropped = 0 if len(content) <= max_line_bytes else _skip_line(stream, content)
            except EOFError:
                yield Line(number, b"", _truncated(path), last=True)
                return
            except _DAMAGED as error:
                raise DataError(
                    "file.damaged",
                    "{path}:{number}: the {suffix} file is damaged here or before ({error}); "
                    "download it again",
                    path=path,
                    number=number,
                    suffix=path.suffix,
                    error=error,
                ) from error
            except _ExpansionError:
                fault = Message(
                    "file.expands_too_much",
                    "decompresses to more than {limit} times its size; decompress it first",
                    limit=MAX_EXPANSION,
                )
                yield Line(number, b"", fault, last=True)
                return
            if not content:
                return
            if number == 1:
                content = _without_mark(path, content)
            if dropped:
                fault = Message(
                    "file.line_too_long",
                    "a line of {size:,} bytes, expected at most {limit:,} (got {text})",
                    size=len(content) + dropped,
                    limit=max_line_bytes,
                    text=quote(content),
                )
                yield Line(number, b"", fault)
            else:
                yield Line(number, content.removesuffix(b"\n").removesuffix(b"\r"))
            number += 1


def _truncated(path: Path) -> Message:
    return Message(
        "file.truncated",
        "the {suffix} file is truncated here; download it again",
        suffix=path.suffix,
    )


def encoding_of(path: Path) -> str:
    """The encoding of a file that can be read: UTF-8, with a byte order mark (BOM) or without."""
    with _open(path) as stream:
        try:
            marked = stream.read(len(_UTF8_MARK)) == _UTF8_MARK
        except (EOFError, *_DAMAGED, _ExpansionError):
            marked = False  # `read_lines` reports it with its line
    return "UTF-8 with BOM" if marked else "UTF-8"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Check for a regular file (a FIFO would block) and name the file in errors."""
    check_path_name(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise DataError(
                "file.not_a_file",
                "{path} must be a file, got a folder or a device",
                path=path,
            )
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        where: Message | str = ""
        if not path.is_absolute():
            where = Message(
                "file.relative_to", ", which is relative to {folder}", folder=Path.cwd()
            )
        raise StorageError(
            "file.cannot_read",
            "{path} cannot be read ({reason}); check the path{where}",
            path=path,
            reason=reason,
            where=where,
        ) from error


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader]:
    with _reading(path):
        limit = max(path.stat().st_size * MAX_EXPANSION, MIN_EXPANDED_BYTES)
        match path.suffix.lower():
            case ".gz":
                with gzip.open(path) as packed:
                    yield io.BufferedReader(_Limited(packed, limit), _BLOCK)
            case ".xz":
                with lzma.open(path) as packed:
                    yield io.BufferedReader(_Limited(packed, limit), _BLOCK)
            case _:
                with path.open("rb", buffering=0) as plain:
                    yield io.BufferedReader(plain, _BLOCK)


def _skip_line(stream: io.BufferedReader, start: bytes) -> int:
    """Skip to the next line; returns the number of skipped bytes."""
    if start.endswith(b"\n"):
        return 0
    dropped = 0
    while part := stream.readline(_BLOCK):
        dropped += len(part)
        if part.endswith(b"\n"):
            break
    return dropped


def _without_mark(path: Path, content: bytes) -> bytes:
    if b"\r" in content.removesuffix(b"\n").removesuffix(b"\r"):
        raise DataError(
            "file.carriage_return_in_line",
            "{path}:1: lines must end with LF or CRLF, got a CR within a line; convert the file "
            "with tr '\\r' '\\n'",
            path=path,
        )
    return content.removeprefix(_UTF8_MARK)
