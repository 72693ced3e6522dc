"""The output layer as a linear model of the frozen vectors of a pretrained encoder.

The rest of the model is not changed, so that the run is an ordinary one. Fine-tuning that begins
from this layer changes the vectors less than one from a random layer (Kumar et al. 2022, section
3). Shapes: n texts, D features, L outputs.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.models import PairClassifier, TextClassifier
from jumok.seeding import derive_seed
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, batches_by_length, collate
from jumok.tasks.pipeline.encoder_choice import text_session
from jumok.tasks.pipeline.sequence_classification import forward
from jumok.tasks.shared.text_job import TextJob
from jumok.text.ragged import Ragged
from jumok.training.linear_models import (
    N_FOLDS,
    STRENGTHS,
    CrossValidation,
    LinearProblem,
    balanced_weights,
    cross_validate,
    fit,
)

MAX_ROWS = 20_000  # of the fit: more hardly change so few weights, and fine-tuning reads them all
MAX_CROSS_VALIDATED = 5_000


@dataclass(frozen=True)
class LinearHead:
    """What was fitted: the score by cross-validation chose the strength of the penalty."""

    metric: str
    score: float
    strength: float
    rows: int
    seconds: float


def fit_linear_head(job: TextJob) -> LinearHead:
    """Set the output layer of the job's model to the linear model of its training split.

    The strength of the penalty is chosen by cross-validation with the recipe's metric.
    """
    start = time.monotonic()
    seed = derive_seed(job.recipe.seed, "linear")
    rng = np.random.Generator(np.random.Philox(seed))
    chosen = rng.permutation(len(job.train.labels))[:MAX_ROWS]
    labels = job.train.labels[chosen]
    problem = LinearProblem(
        _features(job, chosen),
        torch.from_numpy(labels if labels.dtype == np.int64 else labels.astype(np.float64)),
        job.linear_loss,
        _output(job.model).out_features,
        _row_weights(job, labels),
    )
    found = _cross_validated(job, problem, labels)
    model = fit(problem, found.strength)
    _set_output(job.model, model.weight, model.bias)
    metric = job.recipe.selection_metric
    return LinearHead(metric, found.score, found.strength, len(labels), time.monotonic() - start)


def _cross_validated(job: TextJob, problem: LinearProblem, labels: NDArray[Any]) -> CrossValidation:
    """The strength and the recipe's metric of the rows that are left out, of the first rows."""
    labels = labels[:MAX_CROSS_VALIDATED]
    if len(labels) < N_FOLDS:  # nothing can be chosen by so few
        return CrossValidation(STRENGTHS[0], 0.0)
    return cross_validate(
        problem.rows(torch.arange(len(labels))),
        torch.from_numpy(stratified_folds(labels)),
        lambda outputs: job.score(outputs.float(), labels).score,
    )


def stratified_folds(labels: NDArray[np.generic], n_folds: int = N_FOLDS) -> NDArray[np.int64]:
    """The fold of each row (n,), with about the same labels in each; the rows are in random order.

    >>> stratified_folds(np.array([0, 0, 0, 0, 1, 1]), n_folds=2).tolist()
    [0, 1, 0, 1, 0, 1]
    """
    order = np.argsort(labels, kind="stable") if labels.ndim == 1 else np.arange(len(labels))
    folds = np.empty(len(labels), np.int64)
    folds[order] = np.arange(len(labels)) % n_folds
    return folds


def _row_weights(job: TextJob, labels: NDArray[np.generic]) -> Tensor | None:
    if job.recipe.training.class_weights != "balanced":
        return None
    ids = torch.from_numpy(labels)
    return balanced_weights(ids, _output(job.model).out_features)[ids]


@torch.inference_mode()
def _features(job: TextJob, examples: NDArray[np.int64]) -> Tensor:
    """The inputs of the output layers of these training texts without dropout: (n, D) float64."""
    rows = job.ids.take(examples)
    vectors = _kernel_vectors(job, rows)
    if vectors is not None:
        return vectors
    model, found = job.model, list[Tensor]()
    layers = [_output(model), *([model.similarity] if isinstance(model, PairClassifier) else [])]
    inputs: dict[nn.Module, Tensor] = {}
    hooks = [
        layer.register_forward_pre_hook(lambda module, x: inputs.update({module: x[0]}))
        for layer in layers
    ]
    was_training = model.training
    model.eval()
    try:
        order = batches_by_length(rows, EVAL_BATCH_TOKENS)
        for batch in order:
            forward(
                model,
                collate([rows[i] for i in batch], job.tokenizer.padding_id, job.device),
                job.tokenizer,
            )
            found.append(torch.cat([inputs[layer].cpu().double() for layer in layers], -1))
    finally:
        model.train(was_training)
        for hook in hooks:
            hook.remove()
    return torch.cat(found)[torch.from_numpy(np.argsort(np.concatenate(order), kind="stable"))]


def _kernel_vectors(job: TextJob, rows: Ragged) -> Tensor | None:
    """The pooled hidden states by the C++ kernel, three times as fast; None where it has none."""
    from jumok.inference import optimize
    from jumok.inference.optimization import unsupported_reason
    from jumok.native.measured import is_compiled

    model = job.model
    if not isinstance(model, TextClassifier) or not isinstance(model.pooler, nn.Identity):
        return None
    if job.device.type != "cpu" or not is_compiled("float32") or unsupported_reason(model):
        return None
    session = text_session(optimize(model))
    if session is None:
        return None
    return torch.from_numpy(session.vectors(rows, model.pooling, normalize=False)).double()


def _output(model: nn.Module) -> nn.Linear:
    assert isinstance(model, TextClassifier | PairClassifier)  # checked with the recipe
    return model.output


@torch.no_grad()
def _set_output(model: nn.Module, weight: Tensor, bias: Tensor) -> None:
    """Set the weights (L, D) of the output layers; those of similarities are the last ones."""
    output = _output(model)
    output.weight.copy_(weight[:, : output.in_features])
    output.bias.copy_(bias)
    if isinstance(model, PairClassifier):
        model.similarity.weight.copy_(weight[:, output.in_features :])
