"""Tables of ids cut into batches for a model: the same cut for training and for answering."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.packing import TokenIds, length_batches, pad
from jumok.text.ragged import Ragged

EVAL_BATCH_TOKENS = 4_096  # of a batch when nothing is learned; larger ones are no faster

BatchT = TypeVar("B")


@dataclass(frozen=True)
class PaddedBatch:
    """ids (B, T) int64 on the model's device; real (B, T) bool, None when nothing is padding."""

    input_ids: Tensor
    attention_mask: Tensor | None

    @property
    def n_tokens(self) -> int:
        """How many of the ids are real tokens."""
        return (
            self.input_ids.numel()
            if self.attention_mask is None
            else int(self.attention_mask.sum())
        )


def collate(
    rows: Sequence[TokenIds], pad_id: int, device: torch.device, *, left: bool = False
) -> PaddedBatch:
    """The rows as one rectangle on the device."""
    box = pad(rows, pad_id, left=left)
    real = None if box.mask.all() else torch.from_numpy(box.mask).to(device)
    return PaddedBatch(torch.from_numpy(box.ids).to(device), real)


@dataclass(frozen=True)
class LazyBatches(Generic[BatchT]):
    """The batches of one epoch: which examples each holds, and how it is made of them."""

    index_batches: Sequence[NDArray[np.int64]]
    build: Callable[[NDArray[np.int64]], BatchT]

    def __len__(self) -> int:
        return len(self.index_batches)

    def __getitem__(self, index: int) -> BatchT:
        return self.build(self.index_batches[index])


def batches_by_length(rows: Ragged, batch_tokens: int) -> list[NDArray[np.int64]]:
    """Batches of like length for answering: each example once, longest last."""
    plan = length_batches(
        rows.lengths, np.arange(len(rows)), batch_tokens, np.random.default_rng(0)
    )
    return sorted(plan, key=lambda batch: int(rows.lengths[batch].max()))
