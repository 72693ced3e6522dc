r"""Subtitles, SubRip (.srt) and WebVTT (.vtt): the lines of a cue are one text.

Numbers, times, settings, notes, styles and regions stay as they are, and so does what is within
tags and braces, as `{\an8}`. A cue keeps its number of lines; speakers, lines that begin with a
hyphen, are translated one by one.
"""

import re
from collections.abc import Sequence

from jumok.documents.block import Block, Style
from jumok.documents.html import inline_parts
from jumok.documents.plain import split_lines

_TIME = re.compile(r"\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->")
_SPEAKER = re.compile(r"\s*[-‐–—]\s*")


def _escape(text: str) -> str:
    """A word without the signs of tags and times; these have no escapes in SubRip."""
    return text.replace("<", "‹").replace(">", "›").replace("{", "(").replace("}", ")")


STYLE = Style(_escape)
Line = tuple[str, str]  # with its end


def read(source: str) -> list[str | Block]:
    r"""The blocks of a file of subtitles, and what is between them.

    >>> [part if isinstance(part, str) else part.text
    ...  for part in read("1\n00:00:01,000 --> 00:00:02,000\n<i>겨울은\n추워요</i>\n\n")]
    ['1\n', '00:00:01,000 --> 00:00:02,000\n', '겨울은 추워요', '\n', '\n']
    """
    parts: list[str | Block] = []
    cue: list[Line] | None = None  # None: before the times of a cue
    for line, end in split_lines(source):
        if cue is not None and line.strip() and not _TIME.match(line):
            cue.append((line, end))
            continue
        parts += _cue(cue or ())
        cue = [] if _TIME.match(line) else None
        parts.append(line + end)
    parts += _cue(cue or ())
    return [part for part in parts if part != ""]


def _cue(lines: Sequence[Line]) -> list[str | Block]:
    """The parts of the lines of a cue."""
    if not lines:
        return []
    spoken = [match[0] if (match := _SPEAKER.match(line)) else "" for line, _ in lines]
    if any(spoken):
        parts: list[str | Block] = []
        for mark, (line, end) in zip(spoken, lines, strict=True):
            parts += [mark, *inline_parts(line[len(mark) :], STYLE, str, braces=True), end]
        return parts
    text = "".join(line + end for line, end in lines[:-1]) + lines[-1][0]
    return [*inline_parts(text, STYLE, str, braces=True), lines[-1][1]]
