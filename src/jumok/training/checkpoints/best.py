"""Which checkpoint a training ends with: the best one, or the best valid one.

The best checkpoint may be damaged while the training continues. Then its score is lost, and the
best of the remaining checkpoints is used.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from jumok.errors import CheckpointError
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.reporting.metrics import LogRecord
from jumok.training.state import is_better


def validation_error(store: CheckpointStore, step: int) -> str:
    """Why the checkpoint of a step cannot be used; empty if it can."""
    try:
        store.checkpoint(step)
    except CheckpointError as error:
        return str(error.__cause__ or error)
    return ""


def missing_best_warning(store: CheckpointStore, step: int) -> str:
    """A warning that the best checkpoint so far cannot be used; empty if it can.

    A resumed training logs it at its start, when a valid copy may still be available.
    """
    error = validation_error(store, step)
    return error and (
        f"step-{step}, the best so far, cannot be used ({error}); copy a valid one back before "
        "the training ends, or it is not considered"
    )


def best_valid(
    store: CheckpointStore,
    best: int,
    score: float,
    metadata: Mapping[str, Any],
    records: Iterable[LogRecord],
) -> tuple[int, float, str]:
    """The step and score of the checkpoint to use, and why it is not the best one.

    It is the best of the others, the first of equals, or the newest if no score is known; without
    any other valid checkpoint the best one, and opening it raises its error. `metadata` is that of
    the run: checkpoints of other runs are not considered.
    """
    scored = not math.isnan(score)
    error = validation_error(store, best) if scored else "no evaluation gave a score"
    others = [each for each in store.last() if each.belongs_to(metadata)] if error else []
    if not others:
        return best, score, ""
    scores = {
        int(record["step"] or 0): (str(record["metric"]), _number(record["score"]))
        for record in records
        if record["kind"] == "dev"
    }
    step, found, metric = others[0].step, math.nan, ""  # the newest
    for checkpoint in reversed(others):
        name, value = scores.get(checkpoint.step, ("", math.nan))
        if is_better(name, value, found):
            step, found, metric = checkpoint.step, value, name
    which = "the newest" if math.isnan(found) else f"the best valid one, {metric} {found:.4f}"
    reason = f"step-{best}, the best, cannot be used ({error})" if scored else error
    return step, found, f"{reason}; the weights are those of step-{step}, {which}"


def _number(score: str | float | None) -> float:
    return float(score) if isinstance(score, int | float) else math.nan
