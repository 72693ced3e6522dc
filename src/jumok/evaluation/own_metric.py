"""Metrics of one's own: functions of the expected and the predicted answers of all rows.

An answer is a label, a tuple of labels, a score, the tags of the characters of a text or a
generated text, as the task has it. Higher is better.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from jumok.errors import InputError
from jumok.registry import Registry

Metric = Callable[[Sequence[Any], Sequence[Any]], float]

METRICS: Registry[Metric] = Registry("jumok.metrics", "metric")


def own_scores(
    name: str | None, expected: Sequence[Any], predicted: Sequence[Any]
) -> dict[str, float]:
    """The score of the metric with this name if it is one of one's own, else nothing.

    Raises InputError for a metric that returns no finite number: it could choose no checkpoint.

    >>> from jumok.registry import register
    >>> same = register("jumok.metrics", "rows")(lambda expected, predicted: len(expected))
    >>> own_scores("rows", ["good", "bad"], ["good", "good"]), own_scores("accuracy", [], [])
    ({'rows': 2.0}, {})
    """
    if name is None or name not in METRICS:
        return {}
    found = METRICS.get(name)(expected, predicted)
    with suppress(TypeError, ValueError):
        if math.isfinite(score := float(found)):
            return {name: score}
    raise InputError(
        "evaluation.metric_without_number",
        "the metric {name} must return a finite number, got {found!r:.60}",
        name=name,
        found=found,
    )
