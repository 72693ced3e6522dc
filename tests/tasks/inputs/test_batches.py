"""Rows of ids as padded batches: nothing lost, padding masked, long rows last in evaluation."""

import numpy as np
import torch

from jumok.tasks.inputs.batches import LazyBatches, batches_by_length, collate
from jumok.text.ragged import Ragged

CPU = torch.device("cpu")


def test_collate() -> None:
    rows = [np.array([5, 6, 7], np.int32), np.array([8], np.int32)]
    box = collate(rows, pad_id=3, device=CPU)
    assert box.input_ids.tolist() == [[5, 6, 7], [8, 3, 3]]
    assert box.input_ids.dtype == torch.int64
    assert box.attention_mask is not None
    assert box.attention_mask.tolist() == [[True, True, True], [True, False, False]]
    assert box.n_tokens == 4


def test_rows_of_equal_length_have_no_mask() -> None:
    box = collate([np.array([5, 6], np.int32)] * 3, pad_id=0, device=CPU)
    assert box.attention_mask is None
    assert box.n_tokens == 6


def test_lazy_batches_are_built_on_access() -> None:
    made: list[list[int]] = []

    def make(examples: np.ndarray) -> int:  # type: ignore[type-arg]
        made.append(examples.tolist())
        return int(examples.sum())

    batches = LazyBatches([np.array([0, 2]), np.array([1])], make)
    assert len(batches) == 2
    assert made == []
    assert (batches[1], batches[0]) == (1, 2)
    assert made == [[1], [0, 2]]


def test_batches_by_length_have_every_row_once_the_longest_last() -> None:
    rng = np.random.default_rng(0)
    rows = Ragged.from_lists([[1] * n for n in rng.integers(1, 50, 200)])
    plan = batches_by_length(rows, 200)
    assert sorted(np.concatenate(plan).tolist()) == list(range(200))
    longest = [int(rows.lengths[batch].max()) for batch in plan]
    assert longest == sorted(longest)
    assert batches_by_length(Ragged.from_lists([]), 200) == []
