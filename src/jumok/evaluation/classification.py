"""How well labels were guessed: accuracy, macro F1, and who was taken for whom."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ClassificationMetrics:
    """All from 0 to 1 but `n`, the number of texts; confusion[i, j]: label i taken for j."""

    n: int
    accuracy: float
    macro_f1: float
    confusion: NDArray[np.int64]


def classification_metrics(
    labels: Sequence[int], predictions: Sequence[int], n_labels: int
) -> ClassificationMetrics:
    """Compare the label numbers wanted with those guessed, text by text.

    The F1 of a label that is neither wanted nor guessed counts as 0, as it does in
    scikit-learn when all labels are named to it.

    >>> scores = classification_metrics([0, 0, 1, 1], [0, 1, 1, 1], n_labels=2)
    >>> scores.accuracy, round(scores.macro_f1, 3)
    (0.75, 0.733)
    """
    if len(labels) != len(predictions):
        raise ValueError(f"{len(labels)} labels wanted, {len(predictions)} guessed; pair them")
    confusion = np.zeros((n_labels, n_labels), dtype=np.int64)
    np.add.at(confusion, (np.asarray(labels, int), np.asarray(predictions, int)), 1)
    right = confusion.diagonal()
    either = confusion.sum(0) + confusion.sum(1)
    f1 = 2 * right / np.maximum(either, 1)
    n = len(labels)
    return ClassificationMetrics(n, float(right.sum() / max(n, 1)), float(f1.mean()), confusion)
