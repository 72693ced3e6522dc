"""Is one recipe better than another? A test of runs with several seeds a recipe.

Two models of one recipe differ by their seeds, and often more than the rows explain: a test over
rows alone finds such differences significant. This is the analysis of variance of Obuchowski and
Rockette (1995) with the degrees of freedom of Hillis (2007), made for readers who diagnose the same
cases; here seeds are the readers, each with one recipe, and rows are the cases. The variance
between seeds is that of their scores, the variance that both recipes owe to the choice of the rows
comes from a bootstrap over rows, so that it is the same for every score. Error rates:
benchmarks/results/seed_variance.txt. Shapes: R runs, S resamples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.evaluation.bootstrap import SAMPLES, Difference, RowStatistics, resampled_scores

MAX_DEGREES = 1_000.0  # Student's t is the normal distribution from here
ANGLES = 8_193  # of the numerical integral of Student's t


def recipe_difference(
    first: Sequence[RowStatistics],
    second: Sequence[RowStatistics],
    samples: int = SAMPLES,
    seed: int = 0,
) -> Difference:
    """Compare two recipes by the runs of each, which differ in their seeds: at least two a side.

    All runs have the same rows in the same order. Raises ValueError if they do not, and for a
    single run a side, which does not show the variance between seeds.

    >>> rng = np.random.default_rng(0)
    >>> def run(accuracy: float) -> RowStatistics:
    ...     correct = (rng.random(500) < accuracy).astype(float)
    ...     return RowStatistics(correct[:, None], lambda sums: sums[0] / 500)
    >>> found = recipe_difference([run(0.5), run(0.9)], [run(0.6), run(0.99)])
    >>> found.low < 0.0 < found.high, found.p > 0.05
    (True, True)
    """
    if min(len(first), len(second)) < 2:
        raise ValueError("a recipe must have at least two runs with different seeds")
    totals = [np.array([run.total() for run in runs]) for runs in (first, second)]
    scores = resampled_scores((*first, *second), samples, seed)
    resampled = (scores[: len(first)], scores[len(first) :])  # (R, S) of each recipe
    degrees = len(first) + len(second) - 2
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in totals)
    of_seeds = squares / degrees * (1 / len(first) + 1 / len(second))
    # The covariance of two runs by their rows, beyond that of runs of different recipes: the
    # variance of the difference less the part of single runs, which `of_seeds` contains already.
    of_rows = float((resampled[1].mean(0) - resampled[0].mean(0)).var(ddof=1))
    of_rows -= sum(_variance_of_single_runs(each) for each in resampled)
    variance = of_seeds + max(of_rows, 0.0)
    difference = float(totals[1].mean() - totals[0].mean())
    degrees_of_freedom = degrees * (variance / of_seeds) ** 2 if of_seeds else MAX_DEGREES
    p, t = student(difference, variance**0.5, degrees_of_freedom)
    return Difference(
        first=float(totals[0].mean()),
        second=float(totals[1].mean()),
        low=difference - t * variance**0.5,
        high=difference + t * variance**0.5,
        p=p,
    )


def _variance_of_single_runs(scores: NDArray[np.float64]) -> float:
    """What each run for itself adds to the variance of the mean score (R, S) over resamples."""
    n = len(scores)
    return float((scores - scores.mean(0)).var(1, ddof=1).sum() / (n * (n - 1)))


def student(difference: float, error: float, degrees_of_freedom: float) -> tuple[float, float]:
    """The two-sided p of a difference with this standard error, and the t of the 95 % interval.

    With t = sqrt(v) tan(a) the density of Student's t is proportional to cos(a) ** (v - 1).

    >>> [round(value, 3) for value in student(2.0, 1.0, 4.0)]
    [0.116, 2.776]
    """
    v = min(degrees_of_freedom, MAX_DEGREES)
    angles = np.linspace(0.0, np.pi / 2, ANGLES)
    density = np.maximum(np.cos(angles), 0.0) ** (v - 1)
    below = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    below /= below[-1]  # the probability that |t| is smaller
    angle = np.arctan2(abs(difference), error * v**0.5)
    p = 1.0 if difference == 0.0 else 1 - float(np.interp(angle, angles, below))
    return max(p, 0.0), float(np.tan(np.interp(0.95, below, angles)) * v**0.5)
