"""Linear models of fixed features: logistic regression, ridge regression, and their strength.

The loss is the mean of the rows plus strength / 2 times the squared weights, of features that are
divided by their standard deviation; the bias is free. scikit-learn's C is 1 / (strength · n).
Shapes: n rows, D features, L outputs.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Loss = Literal["cross_entropy", "binary_cross_entropy", "squared_error"]

STRENGTHS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # from strong to weak
N_FOLDS = 5
MAX_ITERATIONS = 200  # of L-BFGS; 20 to 60 are usual
MAX_WORSE = 2
ROUGH = 1e-3  # the same in cross-validation, in float32
TOLERANCE = 1e-6  # the largest entry of the gradient at the end


@dataclass(frozen=True)
class LinearModel:
    """weight (L, D) and bias (L,), float64, of the features as they are."""

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Features (n, D) -> outputs (n, L)."""
        return features @ self.weight.T + self.bias


@dataclass(frozen=True)
class LinearProblem:
    """Features (n, D) float64 and targets: labels (n,), sets of them (n, L), or numbers (n,).

    `row_weights` (n,) are the weights of the rows in the loss, with mean 1; None: all 1.
    """

    features: Tensor
    targets: Tensor
    loss: Loss
    n_outputs: int
    row_weights: Tensor | None = None

    def rows(self, chosen: Tensor) -> "LinearProblem":
        """The problem of some rows."""
        weights = None if self.row_weights is None else self.row_weights[chosen]
        return LinearProblem(
            self.features[chosen], self.targets[chosen], self.loss, self.n_outputs, weights
        )

    def in_float32(self) -> "LinearProblem":
        """The problem with half the bytes, which is twice as fast."""
        targets, weights = self.targets, self.row_weights
        return LinearProblem(
            self.features.float(),
            targets.float() if targets.is_floating_point() else targets,
            self.loss,
            self.n_outputs,
            None if weights is None else weights.float(),
        )

    def mean_loss(self, outputs: Tensor) -> Tensor:
        """The weighted mean loss of outputs (n, L): ()."""
        if self.loss == "cross_entropy":
            losses = F.cross_entropy(outputs, self.targets, reduction="none")
        elif self.loss == "binary_cross_entropy":
            losses = F.binary_cross_entropy_with_logits(
                outputs, self.targets, reduction="none"
            ).sum(-1)
        else:
            losses = (outputs[:, 0] - self.targets).square() / 2
        if self.row_weights is not None:
            losses = losses * self.row_weights
        return losses.mean()


def balanced_weights(labels: Tensor, n_labels: int) -> Tensor:
    """The weight of each label in the loss, n / (L · rows of the label): (L,) float64.

    All labels together then weigh the same, and the mean weight of a row is 1: "balanced" of
    scikit-learn. L counts the labels that occur; the others get 0.

    >>> balanced_weights(torch.tensor([0, 0, 0, 1]), 3)
    tensor([0.6667, 2.0000, 0.0000], dtype=torch.float64)
    """
    counts = torch.bincount(labels, minlength=n_labels).double()
    occurs = counts > 0
    weights = len(labels) / (occurs.sum() * counts.clamp(min=1))
    return weights.where(occurs, 0.0)


def fit(problem: LinearProblem, strength: float) -> LinearModel:
    """The minimum of the loss.

    >>> x = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    >>> y = torch.tensor([0.0, 0.5, 1.0, 1.5], dtype=torch.float64)
    >>> model = fit(LinearProblem(x, y, "squared_error", 1), strength=1e-9)
    >>> round(model.weight.item(), 4), abs(round(model.bias.item(), 4))
    (0.5, 0.0)
    """
    return next(fit_path(problem, [strength]))


def fit_path(
    problem: LinearProblem, strengths: Iterable[float], tolerance: float = TOLERANCE
) -> Iterator[LinearModel]:
    """The minimum of the loss for each strength.

    The features are rotated to their principal components with variances v, where ridge regression
    is a division: w = cov(x, y) / (v + strength). Logistic regression is found by L-BFGS (Liu and
    Nocedal 1989) from the last solution; its variables are w times sqrt(v / 4 + strength), the root
    of about the second derivative, so that 10 to 20 iterations are enough for any strength.
    """
    x = problem.features
    mean, deviation = x.mean(0), x.std(0, correction=0)
    scale = torch.where(deviation > 1e-9, deviation, 1.0)
    x = (x - mean) / scale
    variances, axes = torch.linalg.eigh(x.T @ x / len(x))  # (D,), (D, D)
    variances = variances.clamp(min=0.0)
    x = x @ axes  # (n, D)
    weight = x.new_zeros(problem.n_outputs, x.shape[1])
    bias = x.new_zeros(problem.n_outputs)
    for strength in strengths:
        if problem.loss == "squared_error":
            y = problem.targets
            weight = ((y - y.mean()) @ x / len(x) / (variances + strength))[None]
            bias = y.mean()[None]
        else:
            root = (variances / 4 + strength).sqrt()
            weight, bias = _logistic(x, problem, strength, weight, bias, root, tolerance)
        rotated = weight @ axes.T / scale
        yield LinearModel(rotated, bias - rotated @ mean)


def _logistic(
    x: Tensor,
    problem: LinearProblem,
    strength: float,
    weight: Tensor,
    bias: Tensor,
    root: Tensor,
    tolerance: float,
) -> tuple[Tensor, Tensor]:
    """Weight (L, D) and bias (L,) of logistic regression, found from those given."""
    parameters = [(weight * root).requires_grad_(), bias.clone().requires_grad_()]
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=MAX_ITERATIONS,
        tolerance_grad=tolerance,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )
    scaled = x / root

    def closure() -> Tensor:
        optimizer.zero_grad()
        u, bias = parameters
        penalty = strength / 2 * (u / root).square().sum()
        loss = problem.mean_loss(scaled @ u.T + bias) + penalty
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    with torch.enable_grad():
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    u, bias = (parameter.detach() for parameter in parameters)
    return u / root, bias


@dataclass(frozen=True)
class CrossValidation:
    """A strength and the score of the outputs for rows that were not fitted."""

    strength: float
    score: float


def cross_validate(
    problem: LinearProblem,
    folds: Tensor,
    score: Callable[[Tensor], float],
    strengths: Sequence[float] = STRENGTHS,
) -> CrossValidation:
    """Choose the strength by the score of the outputs (n, L) of the folds, each left out once.

    folds (n,) int64 is the fold of each row; a higher score is better, and of equal ones the
    stronger is chosen, as the strengths fall. After `MAX_WORSE` weaker ones without a better score
    the rest is not tried.
    """
    held_out = [folds == fold for fold in range(int(folds.max()) + 1)]
    problem = problem.in_float32()
    paths = [fit_path(problem.rows(~rows), strengths, ROUGH) for rows in held_out]
    best, worse = CrossValidation(math.nan, -math.inf), 0
    for strength in strengths:
        outputs = problem.features.new_empty(len(folds), problem.n_outputs)
        for rows, path in zip(held_out, paths, strict=True):
            outputs[rows] = next(path)(problem.features[rows])
        found = CrossValidation(strength, score(outputs))
        if found.score > best.score:
            best, worse = found, 0
        else:
            worse += 1
        if worse == MAX_WORSE:
            break
    return best
