"""How well numbers were guessed: do they rise and fall with those wanted?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class RegressionMetrics:
    """Both correlations lie between -1 and 1; `n` is the number of rows."""

    n: int
    pearson: float
    spearman: float


def regression_metrics(labels: Numbers, predictions: Numbers) -> RegressionMetrics:
    """Compare the numbers wanted with those guessed, row by row.

    >>> scores = regression_metrics([0.0, 1.0, 5.0], [1.0, 2.0, 3.0])
    >>> round(scores.pearson, 3), scores.spearman
    (0.945, 1.0)
    """
    return RegressionMetrics(
        len(labels), pearson(labels, predictions), spearman(labels, predictions)
    )


def pearson(x: Numbers, y: Numbers) -> float:
    """Pearson's correlation, cov(x, y) / (sd(x) sd(y)); 0 where one side never changes.

    >>> pearson([1, 2, 3], [2, 4, 6]), pearson([1, 2, 3], [7, 7, 7])
    (1.0, 0.0)
    """
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)  # (n,)
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} numbers wanted, {len(b)} guessed; pair them")
    if not len(a) or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = ((c - c.mean()) / np.ptp(c) for c in (a, b))  # the scale falls out of the quotient
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(x: Numbers, y: Numbers) -> float:
    """Spearman's correlation: Pearson's of the ranks.

    >>> spearman([1, 2, 3], [1, 10, 100])
    1.0
    """
    return pearson(rank(x), rank(y))


def rank(x: Numbers) -> NDArray[np.float64]:
    """The place of each number among all, from 1; equal numbers share the mean of their places.

    >>> ranks([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    _, which, counts = np.unique(np.asarray(x), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)  # the last place of each distinct number
    return np.asarray((last - (counts - 1) / 2)[which], np.float64)
