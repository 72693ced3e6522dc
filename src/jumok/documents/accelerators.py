"""Accelerators of labels in catalogues: `_Save` and `E&xit`, in Korean `저장(_S)`.

GTK marks the letter with `_`, Qt with `&`. In Latin script the mark is before a letter of a word,
in others the letter follows the label in parentheses.
"""

import re
from functools import partial
from typing import NamedTuple

from jumok.documents.atoms import ATOM
from jumok.documents.block import Style

MAX_LABEL = 60  # characters of a message whose words may have a mark within

_BEHIND = re.compile(r"\s*\((?P<mark>[_&])(?P<letter>[A-Za-z0-9])\)")
_WITHIN = (  # at the beginning of a word, or after its first letters: E_xit, but not file_name
    re.compile(
        r"(?<![\w$%{@/.\\'\"`(<-])(?:[A-Z][a-z]?(?=_[a-z]))?(?P<mark>_)(?P<letter>[A-Za-z0-9])"
    ),
    re.compile(r"(?<!\w)(?:[A-Z][a-z]*(?=&[a-z]))?(?P<mark>&)(?P<letter>[A-Za-z0-9])(?!\w*;)"),
)
_END = re.compile(r"\s*(?:[.…]+|[:?!])?\s*\Z")
_WORD = r"[^\W\d_]"
_NOT_WORDS = rf"{ATOM.pattern}|<[^<>]*>|\\."


class Label(NamedTuple):
    """A message without the mark of its accelerator, which is `mark` before `letter`."""

    text: str
    mark: str = ""
    letter: str = ""

    def style(self, style: Style) -> Style:
        """The style that writes the accelerator into a translation."""
        if not self.mark:
            return style
        return Style(lambda word: style.escape(word).replace(self.mark, ""), partial(_marked, self))


def read_label(message: str) -> Label:
    """The text of a message and its accelerator, if it has one.

    >>> read_label("저장(_S)..."), read_label("E&xit"), read_label("file_name")
    (Label(text='저장...', mark='_', letter='S'), Label(text='Exit', mark='&', letter='x'), \
Label(text='file_name', mark='', letter=''))
    """
    is_label = len(message) <= MAX_LABEL and not re.search(r"[^.]\.\Z", message)
    for pattern in (_BEHIND, *(_WITHIN if is_label else ())):
        match = pattern.search(message)
        if match is not None and message.count(match["mark"]) == 1:
            end = match.end() if pattern is _BEHIND else match.end("mark")
            start = match.start() if pattern is _BEHIND else match.start("mark")
            return Label(message[:start] + message[end:], match["mark"], match["letter"])
    return Label(message)


def _marked(label: Label, text: str) -> str:
    """A translation with the accelerator: before the letter if it has it in a word, else behind.

    >>> _marked(Label("", "_", "S"), "Save as..."), _marked(Label("", "_", "S"), "저장...")
    ('_Save as...', '저장(_S)...')
    """
    for word in (rf"(?<!\w){label.letter}", label.letter):
        for match in re.finditer(rf"{_NOT_WORDS}|(?P<letter>{word})", text, re.IGNORECASE):
            if match["letter"]:
                return f"{text[: match.start()]}{label.mark}{text[match.start() :]}"
    end = _END.search(text)
    assert end is not None  # it may be empty
    return f"{text[: end.start()]}({label.mark}{label.letter.upper()}){text[end.start() :]}"
