r"""What reaches a terminal or a pipe: text of others cannot control the terminal of the reader.

A label, a token or a file name may contain escape sequences that retitle or clear a terminal, and
marks that change the direction of the text around them. On a terminal these characters are printed
as their escapes; so are, on stderr, all of them everywhere. A pipe gets the text itself in UTF-8,
whatever the locale. Only `make_console` and progress bars write control sequences: their own.
"""

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

from jumok.errors import Message
from jumok.language import localize

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")

COUNT_AFTER = 1.0  # seconds before a running count is shown
MAX_COLUMNS = 10_000  # of a line in a pipe or a file

# C0 without TAB and LF, DEL and C1, marks of direction, line and paragraph separators, invisible
# operators, halves of surrogate pairs.
_CONTROL = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ud800-\udfff]"
)


def escape_control(text: str) -> str:
    r"""The text with its control characters and marks of direction as escapes.

    >>> escape_control("a label\x1b[2J\u202e\tof others\n")
    'a label\\x1b[2J\\u202e\tof others\n'
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def to_json_line(tree: object) -> str:
    r"""The JSON of `tree` on one line for stdout: control characters are escaped.

    So are all that are not ASCII, on a terminal whose encoding lacks one of them.

    >>> to_json_line({"label": "긍정\x1b[2J\x9b\u202e"})
    '{"label": "긍정\\u001b[2J\\u009b\\u202e"}'
    """
    text = json.dumps(tree, ensure_ascii=False)
    if not text.isprintable():  # far faster than the pattern
        text = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(tree)
    return text


def print_line(text: str) -> None:
    """Print a line to stdout at once."""
    print(text, flush=True)


def print_json(tree: object) -> None:
    """Print a value to stdout as one line of JSON."""
    print_line(to_json_line(tree))


def _one(_: object) -> int:
    return 1


def print_notice(text: object) -> None:
    """Print a line for the user to stderr, in their language, escaped also outside the commands."""
    print(escape_control(localize(text)), file=sys.stderr, flush=True)


def print_message(code: str, template: str, /, **values: object) -> None:
    """Print a message for the user to stderr."""
    print_notice(Message(code, template, **values))


def counted(
    items: Iterable[Item], text: str, total: int | None = None, size: Callable[[Item], int] = _one
) -> Iterator[Item]:
    """The items, with a running count on stderr where that is a terminal and they take a second.

    `text` has {n} in place of the count, and may have {total}; an item counts as its `size`.
    """
    stream = None if sys.stderr is None else original_stream(sys.stderr)
    if stream is None or not stream.isatty():
        yield from items
        return
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # starts no thread
    with tqdm(
        total=total,
        file=stream,
        leave=False,
        delay=COUNT_AFTER,
        dynamic_ncols=True,
        bar_format=text,
    ) as bar:
        for item in items:
            yield item
            bar.update(size(item))


def text_width(text: str) -> int:
    """The columns that a text takes on a terminal: two for a Hangul syllable.

    >>> text_width("run 실행")
    8
    """
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int) -> str:
    """The text with spaces up to a width in columns.

    >>> pad("실행", 6) + "|"
    '실행  |'
    """
    return text + " " * (width - text_width(text))


def pad_left(text: str, width: int) -> str:
    """The text after spaces, up to a width in columns."""
    return " " * (width - text_width(text)) + text


def wrap(text: str, width: int) -> list[str]:
    """The words of a text in lines of at most `width` columns; a longer word has its own line.

    >>> wrap("실행 폴더를 씁니다", 12)
    ['실행 폴더를', '씁니다']
    """
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def command_line(*words: object) -> str:
    """A command as it has to be typed into a shell, with a path of spaces in quotes.

    >>> command_line("jumok", "predict", "runs/내 실험")
    "jumok predict 'runs/내 실험'"
    """
    parts = [os.fspath(word) if isinstance(word, os.PathLike) else str(word) for word in words]
    if os.name == "nt":
        return subprocess.list2cmdline(parts)
    return " ".join(part if _PLAIN_WORD.fullmatch(part) else shlex.quote(part) for part in parts)


_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]+")  # as in shlex, with the letters of all scripts


class StreamWithWrite:
    """A text stream with another `write`; everything else is that of the stream."""

    def __init__(self, stream: TextIO, write: Callable[[str], int]) -> None:
        self.stream = stream
        self.write = write

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each line with the other `write`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class ClosedStream(StreamWithWrite):
    """The null device in place of a stream that is closed: what was written fails at the flush."""

    def __init__(self, null: TextIO) -> None:
        super().__init__(null, self._count)
        self.written = 0

    def _count(self, text: str) -> int:
        self.written += len(text)
        return len(text)

    def flush(self) -> None:
        """Raise OSError, once, if something was written."""
        if self.written:
            self.written = 0
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


@contextmanager
def safe_streams() -> Iterator[None]:
    """Context in which stdout and stderr are safe to print any text to.

    On a terminal, and always on stderr, control characters are escaped, and characters that its
    encoding lacks. Any other stdout is UTF-8, and keeps the bytes of file names. Where the process
    was started with one of them closed, the null device has its number, so that no file of the
    command gets it, and no library has to expect that it is missing; the flush of stdout fails.
    """
    with ExitStack() as stack:
        if sys.stdin is None:
            stack.enter_context(open(os.devnull, "rb"))  # gets number 0
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            if stream is None:
                null = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
                stream = ClosedStream(null) if name == "stdout" else null
                stack.enter_context(_replaced(name, stream))
                continue
            escaped = name == "stderr" or stream.isatty()
            if isinstance(stream, TextIOWrapper):
                with suppress(OSError):  # it had a position when it was opened, and has none now
                    if escaped:
                        stream.reconfigure(errors="backslashreplace")
                    else:
                        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
            if escaped:
                stack.enter_context(_replaced(name, _escaping(stream)))
        yield


def _escaping(stream: TextIO) -> StreamWithWrite:
    return StreamWithWrite(stream, lambda text: stream.write(escape_control(text)))


@contextmanager
def _replaced(name: str, stream: StreamWithWrite | TextIO) -> Iterator[None]:
    """Context in which `sys.stdout` or `sys.stderr` is this stream."""
    before = getattr(sys, name)
    setattr(sys, name, stream)
    try:
        yield
    finally:
        setattr(sys, name, before)


@contextmanager
def stderr_lines_to(print_text: Callable[[str], None]) -> Iterator[None]:
    """Context in which whole lines written to stderr are passed to `print_text`."""
    if sys.stderr is None:
        yield
        return
    pending = ""

    def write(text: str) -> int:
        nonlocal pending
        *lines, pending = (pending + text).split("\n")
        for line in lines:
            print_text(line)
        return len(text)

    with _replaced("stderr", StreamWithWrite(sys.stderr, write)):
        yield
    if pending:
        print_text(pending)


def original_stream(stream: TextIO | StreamWithWrite) -> TextIO:
    """The stream below those of `safe_streams` and `stderr_lines_to`."""
    while isinstance(stream, StreamWithWrite) and not isinstance(stream, ClosedStream):
        stream = stream.stream
    return cast(TextIO, stream)


def make_console() -> "Console":
    """A rich console on stdout whose texts are escaped and whose own control sequences are not.

    Emoji codes such as :smile: stay as they are. A pipe or a file gets lines of any length.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class EscapingConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                text, style, control = segment
                yield segment if control else Segment(escape_control(text), style)

    file = original_stream(sys.stdout)
    console = EscapingConsole(file=file, highlight=False, emoji=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = MAX_COLUMNS
    return console
