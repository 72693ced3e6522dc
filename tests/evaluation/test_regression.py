"""Correlations by hand, against numpy's, and where they have no meaning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.evaluation import regression_metrics
from jumok.evaluation.regression import pearson, rank, spearman

numbers = st.lists(st.integers(-50, 50), min_size=2, max_size=30)


def test_ties_have_the_mean_rank() -> None:
    assert rank([3, 1, 3, 3, 2]).tolist() == [4, 1, 4, 4, 2]
    assert rank([7, 7]).tolist() == [1.5, 1.5]


@given(numbers, st.integers(0, 2**32 - 1))
def test_against_numpy(x: list[int], seed: int) -> None:
    y = np.random.default_rng(seed).normal(size=len(x))
    if len(set(x)) > 1:
        assert pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)


@given(numbers)
def test_spearman_depends_on_the_order_only(x: list[int]) -> None:
    y = [n**3 + n for n in x]
    assert spearman(x, y) == pytest.approx(1.0 if len(set(x)) > 1 else 0.0)
    assert spearman(x, [-n for n in y]) == pytest.approx(-1.0 if len(set(x)) > 1 else 0.0)
    assert rank(x).sum() == len(x) * (len(x) + 1) / 2


def test_constant_scores_have_no_correlation() -> None:
    assert pearson([0.1, 0.1, 0.1], [1, 2, 3]) == spearman([1, 2, 3], [0.1] * 3) == 0.0
    assert regression_metrics([], []).pearson == 0.0
    assert pearson([1e-300, 2e-300], [1e300, 2e300]) == 1.0
    with pytest.raises(ValueError, match="must be 2 predictions, one for each label, got 3"):
        pearson([1, 2], [1, 2, 3])
