"""Batches and packed rows: every example exactly once, no budget exceeded, the same every time."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from jumok.data.packing import Ints, fill_packed, length_batches, pad, plan_packing
from jumok.seeding import permutation

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=60)
PAIRS = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=60)


def plan(lengths: Ints, budget: int, seed: int) -> list[Ints]:
    order = permutation(len(lengths), seed, epoch=0)
    return length_batches(lengths, order, budget, np.random.default_rng(seed))


def rows_of(lengths: list[int]) -> list[NDArray[np.int32]]:
    """Rows of these lengths; no two tokens are the same."""
    ends = np.cumsum(lengths)
    return [np.arange(end - n, end, dtype=np.int32) for n, end in zip(lengths, ends, strict=True)]


@given(LENGTHS | PAIRS, st.integers(1, 200), st.integers(0, 3))
def test_every_example_once_and_no_batch_over_the_budget(
    lengths: list[int] | list[tuple[int, int]], budget: int, seed: int
) -> None:
    table = np.array(lengths)
    batches = plan(table, budget, seed)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(table)))
    for batch in batches:
        sides = table[batch].reshape(len(batch), -1)
        assert len(batch) == 1 or len(batch) * sides.max(0).sum() <= budget


@given(LENGTHS, st.integers(40, 200))
def test_a_batch_holds_neighbours_in_length(lengths: list[int], budget: int) -> None:
    """Sorted by their shortest text, batches do not overlap."""
    table = np.array(lengths)
    spans = sorted((table[b].min(), table[b].max()) for b in plan(table, budget, seed=0))
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@given(LENGTHS, st.integers(1, 200), st.integers(0, 3))
def test_batches_follow_from_the_seed(lengths: list[int], budget: int, seed: int) -> None:
    table = np.array(lengths)
    first, again = plan(table, budget, seed), plan(table, budget, seed)
    assert [b.tolist() for b in first] == [b.tolist() for b in again]


def test_another_seed_mixes_texts_of_one_length_and_the_batches() -> None:
    lengths = np.full(200, 5)
    first, second = (plan(lengths, 50, seed) for seed in (0, 1))
    assert {frozenset(b.tolist()) for b in first} != {frozenset(b.tolist()) for b in second}
    lengths = np.arange(1, 101)
    firsts = [[int(b[0]) for b in plan(lengths, 100, seed)] for seed in (0, 1)]
    assert sorted(firsts[0]) == sorted(firsts[1])
    assert firsts[0] != firsts[1]


@given(LENGTHS, st.integers(40, 100), st.integers(0, 3))
def test_packed_rows_hold_every_text_once(lengths: list[int], width: int, seed: int) -> None:
    examples = rows_of(lengths)
    packed = plan_packing(lengths, permutation(len(lengths), seed, epoch=0), width)
    rows = [packed[i].tolist() for i in range(len(packed))]
    assert sorted(example for row in rows for example in row) == list(range(len(lengths)))
    filled = fill_packed(rows, examples, width, pad_id=-7)
    assert (
        filled.ids.shape
        == filled.document_ids.shape
        == filled.positions.shape
        == (len(rows), width)
    )
    standing = [example for row in rows for example in row]
    for number, example in enumerate(standing):
        here = filled.document_ids == number
        assert filled.ids[here].tolist() == examples[example].tolist()
        assert filled.positions[here].tolist() == list(range(lengths[example]))
    padding = filled.document_ids == -1
    assert (filled.ids[padding] == -7).all()
    assert int((~padding).sum()) == sum(lengths)


def test_packing_has_little_padding() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, 2000)
    rows = plan_packing(lengths, np.arange(2000), 128)
    assert lengths.sum() / (len(rows) * 128) > 0.97  # 2000 texts; a fuller row is luck


def test_a_text_wider_than_the_row_is_refused() -> None:
    with pytest.raises(ValueError, match="must have at most 5 tokens, got 6"):
        plan_packing([3, 6], np.arange(2), 5)


@given(st.lists(st.integers(0, 9), max_size=12), st.booleans())
def test_padding_is_on_one_side_and_masked(lengths: list[int], left: bool) -> None:
    rows = rows_of(lengths)
    box = pad(rows, pad_id=-7, left=left)
    width = max([*lengths, 1])
    assert box.ids.shape == box.mask.shape == (len(lengths), width)
    assert box.mask.sum(1).tolist() == lengths
    assert [line[mask].tolist() for line, mask in zip(box.ids, box.mask, strict=True)] == [
        row.tolist() for row in rows
    ]
    assert (box.ids[~box.mask] == -7).all()
    steps = np.diff(box.mask.astype(int), axis=1)
    assert (steps >= 0).all() if left else (steps <= 0).all()
