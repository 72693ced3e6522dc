"""The paired bootstrap: what it finds certain, and what it does not."""

import numpy as np
import pytest
from numpy.typing import NDArray

from jumok.evaluation.bootstrap import RowStatistics, paired_bootstrap


def accuracy(correct: NDArray[np.float64]) -> RowStatistics:
    values = np.stack([np.ones(len(correct)), correct], -1)
    return RowStatistics(values, lambda sums: float(sums[1] / sums[0]))


def correct(n: int, rate: float, seed: int) -> NDArray[np.float64]:
    return (np.random.default_rng(seed).random(n) < rate).astype(np.float64)


def test_the_interval_is_that_of_the_formula() -> None:
    """For means the interval is that of the normal distribution: 1.96 standard errors."""
    first, second = correct(4_000, 0.80, 0), correct(4_000, 0.83, 1)
    found = paired_bootstrap([accuracy(first)], [accuracy(second)], samples=4_000)
    difference = second - first
    error = 1.96 * difference.std() / np.sqrt(len(difference))
    assert found.difference == pytest.approx(difference.mean())
    assert found.low == pytest.approx(difference.mean() - error, abs=0.1 * error)
    assert found.high == pytest.approx(difference.mean() + error, abs=0.1 * error)
    assert found.p == pytest.approx(2 / 4_001)  # none of 4,000 resamples is below 0


def test_equal_systems_differ_by_nothing() -> None:
    run = accuracy(correct(100, 0.5, 0))
    found = paired_bootstrap([run], [run])
    assert (found.difference, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.slow
def test_the_error_rate_of_equally_good_systems() -> None:
    """Of 200 pairs of systems that are equally good, about 5 % have p < 0.05."""
    ps = [
        paired_bootstrap(
            [accuracy(correct(300, 0.7, 2 * pair))],
            [accuracy(correct(300, 0.7, 2 * pair + 1))],
            400,
        ).p
        for pair in range(200)
    ]
    assert 2 <= sum(p < 0.05 for p in ps) <= 22


def test_several_seeds_count_by_their_mean() -> None:
    seeds = [accuracy(correct(500, rate, 5)) for rate in (0.6, 0.8)]
    found = paired_bootstrap(seeds, [seeds[1]])
    assert found.first == pytest.approx((seeds[0].total() + seeds[1].total()) / 2)
    again = paired_bootstrap(seeds, [seeds[1]])
    assert again == found  # the resamples are those of the seed


def test_other_rows_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must have the same rows, at least one, got \[2, 3\]"):
        paired_bootstrap([accuracy(np.ones(2))], [accuracy(np.ones(3))])
