"""The bytes of a file, plain or compressed, line by line, with limits on what is taken in."""

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
from jumok.errors import InputError, StorageError

COMPRESSED = (".xz", ".gz")
MAX_LINE_BYTES = 2**20
MAX_EXPANSION = 200  # text shrinks to a tenth, seldom to a fiftieth
MIN_EXPANDED_BYTES = 16 * 2**20  # bytes that even a tiny file may unpack to

_BLOCK = 2**18
_DAMAGED = (gzip.BadGzipFile, lzma.LZMAError, zlib.error)
_WIDE_MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


class Line(NamedTuple):
    r"""One line without its line end; `fault` says why it cannot be used, if it cannot.

    Only "\n" ends a line, and one "\r" before it belongs to the end: U+2028, U+0085 and the like
    are text.
    """

    number: int
    content: bytes
    fault: str = ""
    last: bool = False  # the file is broken here: no line follows


@dataclass(frozen=True)
class Content:
    """What a file holds once unpacked: checksum and size in bytes, up to where it can be read."""

    sha256: str
    size: int


class _ExpansionError(ValueError):
    """A small compressed file turns into a huge one."""


class _Limited(io.RawIOBase):
    """An unpacking stream that stops when it has given `limit` bytes."""

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
    """The suffix that tells the format, without the compression's.

    >>> suffix(Path("ratings.TSV.xz"))
    '.tsv'
    """
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    return inner.suffix.lower()


def checksum(path: Path) -> str:
    """The sha256 of the file as it lies there, still compressed."""
    with _reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def measure_content(path: Path, max_expansion: int = MAX_EXPANSION) -> Content:
    """Checksum and size of what the file holds once unpacked."""
    digest, size = hashlib.sha256(), 0
    with _open(path, max_expansion) as stream:
        try:
            while block := stream.read1(_BLOCK):
                digest.update(block)
                size += len(block)
        except (EOFError, *_DAMAGED, _ExpansionError):
            pass  # `read_lines` reports it with its line
    return Content(digest.hexdigest(), size)


def read_lines(
    path: Path, max_line_bytes: int = MAX_LINE_BYTES, max_expansion: int = MAX_EXPANSION
) -> Iterator[Line]:
    """The lines of a file, plain, .gz or .xz, counted from 1, without a leading byte order mark.

    A line that is too long and an archive that breaks off come as lines with a fault: what stood
    before is sound. Raises StorageError for a file that cannot be read, InputError for an archive
    whose own check fails (any line may be wrong), for UTF-16 and for lines that end in CR alone.
    """
    with _open(path, max_expansion) as stream:
        number = 1
        while True:
            try:
                content = stream.readline(max_line_bytes + 1)
                dropped = 0 if len(content) <= max_line_bytes else _skip_line(stream, content)
            except EOFError:
                fault = f"the {path.suffix} file breaks off here; fetch it again"
                yield Line(number, b"", fault, last=True)
                return
            except _DAMAGED as error:
                raise InputError(
                    f"{path}:{number}: the {path.suffix} file is damaged here or before "
                    f"({error}); fetch it again"
                ) from error
            except _ExpansionError:
                fault = f"unpacks to more than {max_expansion} times its size; unpack it by hand"
                yield Line(number, b"", fault, last=True)
                return
            if not content:
                return
            if number == 1:
                content = _without_mark(path, content)
            if dropped:
                fault = (
                    f"a line of {len(content) + dropped:,} bytes, wanted at most "
                    f"{max_line_bytes:,} (seen {quote(content)})"
                )
                yield Line(number, b"", fault)
            else:
                yield Line(number, content.removesuffix(b"\n").removesuffix(b"\r"))
            number += 1


def decode_line(content: bytes) -> tuple[str, str]:
    r"""The text of a line, and why it cannot be used, if it cannot.

    >>> decoded("좋다".encode())
    ('좋다', '')
    >>> decoded("좋다".encode("cp949"))[1].split("; ")[0]
    "byte 1 is not UTF-8 (seen b'\\xc1\\xc1\\xb4\\xd9')"
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        seen = bytes(content[max(0, error.start - 8) : error.start + 8])
        return "", f"byte {error.start + 1} is not UTF-8 (seen {seen!r}){_cp949_hint(content)}"
    if "\0" in text:
        return "", f"a NUL character (seen {quote(text)})"
    return text, ""


def quote(text: str | bytes, limit: int = 60) -> str:
    """Text for a message: quoted, on one line, shortened."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}..."


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Refuses what is no regular file (a FIFO would hang), and names the file in errors."""
    check_path_name(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path} is not a file; name a file")
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        where = "" if path.is_absolute() else f", which is sought in {Path.cwd()}"
        raise StorageError(f"{path} cannot be read ({reason}); check the path{where}") from error


@contextmanager
def _open(path: Path, max_expansion: int) -> Iterator[io.BufferedReader]:
    with _reading(path):
        limit = max(path.stat().st_size * max_expansion, MIN_EXPANDED_BYTES)
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


def _skip_line(stream: io.BufferedReader, begun: bytes) -> int:
    """How many further bytes the line goes on for, leaving the stream at the next line."""
    if begun.endswith(b"\n"):
        return 0
    dropped = 0
    while part := stream.readline(_BLOCK):
        dropped += len(part)
        if part.endswith(b"\n"):
            break
    return dropped


def _without_mark(path: Path, content: bytes) -> bytes:
    for mark, name in _WIDE_MARKS.items():
        if content.startswith(mark):
            raise InputError(
                f"{path} is {name}, wanted UTF-8; convert it with iconv -f {name} -t utf-8"
            )
    if b"\r" in content.removesuffix(b"\n").removesuffix(b"\r"):
        raise InputError(
            f"{path}:1: a CR inside the line, wanted lines that end with LF or CRLF; "
            "convert it with tr '\\r' '\\n'"
        )
    return content.removeprefix(b"\xef\xbb\xbf")


def _cp949_hint(content: bytes) -> str:
    try:
        text = content.decode("cp949")
    except UnicodeDecodeError:
        return ""
    if not any("가" <= letter <= "힣" for letter in text):
        return ""
    return "; it looks like cp949: convert the file with iconv -f cp949 -t utf-8"
