"""Linear models of fixed features, compared with scikit-learn's."""

import numpy as np
import pytest
import torch
from torch import Tensor

from jumok.training.linear_models import (
    STRENGTHS,
    LinearProblem,
    balanced_weights,
    cross_validate,
    fit,
    fit_path,
)

N, D, L = 120, 8, 3
linear_model = pytest.importorskip("sklearn.linear_model")


@pytest.fixture
def features() -> Tensor:
    """Features of different scales that depend on each other, and one that is constant."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    x[:, 1] += 3 * x[:, 0]
    x[:, 2] = 5 + 100 * x[:, 2]
    x[:, 3] = 7.0
    return x


@pytest.fixture
def labels(features: Tensor) -> Tensor:
    noise = torch.randn(N, L, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return (features[:, [0, 4, 5]] + noise).argmax(1)


def standardized(x: Tensor) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    scale = x.std(0, correction=0)
    return ((x - x.mean(0)) / scale.where(scale > 0, 1.0)).numpy()


@pytest.mark.parametrize("balanced", [False, True])
def test_logistic_regression_is_that_of_scikit_learn(
    features: Tensor, labels: Tensor, balanced: bool
) -> None:
    """On the path of all strengths; the tolerance is that of two solvers of the same minimum."""
    weights = balanced_weights(labels, L)[labels] if balanced else None
    problem = LinearProblem(features, labels, "cross_entropy", L, weights)
    x = standardized(features)
    for strength, model in zip(STRENGTHS, fit_path(problem, STRENGTHS), strict=True):
        other = linear_model.LogisticRegression(
            C=1 / (strength * N),
            class_weight="balanced" if balanced else None,
            tol=1e-10,
            max_iter=10_000,
        ).fit(x, labels)
        expected = torch.from_numpy(other.predict_proba(x))
        torch.testing.assert_close(model(features).softmax(-1), expected, atol=1e-4, rtol=0)


def test_each_of_several_labels_is_decided_by_itself(features: Tensor, labels: Tensor) -> None:
    sets = torch.nn.functional.one_hot(labels, L).double()
    model = fit(LinearProblem(features, sets, "binary_cross_entropy", L), 0.1)
    x = standardized(features)
    for i in range(L):
        other = linear_model.LogisticRegression(C=1 / (0.1 * N), tol=1e-10, max_iter=10_000)
        expected = torch.from_numpy(other.fit(x, sets[:, i]).predict_proba(x)[:, 1])
        torch.testing.assert_close(model(features)[:, i].sigmoid(), expected, atol=1e-4, rtol=0)


def test_ridge_regression_is_that_of_scikit_learn(features: Tensor) -> None:
    y = features[:, 0] - 2 * features[:, 4] + 3
    model = fit(LinearProblem(features, y, "squared_error", 1), 0.3)
    other = linear_model.Ridge(alpha=0.3 * N).fit(standardized(features), y)
    expected = torch.from_numpy(other.predict(standardized(features)))
    torch.testing.assert_close(model(features)[:, 0], expected)


def test_cross_validation_prefers_a_strength_between_none_and_all() -> None:
    """40 rows of 30 features, one of which has a meaning: without a penalty all rows are fitted."""
    x = torch.randn(40, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = (x[:, 0] > 0).long()
    problem = LinearProblem(x, labels, "cross_entropy", 2)
    folds = torch.arange(40) % 5
    scores: list[float] = []

    def score(outputs: Tensor) -> float:
        scores.append(-float(torch.nn.functional.cross_entropy(outputs, labels)))
        return scores[-1]

    found = cross_validate(problem, folds, score)
    assert found.score == max(scores)
    assert STRENGTHS[0] > found.strength > STRENGTHS[-1]
    assert len(scores) < len(STRENGTHS)  # weaker ones were worse and worse
