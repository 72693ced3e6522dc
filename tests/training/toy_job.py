"""A toy job: classify points in the plane by whether they are inside a circle."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.nn.losses import cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import permutation
from jumok.tasks.inputs.batches import LazyBatches
from jumok.training.job import DevResult


@dataclass(frozen=True)
class Points:
    """Points (n, 2) and their classes (n,)."""

    at: Tensor
    side: Tensor

    @property
    def tokens(self) -> int:
        return len(self.side)

    @property
    def n_targets(self) -> int:
        return len(self.side)


def points(n: int, seed: int) -> Points:
    """Random points, half of them inside the circle."""
    at = torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))
    return Points(at, (at.norm(dim=1) > 1.18).long())


class Circle:
    """A training job: two layers with dropout learn the circle from batches of points."""

    def __init__(
        self,
        train: Points,
        *,
        batch: int | Sequence[int] = 8,
        dropout: float = 0.1,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        torch.manual_seed(seed)
        self.model: nn.Module = nn.Sequential(
            nn.Linear(2, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2)
        )
        self.train, self.dev, self.shuffle = train, points(50, seed=99), shuffle
        n = len(train.side)
        splits = np.cumsum([batch] * (n // batch) if isinstance(batch, int) else batch)
        self.splits = [split for split in splits if split < n]

    def epoch(self, number: int) -> LazyBatches[Points]:
        n = len(self.train.side)
        order = permutation(n, 0, number) if self.shuffle else np.arange(n)

        def make(chosen: np.ndarray) -> Points:
            rows = torch.from_numpy(chosen)
            return Points(self.train.at[rows], self.train.side[rows])

        return LazyBatches(np.split(order, self.splits), make)

    def loss(self, batch: Points) -> Tensor:
        return cross_entropy(self.model(batch.at), batch.side)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        logits = self.model(self.dev.at)
        loss = F.cross_entropy(logits, self.dev.side).item()
        right = (logits.argmax(-1) == self.dev.side).float().mean().item()
        return DevResult(loss, right, "accuracy", len(logits))
