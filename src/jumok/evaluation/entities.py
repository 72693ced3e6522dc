"""Metrics of named entities in BIO tags: correct if the span and the kind are."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class EntitySpan(NamedTuple):
    """An entity: its kind, such as PS, and the positions from `start` up to `stop`."""

    kind: str
    start: int
    stop: int


@dataclass(frozen=True)
class EntityCounts:
    """The numbers of expected, predicted and correctly predicted entities."""

    expected: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        """The fraction of predicted entities that are correct; 0 without predictions."""
        return self.correct / max(self.predicted, 1)

    @property
    def recall(self) -> float:
        """The fraction of expected entities that are predicted; 0 if there are none."""
        return self.correct / max(self.expected, 1)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.correct / max(self.expected + self.predicted, 1)


@dataclass(frozen=True)
class EntityMetrics:
    """Counts of all entities and of each kind; `n` is the number of sentences."""

    n: int
    overall: EntityCounts
    by_kind: Mapping[str, EntityCounts]

    @property
    def f1(self) -> float:
        """Micro F1: every entity has the same weight."""
        return self.overall.f1

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the expected or predicted kinds: every kind has the same weight."""
        return sum(found.f1 for found in self.by_kind.values()) / max(len(self.by_kind), 1)


def entities(tags: Sequence[str]) -> set[EntitySpan]:
    """The entities of a sentence: B-X followed by any number of I-X.

    An I-X that does not follow an X is ignored: strict IOB2, as in KLUE.

    >>> sorted(entities("B-PS I-PS O B-LC B-LC I-PS".split()))
    [EntitySpan(kind='LC', start=3, stop=4), EntitySpan(kind='LC', start=4, stop=5), \
EntitySpan(kind='PS', start=0, stop=2)]
    """
    found: set[EntitySpan] = set()
    kind, start = "", 0
    for i, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            found.add(EntitySpan(kind, start, i))
            kind = ""
        if tag.startswith("B-"):
            kind, start = tag[2:], i
    return found


def entity_metrics(
    labels: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]
) -> EntityMetrics:
    """Compare the tags of sentences; an entity is correct if its kind, start and stop are.

    >>> metrics = entity_metrics([["B-PS", "I-PS", "O", "B-LC"]], [["B-PS", "O", "O", "B-LC"]])
    >>> metrics.f1, metrics.by_kind["PS"].f1
    (0.5, 0.0)
    """
    if len(labels) != len(predictions):
        raise ValueError(
            f"there must be predictions for {len(labels)} sentences, got {len(predictions)}"
        )
    expected: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for number, (tags, guesses) in enumerate(zip(labels, predictions, strict=True), start=1):
        if len(guesses) != len(tags):
            raise ValueError(
                f"sentence {number}: there must be {len(tags)} predicted tags, got {len(guesses)}"
            )
        truth, guessed = entities(tags), entities(guesses)
        expected.update(entity.kind for entity in truth)
        predicted.update(entity.kind for entity in guessed)
        correct.update(entity.kind for entity in truth & guessed)
    return EntityMetrics(
        len(labels),
        EntityCounts(expected.total(), predicted.total(), correct.total()),
        {
            kind: EntityCounts(expected[kind], predicted[kind], correct[kind])
            for kind in sorted(expected.keys() | predicted.keys())
        },
    )
