"""Metrics of classification: accuracy, macro F1, confusion matrix and calibration error."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CALIBRATION_BINS = 15


@dataclass(frozen=True)
class ClassificationMetrics:
    """Metrics from 0 to 1 of `n` texts; confusion[i, j]: texts of label i with prediction j."""

    n: int
    accuracy: float
    macro_f1: float
    confusion: NDArray[np.int64]


def classification_metrics(
    labels: Sequence[int], predictions: Sequence[int], n_labels: int
) -> ClassificationMetrics:
    """Compare labels with predictions, text by text.

    `macro_f1` is the mean of the F1 of each label that occurs in `labels` or `predictions`, as
    f1_score(labels, predictions, average="macro") of scikit-learn; the others are left out.

    >>> metrics = classification_metrics([0, 0, 1, 1], [0, 1, 1, 1], n_labels=2)
    >>> metrics.accuracy, round(metrics.macro_f1, 3)
    (0.75, 0.733)
    >>> classification_metrics([0, 0], [0, 0], n_labels=2).macro_f1
    1.0
    """
    if len(labels) != len(predictions):
        raise ValueError(
            f"there must be one prediction for each of {len(labels)} labels, got {len(predictions)}"
        )
    confusion = np.zeros((n_labels, n_labels), dtype=np.int64)
    np.add.at(confusion, (np.asarray(labels, int), np.asarray(predictions, int)), 1)
    correct = confusion.diagonal()
    either = confusion.sum(0) + confusion.sum(1)
    occurs = either > 0
    f1 = 2 * correct[occurs] / either[occurs]
    n = len(labels)
    macro_f1 = float(f1.mean()) if n else 0.0
    return ClassificationMetrics(n, float(correct.sum() / max(n, 1)), macro_f1, confusion)


def label_scores(
    confusion: NDArray[np.int64], labels: Sequence[str]
) -> dict[str, dict[str, float | int]]:
    """Precision, recall and F1, from 0 to 1, and the number of rows `n` of each label.

    A value without any row to count, such as the precision of a label that is never predicted, is
    0, as in scikit-learn.

    >>> label_scores(np.array([[1, 1], [0, 2]]), ["가", "나"])["가"]
    {'n': 2, 'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666}
    """
    correct, rows, predicted = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    return {
        label: {
            "n": int(rows[i]),
            "precision": float(correct[i] / max(predicted[i], 1)),
            "recall": float(correct[i] / max(rows[i], 1)),
            "f1": float(2 * correct[i] / max(rows[i] + predicted[i], 1)),
        }
        for i, label in enumerate(labels)
    }


def calibration_error(
    confidence: Sequence[float] | NDArray[np.float64],
    correct: Sequence[bool] | NDArray[np.bool_],
    bins: int = CALIBRATION_BINS,
) -> float:
    """The expected calibration error (Guo et al. 2017, equation 3), from 0 to 1.

    `confidence` (n,) is the probability of each prediction, `correct` (n,) whether it is correct.
    Predictions are divided into `bins` equally wide bins (a, b] by confidence; the error is the
    mean over all predictions of the difference between the accuracy and the mean confidence of
    their bin.

    >>> round(calibration_error([0.9, 0.9, 0.9, 0.9], [True, True, True, False]), 3)
    0.15
    """
    p, hit = np.asarray(confidence, np.float64), np.asarray(correct, np.float64)
    if p.shape != hit.shape:
        raise ValueError(f"there must be as many confidences as predictions, got {len(p)}")
    if not len(p):
        return 0.0
    bin_of = np.clip(np.ceil(p * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(bin_of, hit - p, minlength=bins)  # (bins,): sums over each bin
    return float(np.abs(gaps).sum() / len(p))
