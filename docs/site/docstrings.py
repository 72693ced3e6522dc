"""Docstrings of jumok as reStructuredText: `code` in single backticks, tables and code kept."""

import re
from collections.abc import Iterator

_CODE = re.compile(r"(`+[^`]+`+)")
_SPECIAL = re.compile(r"([*|\\]|(?<=\w)_(?=\W|$))")


def to_rest(lines: list[str]) -> list[str]:
    """The lines of a docstring as reStructuredText."""
    result: list[str] = []
    for paragraph in _paragraphs(lines):
        if paragraph[0].lstrip().startswith(">>>"):
            result += paragraph
        elif all(line.startswith(("    ", "|")) for line in paragraph):
            result += ["::", "", *(f"    {line}" for line in paragraph)]
        else:
            result += map(_inline, _without_hanging_indent(paragraph))
        result.append("")
    return result


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    paragraph: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield paragraph
            paragraph = []


def _without_hanging_indent(paragraph: list[str]) -> list[str]:
    """The lines at one indentation, unless the paragraph is a list."""
    if paragraph[0].lstrip().startswith("- "):
        return paragraph
    return [line.lstrip() for line in paragraph]


def _inline(line: str) -> str:
    parts = _CODE.split(line)
    return "".join(
        f"``{part.strip('`')}``" if part.startswith("`") else _SPECIAL.sub(r"\\\1", part)
        for part in parts
    )
