"""Accuracy, macro F1 and the confusion matrix against numbers counted by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumok.evaluation import classification_metrics


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=50))
def test_against_counting(pairs: list[tuple[int, int]]) -> None:
    expected, predicted = [w for w, _ in pairs], [g for _, g in pairs]
    scores = classification_metrics(expected, predicted, 4)
    assert scores.accuracy == pytest.approx(sum(w == g for w, g in pairs) / len(pairs))
    f1 = []
    for label in sorted({*expected, *predicted}):
        hit = sum(w == g == label for w, g in pairs)
        precision = hit / max(predicted.count(label), 1)
        recall = hit / max(expected.count(label), 1)
        f1.append(2 * precision * recall / (precision + recall) if hit else 0.0)
    assert scores.macro_f1 == pytest.approx(float(np.mean(f1)))
    assert int(scores.confusion.sum()) == len(pairs)


@pytest.mark.parametrize("predicted", [[0, 0, 2], [0, 3, 2]])
def test_absent_labels_are_left_out_as_by_scikit_learn(predicted: list[int]) -> None:
    metrics = pytest.importorskip("sklearn.metrics", exc_type=ImportError)
    expected = [0, 0, 2]
    theirs = metrics.f1_score(expected, predicted, average="macro")
    assert classification_metrics(expected, predicted, 5).macro_f1 == pytest.approx(theirs)


def test_nothing_to_score() -> None:
    scores = classification_metrics([], [], 2)
    assert (scores.n, scores.accuracy, scores.macro_f1) == (0, 0.0, 0.0)


def test_lengths_must_be_equal() -> None:
    with pytest.raises(ValueError, match="each of 1 labels, got 2"):
        classification_metrics([0], [0, 1], 2)
