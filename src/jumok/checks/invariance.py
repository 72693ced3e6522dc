"""An equality: two sides that must answer alike, how far apart they are and may be."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from jumok.checks.difference import agreement, distance
from jumok.checks.target import Subject, Way, batched
from jumok.errors import JumokError

Result = Literal["pass", "fail", "not applicable"]

FLOAT32 = 1e-5  # sums in another order: 1e-6 in 12 layers, and slips of logic are above 1e-3
EXACTLY = 0.0


class NotApplicable(JumokError):  # noqa: N818  (it is no error)
    """A way of asking that makes no sense for a model, or cannot be had here; it says why."""


@dataclass(frozen=True)
class Measured:
    """How far two sides are apart and may be; of how many decisions how many were the same."""

    difference: float  # max|a - b| / max(1, max|b|), NaN when there is a NaN or an infinity
    tolerance: float
    decisions: tuple[int, int] | None = None  # the same, of all


@dataclass(frozen=True)
class Outcome:
    """What came out of one equality."""

    equality: str
    compared: str
    result: Result
    difference: float | None = None  # max|a - b| / max(1, max|b|)
    tolerance: float | None = None
    same: int | None = None  # decisions (the largest output) that are the same, of ...
    decisions: int | None = None
    reason: str = ""  # why it does not apply, or could not be measured
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Its fields for a JSON line, in which there is no NaN: null, and the reason says so.

        >>> Outcome("a = b", "", "fail", math.nan, 1e-5, reason="NaN").as_json()["difference"]
        """
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in self.__dict__.items()
        }


class Equality(Protocol):
    """A row of the table."""

    @property
    def name(self) -> str:
        """What is equal to what, in a few words."""

    @property
    def compared(self) -> str:
        """The same in a sentence."""

    def measure(self, subject: Subject) -> Outcome:
        """What comes out; what makes no sense for the subject is not applicable."""


@dataclass(frozen=True)
class Alike:
    """Two ways of asking must give the same answers, up to a tolerance.

    >>> Alike("batched = batched", "a batch with itself", batched).tolerance
    1e-05
    """

    name: str
    compared: str
    way: Way
    reference: Way = batched
    tolerance: float | Callable[[Subject], float] = FLOAT32
    deciding: bool = False  # whether decisions are counted

    def measure(self, subject: Subject) -> Outcome:
        """Ask both ways."""
        return outcome_of(self, lambda: self._measured(subject))

    def _measured(self, subject: Subject) -> Measured:
        answers, wanted = self.way(subject), self.reference(subject)
        bound = self.tolerance if isinstance(self.tolerance, float) else self.tolerance(subject)
        n = subject.n_texts or len(wanted)
        same = agreement(answers[:n], wanted[:n]) if self.deciding else None
        return Measured(distance(answers, wanted), bound, same)


def outcome_of(equality: Equality, measure: Callable[[], Measured]) -> Outcome:
    """What came out of measuring; what breaks on the way has failed."""
    started = time.perf_counter()

    def outcome(result: Result, **more: Any) -> Outcome:
        seconds = round(time.perf_counter() - started, 3)
        return Outcome(equality.name, equality.compared, result, seconds=seconds, **more)

    try:
        found = measure()
    except NotApplicable as why:
        return outcome("not applicable", reason=str(why))
    except JumokError as error:
        return outcome("fail", reason=str(error))
    except Exception as error:  # of torch, of other libraries: the other rows are told all the same
        return outcome("fail", reason=f"{type(error).__name__}: {str(error).strip()}")
    same, decisions = found.decisions or (None, None)
    return outcome(
        "pass" if found.difference <= found.tolerance else "fail",  # NaN is no equality
        difference=found.difference,
        tolerance=found.tolerance,
        same=same,
        decisions=decisions,
        reason="some outputs are NaN or infinite" if math.isnan(found.difference) else "",
    )


def check(subject: Subject, equalities: Sequence[Equality]) -> Iterator[Outcome]:
    """What comes out of each, as soon as it is known."""
    return (equality.measure(subject) for equality in equalities)
