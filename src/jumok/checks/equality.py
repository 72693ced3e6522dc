"""An equality: two ways of asking one model, how far apart they are, how far they may be."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jumok.checks.difference import agreement, distance
from jumok.checks.subject import Subject, Way, batched
from jumok.errors import JumokError

Result = Literal["pass", "fail", "not applicable"]

FLOAT32 = 1e-5  # sums in another order: 1e-6 in 12 layers, and slips of logic are above 1e-3
EXACTLY = 0.0


class NotApplicable(JumokError):  # noqa: N818  (it is no error)
    """A way of asking that makes no sense for a model, or cannot be had here; it says why."""


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
        """Its fields for a JSON line; a difference that is no number is null, the reason says so.

        >>> Outcome("a = b", "", "fail", math.inf, 1e-5, reason="NaN").as_json()["difference"]
        """
        finite = self.difference is not None and math.isfinite(self.difference)
        return self.__dict__ | {"difference": self.difference if finite else None}


@dataclass(frozen=True)
class Equality:
    """`way` and `reference` must answer the same up to `tolerance`; decisions are counted if asked.

    >>> Equality("batched = batched", "a batch with itself", batched).tolerance
    1e-05
    """

    name: str
    compared: str  # in a sentence
    way: Way
    reference: Way = batched
    tolerance: float | Callable[[Subject], float] = FLOAT32
    deciding: bool = False

    def measure(self, subject: Subject) -> Outcome:
        """Ask both ways. What makes no sense is not applicable; what breaks has failed."""
        started = time.perf_counter()

        def outcome(result: Result, **more: Any) -> Outcome:
            seconds = round(time.perf_counter() - started, 3)
            return Outcome(self.name, self.compared, result, seconds=seconds, **more)

        try:
            answers = self.way(subject)
            wanted = self.reference(subject)
            apart = distance(answers, wanted)
            bound = self.tolerance if isinstance(self.tolerance, float) else self.tolerance(subject)
        except NotApplicable as why:
            return outcome("not applicable", reason=str(why))
        except (JumokError, RuntimeError, ValueError) as error:  # torch's among them
            return outcome("fail", reason=str(error).strip() or type(error).__name__)
        n = subject.n_texts or len(wanted)
        found = agreement(answers[:n], wanted[:n]) if self.deciding else None
        same, decisions = found or (None, None)
        return outcome(
            "pass" if apart <= bound else "fail",
            difference=apart,
            tolerance=bound,
            same=same,
            decisions=decisions,
            reason="" if math.isfinite(apart) else "some outputs are NaN or infinite",
        )


def check(subject: Subject, equalities: Sequence[Equality]) -> Iterator[Outcome]:
    """What comes out of each, as soon as it is known."""
    return (equality.measure(subject) for equality in equalities)
