"""Metrics of regression: Pearson's and Spearman's correlation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class RegressionMetrics:
    """Correlations from -1 to 1; `n` is the number of rows."""

    n: int
    pearson: float
    spearman: float


def regression_metrics(labels: Numbers, predictions: Numbers) -> RegressionMetrics:
    """Compare labels with predictions, row by row.

    >>> metrics = regression_metrics([0.0, 1.0, 5.0], [1.0, 2.0, 3.0])
    >>> round(metrics.pearson, 3), metrics.spearman
    (0.945, 1.0)
    """
    return RegressionMetrics(
        len(labels), pearson(labels, predictions), spearman(labels, predictions)
    )


def pearson(x: Numbers, y: Numbers) -> float:
    """Pearson's correlation, cov(x, y) / (sd(x) sd(y)); 0 if one side is constant.

    >>> pearson([1, 2, 3], [2, 4, 6]), pearson([1, 2, 3], [7, 7, 7])
    (1.0, 0.0)
    """
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)  # (n,)
    if a.shape != b.shape:
        raise ValueError(f"there must be {len(a)} predictions, one for each label, got {len(b)}")
    if not len(a) or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    a, b = ((c - c.mean()) / np.ptp(c) for c in (a, b))  # the scale cancels out
    return float(np.clip(a @ b / np.sqrt((a @ a) * (b @ b)), -1.0, 1.0))


def spearman(x: Numbers, y: Numbers) -> float:
    """Spearman's correlation: Pearson's of the ranks.

    >>> spearman([1, 2, 3], [1, 10, 100])
    1.0
    """
    return pearson(rank(x), rank(y))


def rank(x: Numbers) -> NDArray[np.float64]:
    """The rank of each number, from 1; equal numbers have the mean of their ranks.

    >>> rank([10, 30, 20, 20]).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    _, group, counts = np.unique(np.asarray(x), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)  # the last rank of each distinct number
    return np.asarray((last - (counts - 1) / 2)[group], np.float64)
