"""From the logits of texts to outputs, with numpy alone.

Shapes: n texts, L labels.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.decoding.finite import non_finite_error
from jumok.tasks.pipeline.outputs import MultiLabelPrediction, Prediction, RegressionOutput

Logits = NDArray[np.float32]
Scores = NDArray[np.float64]


def label_predictions(
    texts: Sequence[str], logits: Logits, labels: Sequence[str]
) -> list[Prediction]:
    """The most probable label of each text, of logits (n, L).

    Raises NonFiniteError for logits that are NaN or infinite.

    >>> label_predictions(["좋아요"], np.array([[2.0, 0.0]], np.float32), ["good", "bad"])[0].label
    'good'
    """
    check_finite(logits)
    return [
        _prediction(text, row, labels)
        for text, row in zip(texts, softmax(logits).tolist(), strict=True)
    ]


def _prediction(text: str, probabilities: list[float], labels: Sequence[str]) -> Prediction:
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    by_label = dict(zip(labels, probabilities, strict=True))
    return Prediction(text, labels[best], probabilities[best], by_label)


def multi_label_predictions(
    texts: Sequence[str], probabilities: Scores, labels: Sequence[str], threshold: float
) -> list[MultiLabelPrediction]:
    """The labels of each text whose probabilities (n, L) are at least `threshold`."""
    return [
        MultiLabelPrediction(
            text,
            chosen_labels(row >= threshold, labels),
            dict(zip(labels, row.tolist(), strict=True)),
        )
        for text, row in zip(texts, probabilities, strict=True)
    ]


def chosen_labels(chosen: NDArray[np.bool_], labels: Sequence[str]) -> tuple[str, ...]:
    """The labels where `chosen` (L,) is True.

    >>> chosen_labels(np.array([True, False, True]), ["연기", "음악", "결말"])
    ('연기', '결말')
    """
    return tuple(label for label, is_chosen in zip(labels, chosen, strict=True) if is_chosen)


def score_outputs(texts: Sequence[str], scores: Scores) -> list[RegressionOutput]:
    """The score of each text, (n,)."""
    return [
        RegressionOutput(text, score) for text, score in zip(texts, scores.tolist(), strict=True)
    ]


def cosines(u: Logits, v: Logits) -> Logits:
    """The cosine of each pair of unit vectors, 2 x (n, D) -> (n,), from -1 to 1.

    >>> u = np.array([[0.6, 0.8]], np.float32)
    >>> cosines(u, u).tolist()
    [1.0]
    """
    found: Logits = (u * v).sum(-1).clip(-1, 1)  # rounding gives 1.0000002
    return found


def check_finite(values: Logits | Scores, what: str = "logits") -> None:
    """Raise NonFiniteError if one of these logits or scores is NaN or infinite."""
    if not np.isfinite(values).all():
        raise non_finite_error(what)


def softmax(logits: Logits) -> Logits:
    """Probabilities of logits (n, L) in float32.

    >>> softmax(np.array([[0.0, 0.0]], np.float32)).tolist()
    [[0.5, 0.5]]
    """
    e: Logits = np.exp(logits - logits.max(-1, keepdims=True, initial=-np.inf))
    e /= e.sum(-1, keepdims=True)
    return e


def sigmoid(logits: Logits) -> Scores:
    """The probability of each label by itself, in float64.

    >>> sigmoid(np.array([[0.0, -1000.0]], np.float32)).tolist()
    [[0.5, 0.0]]
    """
    e = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits >= 0, 1.0, e) / (1.0 + e)
