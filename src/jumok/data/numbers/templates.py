"""The sentences that carry number expressions.

A carrier is one line of Korean, spoken and written alike but for its slots: `{time}` is any time,
`{counter:개}` a number of 개. A particle that follows a slot is given as a dictionary gives it,
을(를), and takes the form that the spoken number asks for. After a bare number no particle may
follow that could be a digit: "십이라고" would be both 10이라고 and 12라고.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from jumok.data.numbers.expressions import Expression
from jumok.data.numbers.number_words import particle

_SLOT = re.compile(r"\{(\w+):?(\w*)\}(을\(를\)|이\(가\)|은\(는\)|\(으\)로)?")


class Slot(NamedTuple):
    """A place for a number, the particle that leans on it and the text up to the next slot."""

    kind: str
    detail: str
    particle: str
    after: str


@dataclass(frozen=True)
class Carrier:
    """A sentence with slots, and the kind it is counted under.

    >>> carrier = Carrier("price", "점심값으로 {price}을(를) 냈다")
    >>> carrier.opening, carrier.slots
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
        """The sentence as it is said, an expression for each slot."""
        return self._filled([expression.spoken for expression in expressions], expressions)

    def written(self, expressions: Sequence[Expression]) -> str:
        """The sentence as it is written; the particles stay as they are said.

        >>> from jumok.data.numbers.expressions import counter
        >>> carrier = Carrier("counter", "감자 {counter:개}을(를) 샀다")
        >>> carrier.spoken([counter(2, "개")]), carrier.written([counter(2, "개")])
        ('감자 두 개를 샀다', '감자 2개를 샀다')
        """
        return self._filled([expression.written for expression in expressions], expressions)

    def _filled(self, forms: Sequence[str], expressions: Sequence[Expression]) -> str:
        text = self.opening
        for form, expression, slot in zip(forms, expressions, self.slots, strict=True):
            leaning = particle(expression.spoken, slot.particle) if slot.particle else ""
            text += form + leaning + slot.after
        return text


@dataclass(frozen=True)
class Frame:
    """Openings and endings that all go with one another around the same slots."""

    kind: str
    openings: tuple[str, ...]
    slots: str
    endings: tuple[str, ...]

    def carriers(self) -> list[list[Carrier]]:
        """Every opening with every ending: a row per opening, a column per ending."""
        return [
            [Carrier(self.kind, f"{opening} {self.slots}{ending}") for ending in self.endings]
            for opening in self.openings
        ]
