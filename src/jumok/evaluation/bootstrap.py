"""Is one model better than another? The paired bootstrap over the rows of a test set.

Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation"; Efron and
Tibshirani (1993), chapter 16. The result is about these models: `recipe_difference` is the test
about the recipes that trained them. Shapes: n rows, k statistics of a row, R runs, S resamples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SAMPLES = 1_000
CHUNK = 32  # resamples computed together: 32 x n weights in memory

Score = Callable[[NDArray[np.float64]], float]
"""A score from the sums (k,) of the statistics of all rows."""


@dataclass(frozen=True)
class RowStatistics:
    """What a run did on each row, and how the score follows from the sums over the rows."""

    values: NDArray[np.float64]  # (n, k)
    score: Score

    def total(self) -> float:
        """The score on all rows."""
        return self.score(self.values.sum(0))


@dataclass(frozen=True)
class Difference:
    """The scores of two systems on the same rows, and how certain their difference is.

    `low` and `high` are the ends of the 95 % interval of the difference. `p` is the two-sided
    probability of a difference at least as large if both systems were equally good.
    """

    first: float
    second: float
    low: float
    high: float
    p: float

    @property
    def difference(self) -> float:
        """The second score minus the first."""
        return self.second - self.first


def paired_bootstrap(
    first: Sequence[RowStatistics],
    second: Sequence[RowStatistics],
    samples: int = SAMPLES,
    seed: int = 0,
) -> Difference:
    """Compare two models by resamples of the rows; several models a side by their mean score.

    All runs have the same rows in the same order. Raises ValueError if they do not.

    >>> def run(correct: list[int]) -> RowStatistics:
    ...     return RowStatistics(np.array(correct, float)[:, None], lambda sums: sums[0] / 4)
    >>> found = paired_bootstrap([run([1, 0, 0, 0])], [run([1, 1, 1, 1])])
    >>> found.first, found.second, found.p < 0.05
    (0.25, 1.0, True)
    """
    scores = resampled_scores((*first, *second), samples, seed)
    differences = scores[len(first) :].mean(0) - scores[: len(first)].mean(0)  # (S,)
    low, high = np.quantile(differences, (0.025, 0.975))
    fewer = min((differences <= 0).sum(), (differences >= 0).sum())
    return Difference(
        first=float(np.mean([run.total() for run in first])),
        second=float(np.mean([run.total() for run in second])),
        low=float(low),
        high=float(high),
        p=min(1.0, 2 * (1 + float(fewer)) / (1 + samples)),  # + 1: never 0 (Davison, Hinkley 1997)
    )


def resampled_scores(
    runs: Sequence[RowStatistics], samples: int = SAMPLES, seed: int = 0
) -> NDArray[np.float64]:
    """The score of each run in each resample of the rows, (R, S): all runs have the same rows.

    Raises ValueError if their numbers of rows differ, or there are none.
    """
    sizes = {len(run.values) for run in runs}
    if len(sizes) != 1 or 0 in sizes:
        raise ValueError(f"the runs must have the same rows, at least one, got {sorted(sizes)}")
    (n,) = sizes
    rng = np.random.Generator(np.random.Philox(seed))
    scores = np.empty((len(runs), samples))
    for start in range(0, samples, CHUNK):
        end = min(start + CHUNK, samples)
        weights = rng.multinomial(n, np.full(n, 1 / n), end - start).astype(np.float64)  # (S, n)
        for number, run in enumerate(runs):
            scores[number, start:end] = [run.score(sums) for sums in weights @ run.values]
    return scores
