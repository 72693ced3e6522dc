"""Sentence templates with slots for number expressions.

A template is one line of Korean whose spoken and written forms differ only in its slots: `{time}`
is any time, `{counter:개}` a number of 개. A particle after a slot is given in its dictionary form,
을(를), and agrees with the spoken number. After a bare number no particle may follow that could be
a digit: "십이라고" would be both 10이라고 and 12라고.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import NamedTuple

from jumok.data.numbers.expressions import Expression
from jumok.data.numbers.number_words import josa

_SLOT = re.compile(r"\{(\w+):?(\w*)\}(을\(를\)|이\(가\)|은\(는\)|\(으\)로)?")


class Slot(NamedTuple):
    """The position of a number, the particle after it and the text up to the next slot."""

    kind: str
    detail: str
    particle: str
    after: str


@dataclass(frozen=True)
class SentenceTemplate:
    """A sentence with slots, and its kind.

    >>> template = SentenceTemplate("price", "점심값으로 {price}을(를) 냈다")
    >>> template.opening, template.slots
    ('점심값으로 ', (Slot(kind='price', detail='', particle='을(를)', after=' 냈다'),))
    """

    kind: str
    text: str

    @cached_property
    def opening(self) -> str:
        """The text before the first slot."""
        return self.text[: self.text.index("{")]

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The slots in order."""
        _, *parts = _SLOT.split(self.text)
        fields = (parts[start : start + 4] for start in range(0, len(parts), 4))
        return tuple(Slot(kind, detail, pair or "", after) for kind, detail, pair, after in fields)

    def spoken(self, expressions: Sequence[Expression]) -> str:
        """The spoken sentence with an expression for each slot."""
        return self._filled([expression.spoken for expression in expressions], expressions)

    def written(self, expressions: Sequence[Expression]) -> str:
        """The written sentence; particles agree with the spoken expressions.

        >>> from jumok.data.numbers.expressions import counter
        >>> template = SentenceTemplate("counter", "감자 {counter:개}을(를) 샀다")
        >>> template.spoken([counter(2, "개")]), template.written([counter(2, "개")])
        ('감자 두 개를 샀다', '감자 2개를 샀다')
        """
        return self._filled([expression.written for expression in expressions], expressions)

    def _filled(self, forms: Sequence[str], expressions: Sequence[Expression]) -> str:
        text = self.opening
        for form, expression, slot in zip(forms, expressions, self.slots, strict=True):
            particle = josa(expression.spoken, slot.particle) if slot.particle else ""
            text += form + particle + slot.after
        return text


@dataclass(frozen=True)
class TemplateFamily:
    """Openings and endings that all combine with one another around the same slots."""

    kind: str
    openings: tuple[str, ...]
    slots: str
    endings: tuple[str, ...]

    def templates(self) -> list[list[SentenceTemplate]]:
        """Every opening with every ending: a row per opening, a column per ending."""
        return [
            [
                SentenceTemplate(self.kind, f"{opening} {self.slots}{ending}")
                for ending in self.endings
            ]
            for opening in self.openings
        ]


def _families() -> tuple[TemplateFamily, ...]:
    text = resources.files("jumok.data.numbers").joinpath("grammar.toml").read_text("utf-8")
    return tuple(
        TemplateFamily(
            family["kind"], tuple(family["openings"]), family["slots"], tuple(family["endings"])
        )
        for family in tomllib.loads(text)["family"]
    )


FAMILIES = _families()
