"""The report of an export: agreement with the original model, and the cost of small weights."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from torch import Tensor

from jumok.errors import JumokError
from jumok.terminal import pad

Translate = Callable[..., str]
"""template, values -> the text: in English by default, `jumok.language.translate` by locale."""


def _english(template: str, *values: object) -> str:
    return template.format(*values)


@dataclass(frozen=True)
class OutputComparison:
    """Generated texts of both models; a tie differs at a choice between equal scores."""

    search: str  # "greedy" or "beam 4"
    n: int
    equal: int
    ties: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def lines(self, translate: Translate = _english) -> Iterator[str]:
        """Printable lines.

        >>> tie = "text 2: from token 4 on, 0.000001 apart"
        >>> print(*OutputComparison("greedy", 3, 2, (tie,)).lines())
        greedy       2 of 3 texts equal, 1 ties   tie, text 2: from token 4 on, 0.000001 apart
        """
        counts = translate(", {} ties", len(self.ties)) if self.ties else ""
        counts += translate(", {} differ", len(self.others)) if self.others else ""
        equal = translate("{:,} of {:,} texts equal", self.equal, self.n)
        yield f"{self.search:<12} {equal}{counts}"
        yield from (translate("  tie, {}", tie) for tie in self.ties)
        yield from (translate("  differs, {}", other) for other in self.others)


@dataclass(frozen=True)
class NumericComparison:
    """The difference between exported and original model: max |a - b| / max(1, max |b|)."""

    what: str  # "logits", or "log p of every token"
    rows: str  # a description of the inputs
    difference: float
    tolerance: float
    searches: tuple[OutputComparison, ...] = ()

    def check_tolerance(self) -> None:
        """Raises JumokError if the difference exceeds the tolerance."""
        if not self.difference <= self.tolerance:  # NaN fails
            raise JumokError(
                "export.outputs_differ",
                "{what} of the exported model must differ by at most {tolerance:.0e}, got "
                "{difference:.1e}; nothing was saved, please report it with config.json",
                what=self.what,
                tolerance=self.tolerance,
                difference=self.difference,
            )

    def lines(self, translate: Translate = _english) -> Iterator[str]:
        """Printable lines."""
        bounds = self.difference, self.tolerance
        found = translate("{} of {}: at most {:.1e}, {:.0e} allowed", self.what, self.rows, *bounds)
        yield f"{pad(translate('difference'), 12)} {found}"
        for search in self.searches:
            yield from search.lines(translate)


@dataclass(frozen=True)
class QuantizationCost:
    """The scores of the exported model in float32 and in a smaller type, on the same rows."""

    rows: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    weights: str = "int8"

    def lines(self, translate: Translate = _english) -> Iterator[str]:
        """Printable lines.

        >>> cost = QuantizationCost("all 30 rows of dev", {"accuracy": 0.875}, {"accuracy": 0.870})
        >>> list(cost.lines())
        ['int8         on all 30 rows of dev', '  accuracy 0.8750 -> 0.8700 (-0.0050)']
        """
        yield f"{self.weights:<12} {translate('on {}', self.rows)}"
        for name, value in self.before.items():
            change = self.after[name] - value
            yield f"  {name} {value:.4f} -> {self.after[name]:.4f} ({change:+.4f})"


@dataclass(frozen=True)
class NotMeasured:
    """Why the cost of the smaller type was not measured."""

    reason: str
    weights: str = "int8"

    def lines(self, translate: Translate = _english) -> Iterator[str]:
        """Printable lines."""
        yield f"{self.weights:<12} {translate('not measured: {}', self.reason)}"


@dataclass(frozen=True)
class ExportReport:
    """The whole report; `int8` is the cost of smaller weights, of whichever type."""

    compared: NumericComparison
    int8: QuantizationCost | NotMeasured | None = None

    def lines(self, translate: Translate = _english) -> Iterator[str]:
        """Printable lines."""
        yield from self.compared.lines(translate)
        if self.int8 is not None:
            yield from self.int8.lines(translate)


def relative_difference(pairs: Iterable[tuple[Tensor, Tensor]]) -> float:
    """max |a - b| / max(1, max |b|) over all pairs of tensors of equal shapes.

    NaN if a number is NaN or infinite.

    >>> import torch
    >>> relative_difference([(torch.tensor([2.0, 4.0]), torch.tensor([2.0, 5.0]))])
    0.2
    """
    difference, largest = 0.0, 1.0
    for a, b in pairs:
        if not (a.isfinite().all() and b.isfinite().all()):
            return math.nan
        if b.numel():
            difference = max(difference, float((a - b).abs().max()))
            largest = max(largest, float(b.abs().max()))
    return difference / largest
