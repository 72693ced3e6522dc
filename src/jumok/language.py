"""The language of what a person reads: help, messages, progress, results and labels of figures.

Korean in a Korean locale or with JUMOK_LANG=ko, otherwise English. The catalogue korean.json maps
English texts to Korean. {} is a value; the Korean text may name values by number, {1}, to change
their order. Exceptions and JSON stay English: a message is translated where it is shown.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Literal, NamedTuple

Language = Literal["ko", "en"]
LANGUAGES: tuple[Language, ...] = ("ko", "en")

LOCALE_VARIABLES = ("JUMOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides
MAX_MESSAGE_CHARS = 4_000  # longer messages quote much input, and stay English
MAX_DEPTH = 3  # messages within messages
GOT = ", got "  # begins the values of a message, which servers leave out
ADVICE = "; "  # begins the optional end of a message
OMITTED = "…"

_PLACE = re.compile(r"[^;]*?:\d+: ")  # a file and a line

CATALOGUE = Path(__file__).parent / "korean.json"


def language() -> Language:
    """The language of the environment.

    >>> os.environ["JUMOK_LANG"] = "en"
    >>> language()
    'en'
    """
    name = next((os.environ[name] for name in LOCALE_VARIABLES if os.environ.get(name)), "")
    return "ko" if name.lower().startswith("ko") else "en"


@cache
def catalogue() -> Mapping[str, Mapping[str, str]]:
    """The sections of korean.json: `help`, `output` and `messages`, from English to Korean."""
    sections: dict[str, dict[str, str]] = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return sections


def translate(template: str, *values: object, section: str = "output") -> str:
    """A text in the language of the environment, with its values; English if it has no Korean.

    >>> os.environ["JUMOK_LANG"] = "en"
    >>> translate("{:,} rows of {}", 2000, "dev")
    '2,000 rows of dev'
    """
    if language() == "ko":
        template = catalogue()[section].get(template, template)
    return template.format(*values) if values else template


def translate_message(message: str) -> str:
    """A message, whose values are already in place, in the language of the environment.

    It is compared with the templates of the catalogue; of several that match, the one with the
    longest text counts. Values that are messages themselves are translated as well, and so is what
    follows a file and a line.
    """
    return message if language() == "en" else korean_message(message)


def korean_message(message: str, *, cut: bool = False) -> str:
    """A message, whose values are already in place, in Korean.

    With `cut` the message may lack ", got" and what follows, up to its advice, as in responses of
    `jumok serve`, which do not repeat the input.

    >>> pair = "a pair must be two texts separated by one TAB; use exactly one TAB"
    >>> korean_message(pair, cut=True)
    '문장 쌍은 TAB 하나로 나뉜 두 텍스트여야 합니다 (받은 값: …); TAB을 하나만 쓰십시오'
    >>> korean_message("both texts must have equally many tokens, got 3 and 4; try texts that "
    ...     "differ in words of equally many pieces").partition(";")[0]
    '두 텍스트의 토큰 수가 같아야 하는데 3개와 4개입니다'
    """
    if len(message) > MAX_MESSAGE_CHARS:
        return message
    return _translated(message, MAX_DEPTH, cut=cut) or message


def _translated(message: str, depth: int, *, cut: bool = False) -> str | None:
    """The Korean of a message; None if the catalogue has no template for it."""
    if depth == 0:
        return None
    if "\n" in message:  # a list of errors
        lines = message.split("\n")
        return "\n".join(_translated(line, depth, cut=cut) or line for line in lines)
    place = _PLACE.match(message)
    if place is not None and (rest := _translated(message[place.end() :], depth - 1, cut=cut)):
        return place[0] + rest
    for template in _templates(cut=cut):
        values = match(template.parts, message)
        if values is not None:
            return template.fill([_translated(value, depth - 1) or value for value in values])
    return None


class _Template(NamedTuple):
    """A message and its Korean: the texts between the values that it has, and omitted values."""

    parts: tuple[str, ...]
    korean: str
    n_before: int = 0  # values before the omitted ones
    n_omitted: int = 0

    def fill(self, values: Sequence[str]) -> str:
        """The Korean with these values."""
        omitted = [OMITTED] * self.n_omitted
        return self.korean.format(*values[: self.n_before], *omitted, *values[self.n_before :])


@cache
def _templates(*, cut: bool = False) -> tuple[_Template, ...]:
    """The templates of messages, the longest text first; with `cut` also without ", got ..."."""
    messages = catalogue()["messages"].items()
    found = [_Template(literals(english), korean) for english, korean in messages]
    for english, korean in messages if cut else ():
        before, got, after = english.partition(GOT)
        if got:
            values, separator, advice = after.rpartition(ADVICE)
            parts = literals(before + separator + advice if separator else before)
            n_omitted = len(literals(values if separator else after)) - 1
            found.append(_Template(parts, korean, len(literals(before)) - 1, n_omitted))
    return tuple(sorted(found, key=lambda each: -sum(map(len, each.parts))))


def literals(template: str) -> tuple[str, ...]:
    """The parts of a template between its values, one more than it has values.

    >>> literals("{} must be {}")
    ('', ' must be ', '')
    """
    parts = list(Formatter().parse(template))
    texts = tuple(text for text, _, _, _ in parts)
    return (*texts, "") if not parts or parts[-1][1] is not None else texts


def match(parts: tuple[str, ...], text: str) -> list[str] | None:
    """The values between `parts` in a text; None if it does not consist of them.

    Of two values without a text between them, the second is advice, which begins with a semicolon.

    >>> match(("", " must be ", ""), "size must be 1")
    ['size', '1']
    >>> match(("got ", "", ""), "got 1; did you mean 2?")
    ['1', '; did you mean 2?']
    >>> match(("data", ""), "size must be 1") is None
    True
    """
    first, *rest = parts
    if not text.startswith(first):
        return None
    if not rest:
        return [] if text == first else None
    *middle, last = rest
    values, position = [], len(first)
    for part in middle:
        found = text.find(part or ADVICE, position)
        if found < 0 and not part:
            found = len(text) - len(last)
        if found < 0:
            return None
        values.append(text[position:found])
        position = found + len(part)
    if len(text) - len(last) < position or not text.endswith(last):
        return None
    return [*values, text[position : len(text) - len(last)]]


def prefers_korean(accepted: str | None) -> bool:
    """Whether an Accept-Language header prefers Korean to English.

    >>> [prefers_korean(each) for each in ("ko-KR,ko;q=0.9,en;q=0.8", "en,ko;q=0.5", "*", None)]
    [True, False, False, False]
    """
    best, korean = 0.0, False
    for part in (accepted or "").lower().split(","):
        tag, _, weight = part.partition(";")
        match = re.fullmatch(r"\s*q=([01](?:\.\d{0,3})?)\s*|", weight)
        quality = float(match[1] or 1) if match else 0.0
        name = tag.strip().partition("-")[0]
        if name in ("ko", "en") and quality > best:
            best, korean = quality, name == "ko"
    return korean
