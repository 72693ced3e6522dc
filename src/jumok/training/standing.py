"""Where a training stands: all that a checkpoint holds besides tensors."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
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

    @property
    def best_steps(self) -> tuple[int, int]:
        """The steps whose checkpoints must stay."""
        return self.best_step, self.best_step_before

    def facts(self) -> dict[str, Any]:
        """As JSON; a score or a loss that is not there yet is null."""
        return {name: _null(value) for name, value in asdict(self).items()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Progress":
        """What `facts` wrote."""
        known: dict[str, Any] = {k: math.nan if v is None else v for k, v in facts.items()}
        return cls(**known)


def _null(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value
