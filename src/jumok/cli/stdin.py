"""Read the lines of stdin as texts, with a limit on the length of a line."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

from jumok.errors import InputError


def open_stdin() -> BinaryIO:
    """Stdin as bytes. Raises InputError if the process was started with stdin closed."""
    if sys.stdin is None:
        raise InputError("stdin is closed; give texts as arguments or on stdin")
    return sys.stdin.buffer


def read_lines(stream: BinaryIO | None = None) -> Iterator[str]:
    """Yield each line without its line ending (LF or CR LF).

    Raises InputError with the line number for a line that is too long, is not UTF-8, or holds
    characters that texts may not have; the lines before it have been yielded.
    """
    from jumok.data.files.lines import cp949_hint
    from jumok.text.limits import MAX_TEXT_BYTES
    from jumok.text.normalization import check_text

    if stream is None:
        stream = open_stdin()
    number = 0
    while line := stream.readline(
        MAX_TEXT_BYTES + 3
    ):  # CR, LF, and one byte to detect a longer line
        number += 1
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(content) > MAX_TEXT_BYTES:
            raise InputError(
                f"stdin:{number}: lines must have at most {MAX_TEXT_BYTES:,} bytes; split the line"
            )
        try:
            yield check_text(content.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise InputError(
                f"stdin:{number}: byte {error.start + 1} is not UTF-8 "
                f"(0x{line[error.start]:02x}); convert the input to UTF-8{cp949_hint(content)}"
            ) from error
        except InputError as error:
            raise InputError(f"stdin:{number}: {error}") from error
