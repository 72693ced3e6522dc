"""gettext catalogues (.po): each msgid is translated into its msgstr where that is empty.

Everything else stays byte by byte, finished translations and obsolete entries too. A translation is
written on one line, so the file keeps its lines. What it begins and ends with, as a line feed, is
that of the msgid, as `msgfmt --check` requires. A plural form is translated from msgid_plural,
the first one from msgid. HTML tags within a message are kept at the words they are around, and a
label keeps its accelerator (accelerators.py).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from jumok.documents.accelerators import read_label
from jumok.documents.block import Block, Style
from jumok.documents.html import inline_parts
from jumok.documents.plain import split_lines

_STRING = re.compile(r'\s*(?:(?P<key>msgctxt|msgid_plural|msgid|msgstr)(?:\[(?P<form>\d+)\])?\s*)?'
                     r'"(?P<text>(?:[^"\\]|\\.)*+)"\s*\Z')  # fmt: skip
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}
_ESCAPE = re.compile(r"\\(.)")
_NEW_LINE = re.compile(r"((?:\\n|\\r|\\t)+)")


def unescape(text: str) -> str:
    r"""The characters of a string of the file.

    >>> unescape(r"a \"b\" \\n")
    'a "b" \\n'
    """
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), text)


def escape(text: str) -> str:
    r"""The string of the file for some characters.

    >>> print(escape('a "b"'))
    a \"b\"
    """
    return text.replace("\\", "\\\\").replace('"', '\\"')


STYLE = Style(escape)


@dataclass
class _Entry:
    """The strings of an entry so far."""

    texts: dict[str, str] = field(default_factory=dict)  # by keyword

    def source(self, form: str | None) -> str:
        """The message that is translated into a plural form, or into the only one."""
        plural = self.texts.get("msgid_plural", "")
        return plural if plural and form not in (None, "0") else self.texts.get("msgid", "")


def read(source: str) -> list[str | Block]:
    r"""The blocks of a catalogue, one for a line of a message without a translation.

    >>> [part if isinstance(part, str) else part.text
    ...  for part in read('msgid "%s 파일\\n"\nmsgstr ""\n')]
    ['msgid "%s 파일\\n"\n', 'msgstr "', '%s 파일', '\\n', '"', '\n']
    """
    lines = list(split_lines(source))
    parts: list[str | Block] = []
    entry, key = _Entry(), ""
    for number, (line, end) in enumerate(lines):
        match = _STRING.match(line)
        if match is None:
            entry, key = _Entry(), ""
            parts.append(line + end)
            continue
        if match["key"] == "msgid" or (match["key"] == "msgctxt" and key == "msgstr"):
            entry = _Entry()
        key = match["key"] or key
        if key == "msgstr":
            message = entry.source(match["form"])
            following = _STRING.match(lines[number + 1][0]) if number + 1 < len(lines) else None
            continued = following is not None and following["key"] is None
            if match["key"] and not match["text"] and message and not continued:
                head = line[: match.start("text")]
                parts += [head, *_message(message), line[match.end("text") :], end]
                continue
        else:
            entry.texts[key] = entry.texts.get(key, "") + match["text"]
        parts.append(line + end)
    return [part for part in parts if part != ""]


def _message(text: str) -> Iterator[str | Block]:
    for number, part in enumerate(_NEW_LINE.split(text)):
        label = read_label(part)
        if number % 2:
            yield part
        elif not label.mark:
            yield from inline_parts(part, STYLE, unescape)
        else:
            style = label.style(STYLE)
            for inner in inline_parts(label.text, style, unescape):
                if isinstance(inner, Block):
                    yield replace(inner, raw=style.finish(inner.raw))
                else:
                    yield inner
