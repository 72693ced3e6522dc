"""The lines of stdin as texts: never more of one in memory than a text may have."""

import sys
from collections.abc import Iterator
from typing import BinaryIO

from jumok.errors import InputError


def open_stdin() -> BinaryIO:
    """The bytes of stdin. Raises InputError where a process was started without one."""
    if sys.stdin is None:
        raise InputError("stdin is closed; give texts as arguments, or lines on stdin")
    return sys.stdin.buffer


def lines_of_stdin(stream: BinaryIO | None = None) -> Iterator[str]:
    """Each line without its end; LF ends it, and one CR before that belongs to the end.

    Raises InputError, with the number of the line, for one that is longer than a text may be, that
    is no UTF-8, or that holds what no text does. The lines before it have been given then.
    """
    from jumok.text.length import MOST_BYTES
    from jumok.text.normalization import checked

    if stream is None:
        stream = open_stdin()
    number = 0
    while line := stream.readline(MOST_BYTES + 3):  # a CR, a LF, and one byte to tell by
        number += 1
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(content) > MOST_BYTES:
            raise InputError(
                f"stdin:{number}: a line of more than {MOST_BYTES:,} bytes came; cut it into parts"
            )
        try:
            yield checked(content.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise InputError(
                f"stdin:{number}: byte {error.start + 1} is not UTF-8 "
                f"(0x{line[error.start]:02x}); convert the input to UTF-8"
            ) from error
        except InputError as error:
            raise InputError(f"stdin:{number}: {error}") from error
