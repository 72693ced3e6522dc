"""Which of two scores is better, for every metric of a recipe."""

import math

import pytest

from jumok.tasks.registry import TASKS, get_task
from jumok.training.state import is_better

HIGHER = {
    "accuracy": True,
    "macro_f1": True,
    "micro_f1": True,
    "pearson": True,
    "spearman": True,
    "entity_f1": True,
    "exact_match": True,
    "bleu": True,
    "chrf": True,
    "perplexity": False,
    "bits_per_byte": False,
}  # whether a higher score is better


def test_every_metric_has_a_direction() -> None:
    metrics = {metric for name in TASKS.names() for metric in get_task(name).metrics}
    assert metrics == HIGHER.keys()


@pytest.mark.parametrize(("metric", "higher"), HIGHER.items())
def test_the_better_score_wins(metric: str, higher: bool) -> None:
    assert is_better(metric, 2.0, 1.0) is higher
    assert is_better(metric, 1.0, 2.0) is not higher
    assert not is_better(metric, 1.0, 1.0)  # the first of equals is kept


@pytest.mark.parametrize("metric", HIGHER)
def test_anything_beats_nan_and_nan_beats_nothing(metric: str) -> None:
    assert is_better(metric, 1.0, math.nan)
    assert not is_better(metric, math.nan, 1.0)
    assert not is_better(metric, math.nan, math.nan)
