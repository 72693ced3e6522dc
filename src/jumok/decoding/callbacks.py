"""Callbacks: functions that generation calls with each token, or with each step of one text.

Shapes: B rows being decoded, M continuations of them, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

OnToken = Callable[[int, int], None]
"""row, id: called for every generated token except the end token.

Row n_best * text + i is hypothesis i of a text. Beam search calls it when a text is done.
"""


@dataclass(frozen=True)
class StepResult:
    """The continuations of a step; those that did not end are the next step's rows, in order.

    A score of -inf marks a row that only fills the batch.

    >>> import torch
    >>> rows, ended = torch.tensor([0, 0]), torch.tensor([False, True])
    >>> step = StepResult(rows, torch.tensor([7, 3]), torch.tensor([-0.5, -1.0]), ended)
    >>> step.token[~step.ended].tolist()  # those that go on
    [7]
    """

    row: Tensor  # (M) int64: the row of this step that each continues
    token: Tensor  # (M) int64
    score: Tensor  # (M) float32: the sum over all its tokens
    ended: Tensor  # (M) bool: by the end token, a stop string or the limit


class StepCallback(Protocol):
    """Receives every step of the generation of one text, and changes nothing.

    >>> class Widths:
    ...     def __init__(self) -> None:
    ...         self.rows: list[int] = []
    ...
    ...     def on_scores(self, cached: int, log_p: Tensor, scores: Tensor) -> None:
    ...         self.rows.append(len(log_p))
    ...
    ...     def on_step(self, result: StepResult) -> None: ...
    >>> import jumok
    >>> model, widths = jumok.load("note", device="cpu").with_decoding(["beam=4"]), Widths()
    >>> _ = model.task.generate(model, ["겨울은 추워요."], callback=widths)
    >>> widths.rows[:2]  # one hypothesis at first, then four
    [1, 4]
    """

    def on_scores(self, cached: int, log_p: Tensor, scores: Tensor) -> None:
        """Called after each forward pass; `cached` positions were in the cache before it.

        log_p (B, V) are the model's log-probabilities, scores (B, V) the same after the
        processors: sampling draws from softmax(scores).
        """

    def on_step(self, result: StepResult) -> None:
        """Called at the end of each step."""
