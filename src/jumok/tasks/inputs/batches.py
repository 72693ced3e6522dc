"""Tables of ids cut into batches for a model: the same cut for training and for answering."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.packing import Row, bucketed, pad
from jumok.text.ragged import Ragged

ANSWERING_TOKENS = 4_096  # of a batch when nothing is learned; larger ones are no faster

B = TypeVar("B")


@dataclass(frozen=True)
class PaddedIds:
    """ids (B, T) int64 on the model's device; real (B, T) bool, None when nothing is padding."""

    ids: Tensor
    real: Tensor | None

    @property
    def n_real(self) -> int:
        """How many of the ids are real tokens."""
        return self.ids.numel() if self.real is None else int(self.real.sum())


def padded(
    rows: Sequence[Row], pad_id: int, device: torch.device, *, left: bool = False
) -> PaddedIds:
    """The rows as one rectangle on the device."""
    box = pad(rows, pad_id, left=left)
    real = None if box.real.all() else torch.from_numpy(box.real).to(device)
    return PaddedIds(torch.from_numpy(box.ids).to(device), real)


@dataclass(frozen=True)
class Batches(Generic[B]):
    """The batches of one epoch: which examples each holds, and how it is made of them."""

    plan: Sequence[NDArray[np.int64]]
    make: Callable[[NDArray[np.int64]], B]

    def __len__(self) -> int:
        return len(self.plan)

    def __getitem__(self, index: int) -> B:
        return self.make(self.plan[index])


def in_order_of_length(rows: Ragged, batch_tokens: int) -> list[NDArray[np.int64]]:
    """Batches of like length for answering: each example once, longest last."""
    plan = bucketed(rows.lengths, np.arange(len(rows)), batch_tokens, np.random.default_rng(0))
    return sorted(plan, key=lambda batch: int(rows.lengths[batch].max()))
