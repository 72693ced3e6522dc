"""The calibration error by hand, of a model that can be believed and of one that cannot."""

import numpy as np
import pytest

from jumok.evaluation import calibration_error


def test_by_hand() -> None:
    """Two bins: (0, 0.5] with 0.4, 0.2 and one of two right; (0.5, 1] with 0.9, 0.7, 0.8."""
    certainty = [0.4, 0.2, 0.9, 0.7, 0.8]
    right = [True, False, True, True, False]
    low, high = abs(0.3 - 0.5), abs(0.8 - 2 / 3)
    expected = (2 * low + 3 * high) / 5
    assert calibration_error(certainty, right, bins=2) == pytest.approx(expected)


def test_calibrated_and_overconfident_predictions() -> None:
    assert calibration_error([0.75] * 4, [True, True, True, False]) == pytest.approx(0.0)
    assert calibration_error([1.0, 1.0], [False, False]) == 1.0
    assert calibration_error([0.0, 1.0], [False, True]) == 0.0
    drawn = np.random.default_rng(1).uniform(0.3, 1.0, 200_000)
    right = np.random.default_rng(2).uniform(size=200_000) < drawn
    assert calibration_error(drawn, right) < 0.01


def test_a_confidence_on_a_bin_edge_is_in_the_lower_bin() -> None:
    """0.5 is in (0, 0.5], so 0.6 is in another bin."""
    assert calibration_error([0.5, 0.6], [True, False], bins=2) == pytest.approx(0.55)


def test_lengths_must_be_equal() -> None:
    assert calibration_error([], []) == 0.0
    with pytest.raises(ValueError, match="as many confidences as predictions, got 2"):
        calibration_error([0.1, 0.2], [True])
