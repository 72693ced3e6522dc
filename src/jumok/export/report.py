"""What is told of an export: whether it gives the same, and what int8 costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from jumok.errors import JumokError


@dataclass(frozen=True)
class Searched:
    """Texts written by both: a tie is a text that parts where two choices are equally good."""

    search: str  # "greedy" or "beam 4"
    n: int
    equal: int
    ties: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """For people.

        >>> print(*Searched("greedy", 3, 2, ("text 2: from token 4 on, 0.000001 apart",)).lines())
        greedy       2 of 3 texts equal, 1 ties   tie, text 2: from token 4 on, 0.000001 apart
        """
        told = f", {len(self.ties)} ties" if self.ties else ""
        told += f", {len(self.others)} differ" if self.others else ""
        yield f"{self.search:<12} {self.equal:,} of {self.n:,} texts equal{told}"
        yield from (f"  tie, {tie}" for tie in self.ties)
        yield from (f"  differs, {other}" for other in self.others)


@dataclass(frozen=True)
class Compared:
    """How far the exported numbers are from ours: max |a - b| / max(1, max |b|)."""

    what: str  # "logits", or "log p of every token"
    rows: str  # what they were computed of
    difference: float
    tolerance: float
    searches: tuple[Searched, ...] = ()

    def refuse_other_numbers(self) -> None:
        """Raises JumokError when the exported model does not give the same."""
        if not self.difference <= self.tolerance:  # NaN is no equality
            raise JumokError(
                f"the exported model differs by {self.difference:.1e} in the {self.what}, "
                f"{self.tolerance:.0e} is allowed, so it was not kept; report it with the run's "
                "config.json"
            )

    def lines(self) -> Iterator[str]:
        """For people."""
        yield (
            f"{'equal':<12} {self.what} of {self.rows} differ by {self.difference:.1e} at most, "
            f"{self.tolerance:.0e} is allowed"
        )
        for searched in self.searches:
            yield from searched.lines()


@dataclass(frozen=True)
class Cost:
    """The scores of the exported model in float32 and in int8, on the same rows."""

    rows: str
    before: Mapping[str, float]
    after: Mapping[str, float]

    def lines(self) -> Iterator[str]:
        """For people.

        >>> list(Cost("all 30 rows of dev", {"accuracy": 0.875}, {"accuracy": 0.870}).lines())
        ['int8         on all 30 rows of dev', '  accuracy 0.8750 -> 0.8700 (-0.0050)']
        """
        yield f"{'int8':<12} on {self.rows}"
        for name, value in self.before.items():
            change = self.after[name] - value
            yield f"  {name} {value:.4f} -> {self.after[name]:.4f} ({change:+.4f})"


@dataclass(frozen=True)
class Unmeasured:
    """Why nobody knows what int8 costs here."""

    reason: str

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{'int8':<12} not measured: {self.reason}"


@dataclass(frozen=True)
class Outcome:
    """All that is told; `int8` is None for a model in float32."""

    compared: Compared
    int8: Cost | Unmeasured | None = None

    def lines(self) -> Iterator[str]:
        """For people."""
        yield from self.compared.lines()
        if self.int8 is not None:
            yield from self.int8.lines()
