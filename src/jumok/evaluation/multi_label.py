"""Metrics of multi-label classification: micro and macro F1, and exact match.

Shapes: n texts, L labels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class MultiLabelMetrics:
    """Metrics from 0 to 1 of `n` texts.

    `micro_f1` counts all decisions together, `macro_f1` is the mean of the F1 of each label, and
    `exact_match` is the fraction of texts with exactly the expected set of labels.
    """

    n: int
    micro_f1: float
    macro_f1: float
    exact_match: float


def multi_label_metrics(
    labels: NDArray[np.bool_], predictions: NDArray[np.bool_]
) -> MultiLabelMetrics:
    """Compare the labels (n, L) of texts with the predicted ones (n, L).

    An F1 without any expected or predicted label is 0, as in scikit-learn.

    >>> metrics = multi_label_metrics(
    ...     np.array([[True, True], [True, False], [False, False]]),
    ...     np.array([[True, False], [True, False], [False, False]]))
    >>> round(metrics.micro_f1, 3), metrics.macro_f1, round(metrics.exact_match, 3)
    (0.8, 0.5, 0.667)
    """
    if labels.shape != predictions.shape or labels.ndim != 2:
        raise ValueError(
            "labels and predictions must have one row for each text and one column for each label, "
            f"got {labels.shape} and {predictions.shape}"
        )
    correct = (labels & predictions).sum(0)  # (L,)
    either = labels.sum(0) + predictions.sum(0)
    f1 = 2 * correct / np.maximum(either, 1)
    n = len(labels)
    return MultiLabelMetrics(
        n,
        float(2 * correct.sum() / max(int(either.sum()), 1)),
        float(f1.mean()),
        float((labels == predictions).all(-1).sum() / max(n, 1)),
    )
