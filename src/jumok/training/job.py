"""What there is to learn, as a trainer sees it: a model, data in epochs, a loss and a score."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from torch import Tensor, nn

from jumok.data.resumable_loader import Epoch
from jumok.processes import SINGLE_PROCESS, ProcessGroup


class Batch(Protocol):
    """Whatever a job computes its loss of."""

    @property
    def tokens(self) -> int:
        """How many real tokens are in it: what speed is counted in."""

    @property
    def n_targets(self) -> int:
        """How many texts or real target tokens its loss is the sum of."""


B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class DevResult:
    """What an evaluation on the development split found."""

    loss: float
    score: float
    metric: str


class TrainingJob(Protocol[B]):
    """What there is to learn: a model, data in epochs, a loss and a score."""

    @property
    def model(self) -> nn.Module:
        """What learns."""

    def epoch(self, number: int) -> Epoch[B]:
        """The batches of an epoch: a pure function of its number."""

    def loss(self, batch: B) -> Tensor:
        """The loss of a batch, summed over its units: ()."""

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The score on the development split, in eval mode; the processes share the work."""
