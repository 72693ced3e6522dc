"""Where a training stands: all that a checkpoint holds besides tensors."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from jumok.training.better import is_better

KEPT = 0.98  # of the running mean, each step


@dataclass(frozen=True)
class TrainerState:
    """Counts, the best score so far, and why the training ended, if it did."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_step: int = 0
    best_step_before: int = 0  # kept until the next commit, should the newest be damaged
    best_score: float = math.nan  # no score yet: any is better
    evaluations_since_best: int = 0
    seconds: float = 0.0
    mean_loss: float = math.nan  # of the steps taken, old ones fading
    skipped: int = 0  # steps that were not taken
    skipped_in_a_row: int = 0
    ended: str = ""  # why the training is over; empty while it goes on

    def after_step(self, loss: float) -> "TrainerState":
        """After a step with this loss: its mean, old ones fading.

        >>> Progress().taken(5.0).mean_loss, Progress().taken(5.0).taken(4.0).mean_loss
        (5.0, 4.98)
        """
        first = math.isnan(self.mean_loss)
        mean = loss if first else KEPT * self.mean_loss + (1 - KEPT) * loss
        return replace(self, mean_loss=mean, skipped_in_a_row=0)

    def after_skip(self) -> "TrainerState":
        """After a step that was not taken."""
        in_a_row = self.skipped_in_a_row + 1
        return replace(self, skipped=self.skipped + 1, skipped_in_a_row=in_a_row)

    def after_eval(self, metric: str, score: float) -> "TrainerState":
        """After an evaluation at this step.

        >>> first = Progress(step=10).evaluated("accuracy", 0.8)
        >>> first.best_step, first.evaluated("accuracy", 0.8).evaluations_since_best
        (10, 1)
        """
        better = is_better(metric, score, self.best_score)
        return replace(
            self,
            best_step=self.step if better else self.best_step,
            best_step_before=self.best_step,
            best_score=score if better else self.best_score,
            evaluations_since_best=0 if better else self.evaluations_since_best + 1,
        )

    @property
    def best_steps(self) -> tuple[int, int]:
        """The steps whose checkpoints must stay."""
        return self.best_step, self.best_step_before

    def to_dict(self) -> dict[str, Any]:
        """As JSON; a score or a loss that is not there yet is null."""
        return {name: _null(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> "TrainerState":
        """What `facts` wrote."""
        known: dict[str, Any] = {k: math.nan if v is None else v for k, v in facts.items()}
        return cls(**known)


def _null(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
