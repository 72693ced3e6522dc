"""The five positional encodings, and what distinguishes the fifth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.viewer.positional_encodings import (
    Positions,
    best_shift,
    binary,
    continuous_binary,
    index,
    normalised_index,
    shift_error,
    shift_matrix,
    sinusoid_pairs,
)
from tests.errors import raises

EXACT = 1e-13  # float64, sums of 128 products


def by_the_formula(n_seq: int, d_hidn: int) -> Positions:
    """Section 3.5, angle by angle."""
    table = np.array(
        [[p / np.power(10000, 2 * (i // 2) / d_hidn) for i in range(d_hidn)] for p in range(n_seq)]
    )
    table[:, 0::2] = np.sin(table[:, 0::2])
    table[:, 1::2] = np.cos(table[:, 1::2])
    return table


def test_pairs_follow_the_formula() -> None:
    np.testing.assert_allclose(sinusoid_pairs(64, 128), by_the_formula(64, 128), atol=EXACT)


def test_normalised_index_depends_on_the_length() -> None:
    assert normalised_index(11)[3, 0] == 0.3
    assert normalised_index(21)[3, 0] == 0.15
    assert normalised_index(22)[3, 0] == pytest.approx(3 / 21)
    assert normalised_index(1).tolist() == [[0.0]]


def test_binary_codes_are_the_numbers() -> None:
    codes = binary(64, 6)
    assert (codes @ 2.0 ** np.arange(6)).tolist() == list(range(64))
    assert (binary(64, 9)[:, 6:] == 0).all()


def test_the_first_dial_turns_fastest() -> None:
    """Dial j comes round again after 2^(j + 1) places: 4, 8, 16."""
    dials = continuous_binary(40, 3)
    for j, period in enumerate((4, 8, 16)):
        np.testing.assert_allclose(dials[period:, j], dials[:-period, j], atol=EXACT)
        assert np.abs(dials[period // 2 :, j] - dials[: -(period // 2), j]).max() > 1


@pytest.mark.parametrize("table", [binary(64, 6), continuous_binary(64, 6), sinusoid_pairs(64, 6)])
def test_every_position_has_a_code_of_its_own(table: Positions) -> None:
    assert len(np.unique(table.round(9), axis=0)) == 64


@given(k=st.integers(-40, 40), half=st.integers(1, 64))
def test_one_matrix_shifts_every_position(k: int, half: int) -> None:
    table, shift = sinusoid_pairs(100, 2 * half), shift_matrix(k, 2 * half)
    before, after = table[max(0, -k) : 100 - max(0, k)], table[max(0, k) : 100 + min(0, k)]
    np.testing.assert_allclose(before @ shift, after, atol=EXACT)


def test_shifts_add_up_and_turn_back() -> None:
    np.testing.assert_allclose(shift_matrix(3, 32) @ shift_matrix(4, 32), shift_matrix(7, 32))
    np.testing.assert_allclose(shift_matrix(-5, 32), shift_matrix(5, 32).T)
    np.testing.assert_array_equal(shift_matrix(0, 32), np.eye(32))


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_only_pairs_can_be_shifted_by_one_matrix(k: int) -> None:
    pairs = sinusoid_pairs(64, 32)
    assert shift_error(pairs, k, shift_matrix(k, 32)) < 1e-14
    assert shift_error(pairs, k, best_shift(pairs, k)) < EXACT
    for table in (index(64), normalised_index(64), binary(64, 32), continuous_binary(64, 32)):
        assert shift_error(table, k, best_shift(table, k)) > 0.01


def test_an_odd_number_of_dimensions_raises() -> None:
    with raises(InputError, "page.odd_dimensions"):
        sinusoid_pairs(4, 7)
    with raises(InputError, "page.odd_dimensions"):
        shift_matrix(1, 7)
