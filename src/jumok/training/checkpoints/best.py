"""Which checkpoint's weights a training leaves: the best one's, or those of the best that is sound.

A best checkpoint may rot while the training goes on. Then its score is nobody's any more, and the
best of the others is taken rather than none.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jumok.errors import CheckpointError
from jumok.training.better import is_better
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.reporting.metrics import LogRecord


def fault_of(store: CheckpointStore, step: int) -> str:
    """Why the checkpoint of a step cannot be used; empty when it can."""
    try:
        store.checkpoint(step)
    except CheckpointError as error:
        return str(error.__cause__ or error)
    return ""


def tell_lost(store: CheckpointStore, step: int) -> str:
    """What is to be said while the best checkpoint so far cannot be used; empty when it can.

    At once when a training goes on, as a sound copy may be at hand then.
    """
    fault = fault_of(store, step)
    return fault and (
        f"step-{step}, the best so far, cannot be used ({fault}); copy a sound one back before "
        "the training ends, or it is left out"
    )


def best_sound(
    store: CheckpointStore,
    best: int,
    score: float,
    facts: Mapping[str, Any],
    records: Iterable[LogRecord],
) -> tuple[int, float, str]:
    """The step and score of the checkpoint to take for the best one, and why another is taken.

    `facts` are those of the run: a checkpoint of another one is not taken. Where there is no other
    it stays the best one, and what is damaged about it is told when it is opened.
    """
    fault = fault_of(store, best) if best else "no evaluation gave a score"
    others = [each for each in store.last() if each.belongs_to(facts)] if fault else []
    if not others:
        return best, score, ""
    scores = scores_in(records)
    step = best_of(others, scores)
    metric, found = scores.get(step, ("", math.nan))
    scored = not math.isnan(found)
    why = f"the best of those that can, {metric} {found:.4f}" if scored else "the newest"
    lost = f"step-{best}, the best, cannot be used ({fault})" if best else fault
    return step, found, f"{lost}; the weights are those of step-{step}, {why}"


def best_of(checkpoints: Sequence[Checkpoint], scores: Mapping[int, tuple[str, float]]) -> int:
    """The step of the best of these, the first of equals; the newest where no score is known.

    The checkpoints come newest first, the metric and score of an evaluation by its step.
    """
    step, top = checkpoints[0].step, math.nan
    for checkpoint in reversed(checkpoints):
        metric, score = scores.get(checkpoint.step, ("", math.nan))
        if is_better(metric, score, top):
            step, top = checkpoint.step, score
    return step


def scores_in(reports: Iterable[LogRecord]) -> dict[int, tuple[str, float]]:
    """The metric and score of every evaluation, by its step; NaN where it gave no number."""
    return {
        int(report["step"] or 0): (str(report["metric"]), _number(report["score"]))
        for report in reports
        if report["kind"] == "dev"
    }


def _number(score: str | float | None) -> float:
    return float(score) if isinstance(score, int | float) else math.nan
