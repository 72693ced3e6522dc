"""Looking on: what each step of the writing of one text shows to somebody who changes nothing.

Shapes: B rows being written, M continuations of them, V vocabulary.
"""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True)
class StepResult:
    """What a step made of its rows; those that did not end are the next step's rows, in order.

    A score of -inf says that there is nothing: its row only fills the batch.
    """

    row: Tensor  # (M) int64: the row of this step that each goes on from
    token: Tensor  # (M) int64
    score: Tensor  # (M) float32: what all its tokens add up to
    ended: Tensor  # (M) bool: by the end token, a stop text or the limit


class StepCallback(Protocol):
    """Somebody who looks on while one text is written."""

    def on_scores(self, cached: int, log_p: Tensor, scores: Tensor) -> None:
        """The model has read the newest tokens; `cached` positions were read before.

        log_p (B, V) are the model's own log-probabilities, scores (B, V) what the processors made
        of them: softmax(scores) is what a draw is made from.
        """

    def on_step(self, continuations: StepResult) -> None:
        """The step is over, and this came of it."""
