"""How well names were found: entities of BIO tags, right only from end to end and in kind."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class EntitySpan(NamedTuple):
    """A kind of thing, such as PS, and the places from `start` up to `stop` that name it."""

    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class EntityCounts:
    """How many entities there are, how many were named, and how many of those are right."""

    expected: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """The share of the named that are right; 0 when none was named."""
        return self.correct / max(self.predicted, 1)

    @property
    def recall(self) -> float:
        """The share of the wanted that were found; 0 when there are none."""
        return self.correct / max(self.expected, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.correct / max(self.expected + self.predicted, 1)


@dataclass(frozen=True)
class EntityMetrics:
    """All entities together, and kind by kind; `n` is the number of sentences."""

    n: int
    overall: EntityCounts
    by_kind: Mapping[str, EntityCounts]

    @property
    def f1(self) -> float:
        """Micro F1: every entity counts the same."""
        return self.overall.f1

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the kinds that are wanted or guessed: every kind counts the same."""
        return sum(found.f1 for found in self.by_kind.values()) / max(len(self.by_kind), 1)


def entities(tags: Sequence[str]) -> set[EntitySpan]:
    """The entities of a sentence: each begins with B-X and goes on through I-X of its kind.

    An I-X that follows no X begins nothing: this is strict IOB2, as KLUE scores it.

    >>> sorted(entities("B-PS I-PS O B-LC B-LC I-PS".split()))
    [Entity(kind='LC', start=3, stop=4), Entity(kind='LC', start=4, stop=5), \
Entity(kind='PS', start=0, stop=2)]
    """
    found: set[EntitySpan] = set()
    kind, start = "", 0
    for place, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            found.add(EntitySpan(kind, start, place))
            kind = ""
        if tag.startswith("B-"):
            kind, start = tag[2:], place
    return found


def entity_metrics(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> EntityMetrics:
    """Compare the tags of sentences; an entity is right when its kind, start and stop are.

    >>> scores = entity_metrics([["B-PS", "I-PS", "O", "B-LC"]], [["B-PS", "O", "O", "B-LC"]])
    >>> scores.f1, scores.kinds["PS"].f1
    (0.5, 0.0)
    """
    if len(labels) != len(predictions):
        raise ValueError(f"{len(labels)} sentences wanted, {len(predictions)} guessed; pair them")
    there: Counter[str] = Counter()
    named: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for number, (ours, theirs) in enumerate(zip(predictions, labels, strict=True), start=1):
        if len(ours) != len(theirs):
            raise ValueError(f"sentence {number}: {len(theirs)} tags wanted, {len(ours)} guessed")
        truth, guess = entities(theirs), entities(ours)
        there.update(entity.kind for entity in truth)
        named.update(entity.kind for entity in guess)
        right.update(entity.kind for entity in truth & guess)
    return EntityMetrics(
        len(labels),
        EntityCounts(there.total(), named.total(), right.total()),
        {
            kind: EntityCounts(there[kind], named[kind], right[kind])
            for kind in sorted(there.keys() | named.keys())
        },
    )
