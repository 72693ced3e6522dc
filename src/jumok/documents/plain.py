"""Plain text: every line is a text, without its indentation and the mark of a list.

In `wrapped` text the lines of a paragraph are one text, which is broken into as many lines again.
"""

import re
from collections.abc import Iterator

from jumok.documents.block import Block, parts_of
from jumok.documents.nodes import Builder

LINE_END = re.compile("(\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])")  # as str.splitlines
_MARK = re.compile(r"\s*(?:(?:[-*+•·▪◦>]|#{1,6}|\d{1,3}[.)])\s+)*")


def split_lines(source: str) -> Iterator[tuple[str, str]]:
    r"""The lines of a text, each with its end.

    >>> list(split_lines("가\r\n\n나"))
    [('가', '\r\n'), ('', '\n'), ('나', '')]
    """
    parts = LINE_END.split(source)
    return zip(parts[::2], [*parts[1::2], ""], strict=True)


def read(source: str) -> list[str | Block]:
    r"""The blocks of a text, one for a line, and what is between them.

    >>> [part if isinstance(part, str) else part.text for part in read("  1. 가\n\n 나")]
    ['  1. ', '가', '\n', '\n', ' ', '나']
    """
    parts: list[str | Block] = []
    for line, end in split_lines(source):
        mark = _mark(line)
        parts += [mark, *parts_of(Builder().words(line[len(mark) :]).nodes), end]
    return [part for part in parts if part != ""]


def read_wrapped(source: str) -> list[str | Block]:
    r"""The blocks of a text, one for a paragraph: lines without a mark continue the one before.

    >>> [part if isinstance(part, str) else part.text for part in read_wrapped("가\n나\n\n- 다")]
    ['가 나', '\n', '\n', '- ', '다']
    """
    parts: list[str | Block] = []
    builder, before = Builder(), ""  # the end of the line before
    for line, end in split_lines(source):
        mark = _mark(line)
        if before and (mark.strip() or not line.strip() or not builder.nodes):
            parts += [*parts_of(builder.nodes), before]
            builder, before = Builder(), ""
        if before:
            builder.line_break(before + mark)
        else:
            parts.append(mark)
        if line[len(mark) :]:
            builder.words(line[len(mark) :])
        before = end
    parts += [*parts_of(builder.nodes), before]
    return [part for part in parts if part != ""]


def _mark(line: str) -> str:
    match = _MARK.match(line)
    assert match is not None  # it may be empty
    return match[0]
