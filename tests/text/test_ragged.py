"""Rows of ids without padding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.text.ragged import Ragged

rows_of_ids = st.lists(st.lists(st.integers(0, 2**31 - 1), max_size=6), max_size=12)


@given(rows_of_ids)
def test_lists_in_are_rows_out(rows: list[list[int]]) -> None:
    ragged = Ragged.from_lists(rows)
    assert [row.tolist() for row in (ragged[i] for i in range(len(ragged)))] == rows
    assert ragged.lengths.tolist() == [len(row) for row in rows]
    assert (ragged.ids.dtype, ragged.offsets.dtype) == (np.int32, np.int64)
    assert ragged.offsets[0] == 0
    assert ragged.offsets[-1] == len(ragged.ids)


@given(rows_of_ids.filter(bool), st.data())
def test_take_is_a_list_of_rows(rows: list[list[int]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1)))
    taken = Ragged.from_lists(rows).take(chosen)
    assert [row.tolist() for row in (taken[i] for i in range(len(taken)))] == [
        rows[i] for i in chosen
    ]


def test_rows_are_counted_like_a_list() -> None:
    ragged = Ragged.from_lists([[1], [2, 3]])
    assert ragged[-1].tolist() == [2, 3]
    with pytest.raises(IndexError, match="row 2 of 2"):
        ragged[2]


@given(rows_of_ids.filter(bool), st.integers(0, 6))
def test_rows_are_truncated_on_either_side(rows: list[list[int]], length: int) -> None:
    ragged = Ragged.from_lists(rows)
    right, left = ragged.truncate(length), ragged.truncate(length, "left")
    assert [row.tolist() for row in right] == [row[:length] for row in rows]
    assert [row.tolist() for row in left] == [row[max(len(row) - length, 0) :] for row in rows]
