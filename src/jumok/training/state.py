"""The trainer's state: everything in a checkpoint besides tensors."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from jumok import config_io
from jumok.errors import InputError

EndReason = Literal["", "done", "minutes", "patience", "callback"]

LOSS_DECAY = 0.98  # of the running mean of the loss, each step
LOWER_IS_BETTER = frozenset({"loss", "perplexity", "bits_per_byte"})
MAX_COUNT = 2**53  # every integer below is a float64, in which processes exchange them
_MAY_BE_NAN = ("best_score", "mean_loss")  # null in JSON


def is_better(metric: str, score: float, best: float) -> bool:
    """Whether a score beats the best so far; anything beats NaN, and NaN beats nothing.

    >>> is_better("accuracy", 0.9, 0.8), is_better("perplexity", 9.0, 8.0)
    (True, False)
    """
    if math.isnan(score):
        return False
    if math.isnan(best):
        return True
    return score < best if metric in LOWER_IS_BETTER else score > best


@dataclass(frozen=True)
class TrainerState:
    """Counts, the best score so far, and why the training ended, if it did."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_step: int = 0
    best_step_before: int = 0  # kept until the next commit, in case the newest is damaged
    best_score: float = math.nan  # no score yet: any is better
    evaluations_since_best: int = 0
    seconds: float = 0.0
    mean_loss: float = math.nan  # exponential moving average over the applied steps
    skipped: int = 0  # steps that were not applied
    skipped_in_a_row: int = 0
    ended: EndReason = ""  # why the training ended; empty while it runs

    def after_step(self, loss: float) -> "TrainerState":
        """After an applied step with this loss.

        >>> first = TrainerState().after_step(5.0)
        >>> first.mean_loss, first.after_step(4.0).mean_loss
        (5.0, 4.98)
        """
        first = math.isnan(self.mean_loss)
        mean = loss if first else LOSS_DECAY * self.mean_loss + (1 - LOSS_DECAY) * loss
        return replace(self, mean_loss=mean, skipped_in_a_row=0)

    def after_skip(self) -> "TrainerState":
        """After a step that was not applied."""
        in_a_row = self.skipped_in_a_row + 1
        return replace(self, skipped=self.skipped + 1, skipped_in_a_row=in_a_row)

    def after_eval(self, metric: str, score: float, margin: float = 0.0) -> "TrainerState":
        """After an evaluation at this step, which may be worse than the best one by a margin.

        While the score is 0, which compares nothing, the newest weights are the best ones.

        >>> first = TrainerState(step=10).after_eval("accuracy", 0.8)
        >>> first.best_step, first.after_eval("accuracy", 0.8).evaluations_since_best
        (10, 1)
        >>> within = first.after_eval("accuracy", 0.78, margin=0.05)  # kept, but no better score
        >>> within.best_score, within.evaluations_since_best
        (0.78, 1)
        >>> below = first.after_eval("accuracy", 0.82, margin=-0.05)  # better, but not by enough
        >>> below.best_score, below.evaluations_since_best
        (0.8, 1)
        >>> nothing = TrainerState(step=10).after_eval("bleu", 0.0)
        >>> replace(nothing, step=20).after_eval("bleu", 0.0).best_step
        20
        """
        higher = is_better(metric, score, self.best_score)
        if metric in LOWER_IS_BETTER:
            margin = -margin
        better = is_better(metric, score + margin, self.best_score)
        nothing_right = score == self.best_score == 0 and metric not in LOWER_IS_BETTER
        return replace(
            self,
            best_step=self.step if better or nothing_right else self.best_step,
            best_step_before=self.best_step,
            best_score=score if better else self.best_score,
            evaluations_since_best=0 if better and higher else self.evaluations_since_best + 1,
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values; a missing score or loss is null."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], microbatches_per_step: int) -> "TrainerState":
        """The inverse of `to_dict`.

        Raises InputError, which names the field, for an unknown, missing or impossible one: no
        training of so many microbatches a step has it.

        >>> TrainerState.from_dict(TrainerState(step=2).to_dict() | {"epoch": 9}, 4)
        Traceback (most recent call last):
        jumok.errors.InputError: progress.epoch must be from 0 to 8, got 9
        """
        if not isinstance(content, Mapping):
            raise InputError("training.progress_not_a_table", "progress must be a table")
        unknown = {name for name in _MAY_BE_NAN if content.get(name, 0.0) is None}
        known = {**content, **dict.fromkeys(unknown, 0.0)}
        state = config_io.from_dict(cls, known, "progress", complete=True)
        steps = ("best_step", "best_step_before", "evaluations_since_best", "skipped")
        most = dict.fromkeys(steps, state.step)
        most |= dict.fromkeys(("epoch", "batch"), state.step * microbatches_per_step)
        most |= {"skipped_in_a_row": state.skipped, "step": MAX_COUNT - 1, "seconds": MAX_COUNT - 1}
        for name, highest in most.items():
            value = getattr(state, name)
            if not 0 <= value <= highest:
                raise InputError(
                    "training.progress_range",
                    "progress.{name} must be from 0 to {highest:,}, got {value:g}",
                    name=name,
                    highest=highest,
                    value=value,
                )
        missing: dict[str, Any] = dict.fromkeys(unknown, math.nan)
        return replace(state, **missing)
