"""A check: two computations that must agree, the difference between them, and the tolerance."""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from jumok.checks.target import CheckTarget, Outputs, Variant, batched
from jumok.errors import JumokError
from jumok.export.report import relative_difference

Result = Literal["pass", "fail", "not applicable"]

FLOAT32 = 1e-5  # other summation order: 1e-6 after 12 layers; logic errors are above 1e-3
EXACT = 0.0
ALONE = "alone = batched"


class NotApplicable(JumokError):  # noqa: N818  (not an error)
    """A variant that does not apply to a model, or is not available here, with the reason."""


@dataclass(frozen=True)
class Measurement:
    """The difference of two outputs and its tolerance; how many decisions are the same."""

    difference: float  # max|a - b| / max(1, max|b|), NaN if there is a NaN or an infinity
    tolerance: float
    decisions: tuple[int, int] | None = None  # the same, of all


@dataclass(frozen=True)
class CheckResult:
    """The result of one check."""

    equality: str  # the name of the check
    compared: str
    result: Result
    difference: float | None = None  # max|a - b| / max(1, max|b|)
    tolerance: float | None = None
    same: int | None = None  # decisions (the argmax) that are the same, of ...
    decisions: int | None = None
    reason: str = ""  # why it does not apply, or failed without a measurement
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The fields as a JSON object; NaN becomes null.

        >>> CheckResult("a = b", "", "fail", math.nan, 1e-5, reason="NaN").as_json()["difference"]
        """
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in self.__dict__.items()
        }


@dataclass(frozen=True)
class Check(ABC):
    """A check of a model: what is equal to what, in a few words, and the comparison in a sentence.

    A model of one's own is compared in batches and alone; nothing else computes it.
    """

    name: str
    compared: str

    @abstractmethod
    def compare(self, target: CheckTarget) -> Measurement:
        """The difference. Raises NotApplicable if the check does not apply to the model."""

    def measure(self, target: CheckTarget) -> CheckResult:
        """The result; a check that raises another exception has failed."""
        started = time.perf_counter()

        def result(result: Result, **fields: Any) -> CheckResult:
            seconds = round(time.perf_counter() - started, 3)
            return CheckResult(self.name, self.compared, result, seconds=seconds, **fields)

        try:
            if target.pipeline.is_own and self.name != ALONE:
                raise NotApplicable("check.own_model", "nothing else computes a model of one's own")
            found = self.compare(target)
        except NotApplicable as why:
            return result("not applicable", reason=str(why))
        except JumokError as error:
            return result("fail", reason=str(error))
        except Exception as error:  # of torch or other libraries: the other checks still run
            return result("fail", reason=f"{type(error).__name__}: {str(error).strip()}")
        same, decisions = found.decisions or (None, None)
        return result(
            "pass" if found.difference <= found.tolerance else "fail",  # NaN fails
            difference=found.difference,
            tolerance=found.tolerance,
            same=same,
            decisions=decisions,
            reason="some outputs are NaN or infinite" if math.isnan(found.difference) else "",
        )


@dataclass(frozen=True)
class InvarianceCheck(Check):
    """Two variants of a computation must give the same outputs, up to a tolerance.

    >>> InvarianceCheck("batched = batched", "a batch with itself", batched).tolerance
    1e-05
    """

    variant: Variant
    reference: Variant = batched
    tolerance: float | Callable[[CheckTarget], float] = FLOAT32
    compare_decisions: bool = False

    def compare(self, target: CheckTarget) -> Measurement:
        """Compute both variants and compare them."""
        outputs, expected = self.variant(target), self.reference(target)
        bound = self.tolerance if isinstance(self.tolerance, float) else self.tolerance(target)
        n = target.n_texts or len(expected)
        same = decision_agreement(outputs[:n], expected[:n]) if self.compare_decisions else None
        return Measurement(max_difference(outputs, expected), bound, same)


def run_checks(target: CheckTarget, checks: Sequence[Check]) -> Iterator[CheckResult]:
    """Run the checks one after another and yield each result."""
    return (check.measure(target) for check in checks)


def max_difference(outputs: Outputs, expected: Outputs) -> float:
    """max |a - b| / max(1, max |b|) over all numbers of all outputs.

    NaN if one of them is NaN or infinite. Raises JumokError for different shapes.

    >>> import torch
    >>> max_difference([torch.tensor([2.0, 4.0])], [torch.tensor([2.0, 5.0])])
    0.2
    """
    for a, b in _pairs(outputs, expected):
        if a.shape != b.shape:
            raise JumokError(
                "check.different_shapes",
                "outputs must have equal shapes, got {shape} and {shape_2}; compute both "
                "variants on the same samples",
                shape=tuple(a.shape),
                shape_2=tuple(b.shape),
            )
    return relative_difference(_pairs(outputs, expected))


def decision_agreement(outputs: Outputs, expected: Outputs) -> tuple[int, int] | None:
    """How many decisions (the argmax of each row) are the same, and how many there are.

    None for outputs with a single number, which have no argmax.

    >>> import torch
    >>> decision_agreement([torch.eye(2)], [torch.tensor([[1.0, 0.0], [1.0, 0.0]])])
    (1, 2)
    """
    if not expected or expected[0].shape[-1] < 2:
        return None
    same = [a.argmax(-1) == b.argmax(-1) for a, b in _pairs(outputs, expected)]
    return sum(int(s.sum()) for s in same), sum(s.numel() for s in same)


def _pairs(outputs: Outputs, expected: Outputs) -> list[tuple[Tensor, Tensor]]:
    return list(zip(outputs, expected, strict=True))
