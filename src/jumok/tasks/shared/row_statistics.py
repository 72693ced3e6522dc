"""Statistics of the rows of a table, from which metrics of samples of the rows are computed."""

import numpy as np
from numpy.typing import NDArray

from jumok.data.table import Table
from jumok.evaluation.bootstrap import RowStatistics
from jumok.tasks.inputs.text_encoder import TextInputs
from jumok.tasks.pipeline.outputs import RunOutputs


def fraction(correct: NDArray[np.bool_]) -> RowStatistics:
    """The fraction of correct rows."""
    values = np.stack([np.ones(len(correct)), correct], -1)
    return RowStatistics(values, lambda sums: float(sums[1] / sums[0]))


def compare_scores(table: Table, predicted: NDArray[np.float64]) -> RunOutputs:
    """Scores of rows with a score, compared by Pearson's correlation."""
    truth = np.array(table.numbers("score")[:])
    texts = TextInputs.from_table(table)
    x, y = truth - truth.mean(), predicted - predicted.mean()  # sums of squares stay exact
    statistics = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], -1)
    return RunOutputs(
        [texts.display(i) for i in range(len(table))],
        [f"{value:.2f}" for value in truth],
        [f"{value:.2f}" for value in predicted],
        {"pearson": RowStatistics(statistics, _pearson)},
    )


def _pearson(sums: NDArray[np.float64]) -> float:
    """Pearson's correlation from the sums of 1, x, y, x^2, y^2 and x y; 0 if one is constant."""
    n, x, y, xx, yy, xy = sums
    variances = (xx - x * x / n) * (yy - y * y / n)
    return float((xy - x * y / n) / np.sqrt(variances)) if variances > 0 else 0.0
