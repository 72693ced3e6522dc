"""The language of what a person reads: help, messages, progress, results and labels of figures.

Korean in a Korean locale or with JUMOK_LANG=ko, otherwise English. The catalogue korean.json has
the Korean of `messages` by code, with the values by name; of `help` and `output` by the English
text; of `phrases`, values without values of their own; and of what click and libraries write
(`others`), whose {} is a value. Exceptions and JSON stay English: a message is translated where it
is shown.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Literal

from jumok.errors import ADVICE, JumokError, Message

Language = Literal["ko", "en"]
LANGUAGES: tuple[Language, ...] = ("ko", "en")

LOCALE_VARIABLES = ("JUMOK_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides
MAX_MESSAGE_CHARS = 4_000  # longer messages of others quote much input, and stay English

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
    """The sections of korean.json: `help`, `output`, `phrases`, `messages` and `others`."""
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


def localize(message: object, to: Language | None = None) -> str:
    """A message, an exception or a phrase in a language, by default that of the environment.

    A `Message` and an exception of jumok are found by their code, and the messages among their
    values with them; a phrase without values, such as the name of a check, by its English text.

    >>> from jumok.errors import Message
    >>> localize(Message("config.wrong_type", "{key} must be {type}", key="seed", type="a number"))
    'seed must be a number'
    >>> localize("a number", "ko")
    '수'
    """
    to = to or language()
    if isinstance(message, JumokError):
        message = message.message
    if to == "en":
        return str(message)
    if not isinstance(message, Message):
        return _localized_phrase(message)
    template = catalogue()["messages"].get(message.code, message.template)
    values = {name: _localized_value(value, to) for name, value in message.values.items()}
    return message.fill(template, values)


def _localized_value(value: object, to: Language) -> object:
    """A value of a message; numbers stay numbers, which the template formats."""
    if isinstance(value, (str, Message, JumokError)):
        return localize(value, to)
    if isinstance(value, tuple | list) and any(isinstance(each, Message) for each in value):
        return type(value)(localize(each, to) for each in value)
    return value


def _localized_phrase(phrase: object) -> str:
    """A text without values in Korean, or a message of click or the operating system."""
    text = str(phrase)
    found = catalogue()["phrases"].get(text)
    if found is not None or len(text) > MAX_MESSAGE_CHARS:
        return found or text
    for english, korean in catalogue()["others"].items():
        values = match(literals(english), text)
        if values is not None:
            return korean.format(*map(_localized_phrase, values))
    return text


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
