"""What the trainer trains: a model, data in epochs, a loss and an evaluation."""

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor, nn

from jumok.data.resumable_loader import Epoch
from jumok.processes import SINGLE_PROCESS, ProcessGroup


class Batch(Protocol):
    """The input of a job's loss."""

    @property
    def tokens(self) -> int:
        """The number of tokens without padding, for the throughput."""

    @property
    def n_targets(self) -> int:
        """The number of texts or target tokens that the loss is summed over."""


BatchT = TypeVar("BatchT", bound=Batch)


@dataclass(frozen=True)
class DevResult:
    """The result of an evaluation on the development split."""

    loss: float
    score: float
    metric: str
    rows: int = 0  # that were scored; 0: unknown

    @property
    def standard_error(self) -> float:
        """The standard error of a share of the rows, such as accuracy; 0 for unknown rows.

        >>> round(DevResult(0.5, 0.8, "accuracy", rows=100).standard_error, 3)
        0.04
        """
        share = min(max(self.score, 0.0), 1.0)
        return math.sqrt(share * (1 - share) / self.rows) if self.rows else 0.0


class TrainingJob(Protocol[BatchT]):
    """A model, data in epochs, a loss and an evaluation."""

    @property
    def model(self) -> nn.Module:
        """The model to train."""

    def epoch(self, number: int) -> Epoch[BatchT]:
        """The batches of an epoch: a pure function of its number."""

    def loss(self, batch: BatchT) -> Tensor:
        """The loss of a batch, summed over its targets: ()."""

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The score on the development split, in eval mode; the processes share the work."""
