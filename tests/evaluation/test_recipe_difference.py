"""The test over seeds and rows: its errors, and what it is without seeds or without rows."""

from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from jumok.evaluation.bootstrap import RowStatistics, paired_bootstrap
from jumok.evaluation.recipe_difference import recipe_difference, student
from jumok.tasks.shared.row_statistics import fraction
from tests.combinations import slow

ROWS = 300


def runs(
    rng: np.random.Generator, rows: NDArray[np.float64], n: int, shift: float = 0.0
) -> list[RowStatistics]:
    """Runs of a recipe on rows of these difficulties: each seed is better or worse as a whole."""
    of_seed = shift + rng.normal(size=(n, 1)) * 0.2
    return [fraction(each) for each in rows + of_seed + rng.normal(size=(n, ROWS)) > -0.5]


def rate(n: int, trials: int, interaction: float = 0.0, shift: float = 0.0) -> tuple[float, float]:
    """How often two recipes differ at 5 %: by the test, and by the bootstrap over rows alone."""
    rng = np.random.default_rng(n)
    found = np.zeros(2)
    for seed in range(trials):
        rows = rng.normal(size=ROWS)
        first = runs(rng, rows, n)
        second = runs(rng, rows + interaction * rng.normal(size=ROWS), n, shift)
        tests = (recipe_difference, paired_bootstrap)
        found += [test(first, second, 100, seed).p < 0.05 for test in tests]
    by_seeds, by_rows = found / trials
    return by_seeds, by_rows


@pytest.mark.parametrize("n", [slow(2), 3, slow(5)])
def test_the_error_rate_for_runs_of_one_recipe(n: int) -> None:
    """5 % of 300 splits with three standard errors; the bootstrap over rows errs four times."""
    by_seeds, by_rows = rate(n, 300)
    assert 0.012 <= by_seeds <= 0.088
    assert by_rows > 0.2


def test_the_choice_of_the_rows_counts_too() -> None:
    """Recipes that are equally good on average, each on rows of its own, are not different."""
    assert rate(3, 300, interaction=1.0)[0] <= 0.088


def test_a_better_recipe_is_found() -> None:
    assert rate(5, 60, shift=1.0)[0] > 0.9


def test_without_rows_it_is_the_t_test() -> None:
    """Where all rows have one score there is nothing but seeds: scipy's test of two samples."""
    stats = pytest.importorskip("scipy.stats")
    scores = [0.61, 0.64, 0.70], [0.66, 0.74, 0.71, 0.72]

    def constant(score: float) -> RowStatistics:
        return RowStatistics(np.full((50, 1), score), lambda sums: float(sums[0] / 50))

    found = recipe_difference(*([constant(score) for score in side] for side in scores))
    expected = stats.ttest_ind(scores[1], scores[0])
    low, high = expected.confidence_interval(0.95)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-4)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_copies_of_a_run_have_the_variance_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    one, other = (fraction(rng.random(2_000) < rate) for rate in (0.6, 0.65))
    found = recipe_difference([one, one], [other, other])
    alone = paired_bootstrap([one], [other])
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high), abs=0.003)
    assert recipe_difference([one, one], [one, one]).p == 1.0


def test_a_single_run_is_refused() -> None:
    run = fraction(np.ones(3, bool))
    with pytest.raises(ValueError, match="at least two runs"):
        recipe_difference([run, run], [run])


@pytest.mark.parametrize("degrees", [1.0, 1.7, 2.0, 4.0, 30.0, 1_000.0, inf])
def test_students_t_is_that_of_scipy(degrees: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    for t in (0.0, 0.3, 2.0, 9.0):
        p, bound = student(-t, 1.0, degrees)
        # more than 1,000 degrees count as 1,000
        assert p == pytest.approx(2 * stats.t.sf(t, degrees), abs=3e-4)
        assert bound == pytest.approx(stats.t.ppf(0.975, degrees), abs=3e-3)
