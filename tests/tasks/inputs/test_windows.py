"""Windows over documents: each token is predicted once, with the specified context."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.data.packing import plan_packing
from jumok.errors import InputError
from jumok.tasks.inputs.windows import WindowRows, Windows, add_bos_eos, concatenate
from jumok.tasks.recipe.tables import WindowConfig
from jumok.text.ragged import Ragged
from tests.errors import raises

BOS, EOS, PAD = 2, 3, 0

texts = st.lists(st.lists(st.integers(4, 9), max_size=30), min_size=1, max_size=6)


def documents(contents: list[list[int]]) -> Ragged:
    """Documents whose tokens are their positions: 100, 101, ..."""
    rows = add_bos_eos(Ragged.from_lists(contents), BOS, EOS)
    return Ragged(np.arange(100, 100 + len(rows.ids), dtype=np.int32), rows.offsets)


def filled(windows: Windows, width: int) -> WindowRows:
    rows = plan_packing(windows.lengths, np.arange(len(windows)), width)
    return windows.to_rows(rows, width, PAD)


@given(texts, st.integers(1, 12), st.data())
def test_every_token_is_predicted_exactly_once(
    contents: list[list[int]], width: int, data: st.DataObject
) -> None:
    rows = documents(contents)
    overlap = data.draw(st.integers(0, width - 1))
    first = data.draw(
        st.none() | st.lists(st.integers(1, width), min_size=len(rows), max_size=len(rows))
    )
    windows = Windows.over(rows, width, overlap, None if first is None else np.array(first))
    box = filled(windows, width)
    expected = sorted(box.labels[box.loss_mask].tolist())
    assert expected == sorted(id_ for row in rows for id_ in row[1:].tolist())
    real = box.window_ids >= 0
    assert (box.labels[real] == box.ids[real] + 1).all()  # the next token
    assert (box.ids[~real] == PAD).all()
    assert not box.loss_mask[~real].any()


@given(texts, st.integers(1, 12), st.data())
def test_context_is_at_least_the_overlap(
    contents: list[list[int]], width: int, data: st.DataObject
) -> None:
    rows = documents(contents)
    overlap = data.draw(st.integers(0, width - 1))
    windows = Windows.over(rows, width, overlap)
    assert windows.lengths.max() <= width
    starts = set(rows.offsets.tolist())
    for begin, known in zip(windows.starts.tolist(), windows.context_lengths.tolist(), strict=True):
        assert known >= overlap if begin not in starts else known == 0


def test_a_short_document_is_one_window_and_padding() -> None:
    windows = Windows.over(documents([[5, 6], [7]]), width=6)
    box = filled(windows, 6)
    assert box.ids.tolist() == [[100, 101, 102, 104, 105, PAD]]
    assert box.labels.tolist() == [[101, 102, 103, 105, 106, PAD]]
    assert box.window_ids.tolist() == [[0, 0, 0, 1, 1, -1]]
    assert box.positions.tolist() == [[0, 1, 2, 0, 1, 0]]
    assert not box.unpacked


def test_windows_of_a_long_document_are_unpacked() -> None:
    windows = Windows.over(documents([[5] * 10]), width=4, overlap=2)
    box = filled(windows, 4)
    assert box.unpacked
    assert box.ids[:, 0].tolist() == [100, 102, 104, 106, 107]  # the last one reaches back
    assert box.loss_mask.sum(1).tolist() == [4, 2, 2, 2, 1]


def test_a_document_of_one_token_has_no_window() -> None:
    assert len(Windows.over(Ragged.from_lists([[2], []]), width=4)) == 0


def test_one_stream_crosses_the_ends_of_documents() -> None:
    windows = Windows.over(concatenate(documents([[5], [6]])), width=4)
    assert filled(windows, 4).ids.tolist() == [[100, 101, 102, 103], [101, 102, 103, 104]]


def test_document_starts_are_not_predicted() -> None:
    """By position: where BOS and EOS are one token, an empty text is that token twice."""
    rows = add_bos_eos(Ragged.from_lists([[5], [], [6]]), EOS, EOS)
    windows = Windows.over(concatenate(rows), width=3, texts=rows.offsets[:-1])
    box = filled(windows, 3)
    assert box.labels[box.loss_mask].tolist() == [5, EOS, EOS, 6, EOS]
    apart = filled(Windows.over(rows, width=3), 3)
    assert sorted(apart.labels[apart.loss_mask].tolist()) == [EOS, EOS, EOS, 5, 6]


@pytest.mark.parametrize("overlap", [-0.1, 1.0])
def test_an_overlap_is_a_fraction(overlap: float) -> None:
    with raises(InputError, "config.out_of_range"):
        WindowConfig(overlap=overlap)
