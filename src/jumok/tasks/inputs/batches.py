"""Rows of ids as padded batches on a device, for training and for prediction."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.packing import TokenIds, length_batches, pad
from jumok.language import translate
from jumok.terminal import counted
from jumok.text.ragged import Ragged

EVAL_BATCH_TOKENS = 4_096  # padded tokens of a batch in eval mode; larger ones are not faster
IGNORE_INDEX = -1  # the label of [CLS], padding and pieces without characters

BatchT = TypeVar("BatchT")


@dataclass(frozen=True)
class PaddedBatch:
    """Rows of ids of one length on the model's device."""

    input_ids: Tensor  # (B, T) int64
    attention_mask: Tensor | None  # (B, T) bool, True = real token; None without padding

    @property
    def n_tokens(self) -> int:
        """The number of tokens without padding."""
        mask = self.attention_mask
        return self.input_ids.numel() if mask is None else int(mask.sum())


def collate(
    rows: Sequence[TokenIds], pad_id: int, device: torch.device, *, left: bool = False
) -> PaddedBatch:
    """Pad the rows to one length and copy them to the device."""
    padded = pad(rows, pad_id, left=left)
    mask = None if padded.mask.all() else torch.from_numpy(padded.mask).to(device)
    return PaddedBatch(torch.from_numpy(padded.ids).to(device), mask)


@dataclass(frozen=True)
class LazyBatches(Generic[BatchT]):
    """The batches of one epoch, each built from the indices of its examples when it is read."""

    index_batches: Sequence[NDArray[np.int64]]
    build: Callable[[NDArray[np.int64]], BatchT]

    def __len__(self) -> int:
        return len(self.index_batches)

    def __getitem__(self, index: int) -> BatchT:
        return self.build(self.index_batches[index])


class ShardedBatches(Generic[BatchT]):
    """The batches of an epoch that is planned in shards, so that one plan is in memory at a time.

    >>> build = lambda batch: batch.tolist()
    >>> plans = [LazyBatches([np.arange(2)], build), LazyBatches([np.arange(3)], build)]
    >>> batches = ShardedBatches(plans.__getitem__, 2)
    >>> len(batches), batches[1]
    (2, [0, 1, 2])
    """

    def __init__(self, plan: Callable[[int], LazyBatches[BatchT]], n_shards: int) -> None:
        self._plan = lru_cache(maxsize=1)(plan)
        shown = translate("planned {n:,} of {total:,} parts of an epoch")
        shards = counted(range(n_shards), shown, n_shards)
        self._ends = list(accumulate(len(self._plan(shard)) for shard in shards))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> BatchT:
        shard = bisect_right(self._ends, index)
        plan = self._plan(shard)
        return plan[index - self._ends[shard] + len(plan)]


def batches_by_length(
    rows: Ragged | NDArray[np.int64], batch_tokens: int
) -> list[NDArray[np.int64]]:
    """Batches of rows of similar length for evaluation: each row once, the longest last.

    Instead of the rows their lengths (n,), or (n, 2) of two sides, whose padded sum counts.
    """
    if len(rows) == 1:  # as of a server
        return [np.zeros(1, np.int64)]
    lengths = rows.lengths if isinstance(rows, Ragged) else rows
    order, rng = np.arange(len(lengths)), np.random.default_rng(0)
    index_batches = length_batches(lengths, order, batch_tokens, rng)
    return sorted(index_batches, key=lambda batch: int(lengths[batch].max()))
