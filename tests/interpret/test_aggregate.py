"""Aggregated, renormalized and weighted weights against loops over the formulas."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from jumok.interpret.aggregate import (
    DisplayOptions,
    aggregate,
    display_weights,
    renormalize,
    token_groups,
)
from jumok.interpret.options import Unit
from jumok.interpret.schema import Tokens

REVIEW = Tokens(
    text="이 영화 ㅋㅋ",
    pieces=("[CLS]", "▁이", "▁영", "화", "▁ㅋ", "ㅋ", "[PAD]"),
    ids=(2, 5, 6, 7, 8, 8, 0),
    spans=((0, 0), (0, 1), (2, 3), (3, 4), (5, 6), (6, 7), (7, 7)),
    special=(1, 0, 0, 0, 0, 0, 1),
    real=(1, 1, 1, 1, 1, 1, 0),
    words=(-1, 0, 1, 1, 2, 2, -1),
)


def weights(seed: int, n_heads: int, n_queries: int, n_keys: int) -> NDArray[np.float32]:
    """Rows that sum to 1."""
    table = np.random.default_rng(seed).random((n_heads, n_queries, n_keys))
    return (table / table.sum(-1, keepdims=True)).astype(np.float32)


@st.composite
def cuts(draw: st.DrawFn) -> list[range]:
    """Any partition of up to 9 pieces into adjacent groups."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    ends = np.cumsum(sizes).tolist()
    return [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]


@given(cuts(), cuts(), st.integers(0, 99))
def test_aggregate_equals_the_formula(queries: list[range], keys: list[range], seed: int) -> None:
    before = weights(seed, 2, queries[-1].stop, keys[-1].stop)
    after = aggregate(before, queries, keys)
    for h in range(2):
        for row, Q in enumerate(queries):
            for column, K in enumerate(keys):
                expected = sum(float(before[h, i, j]) for i in Q for j in K) / len(Q)
                assert after[h, row, column] == pytest.approx(expected, abs=1e-7)  # float32
    np.testing.assert_allclose(after.sum(-1), 1.0, atol=1e-6)  # rows keep their sums


def test_words_are_merged_and_other_pieces_are_not() -> None:
    assert token_groups(REVIEW, "word") == [
        range(1),
        range(1, 2),
        range(2, 4),
        range(4, 6),
        range(6, 7),
    ]
    assert token_groups(REVIEW, "piece") == [range(i, i + 1) for i in range(7)]


def tokens(text: str, spans: list[tuple[int, int]]) -> Tokens:
    """Tokens with these spans of a text."""
    n = len(spans)
    return Tokens(
        text=text,
        pieces=("x",) * n,
        ids=(3,) * n,
        spans=tuple(spans),
        special=(0,) * n,
        real=(1,) * n,
        words=(0,) * n,
    )


@pytest.mark.parametrize(
    ("text", "spans", "sizes"),
    [
        ("안녕", [(0, 1), (0, 1), (0, 1), (1, 2)], [3, 1]),  # three bytes of one syllable
        ("\u1112\u1161\u11ab글", [(0, 1), (1, 2), (2, 3), (3, 4)], [3, 1]),  # 한 in three parts
        ("e\u0301a", [(0, 1), (1, 2), (2, 3)], [2, 1]),  # a separate accent
        ("👩\u200d🚀!", [(0, 1), (1, 2), (2, 3), (3, 4)], [3, 1]),  # one picture
        ("영화가", [(0, 2), (2, 3)], [1, 1]),  # a piece of two syllables is not split
        ("가나", [(0, 0), (0, 1), (1, 2)], [1, 1, 1]),  # a mark of nothing
    ],
)
def test_syllables(text: str, spans: list[tuple[int, int]], sizes: list[int]) -> None:
    assert [len(pieces) for pieces in token_groups(tokens(text, spans), "syllable")] == sizes


def test_a_special_token_is_never_part_of_a_syllable() -> None:
    row = replace(tokens("안", [(0, 1), (0, 1), (0, 1)]), special=(0, 1, 0))
    assert [len(pieces) for pieces in token_groups(row, "syllable")] == [1, 1, 1]


def test_renormalizing_removes_special_keys() -> None:
    before = weights(0, 2, 3, 4)
    before[0, 1] = [1.0, 0.0, 0.0, 0.0]  # all of it on the special token
    after = renormalize(before, [True, False, False, False])
    for h in range(2):
        for i in range(3):
            kept = float(before[h, i, 1:].sum())
            expected = before[h, i, 1:] / kept if kept else np.zeros(3)
            np.testing.assert_allclose(after[h, i, 1:], expected, rtol=1e-6)
    assert not after[..., 0].any()
    assert not after[0, 1].any()


@pytest.mark.parametrize("unit", ["piece", "syllable", "word"])
def test_all_constraints_together(unit: Unit) -> None:
    before, norms = weights(1, 2, 7, 7), np.random.default_rng(2).random((2, 7)).astype(np.float32)
    how = DisplayOptions(unit=unit, specials="renormalise", measure="values")
    after = display_weights(before, norms, REVIEW, REVIEW, how)
    rows = token_groups(REVIEW, unit)
    expected = np.zeros((2, len(rows), len(rows)))
    for h in range(2):
        for row, Q in enumerate(rows):
            for column, K in enumerate(rows):
                if not REVIEW.special[K[0]]:
                    terms = (float(before[h, i, j] * norms[h, j]) for i in Q for j in K)
                    expected[h, row, column] = sum(terms) / len(Q)
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(after, expected, atol=1e-6)


def test_dim_and_plain_do_not_change_the_weights() -> None:
    before = weights(3, 1, 7, 7)
    for specials in ("plain", "dim"):
        how = DisplayOptions(specials=specials)  # type: ignore[arg-type]
        np.testing.assert_array_equal(display_weights(before, None, REVIEW, REVIEW, how), before)
