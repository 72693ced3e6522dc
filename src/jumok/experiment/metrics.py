"""Metrics: a number for each row, from the logits of a batch.

A metric is any function of the logits (B, ...) and their `Batch` that returns (B,). Shapes: B rows
of the batch, n rows of the data, T tokens, V vocabulary, L labels.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.errors import InputError
from jumok.experiment.inputs import Batch
from jumok.tasks.inputs.batches import IGNORE_INDEX

Floats: TypeAlias = NDArray[np.float64]
Metric: TypeAlias = Callable[[Tensor, Batch], Tensor]


def logit_difference(
    right: Sequence[int] | int, wrong: Sequence[int] | int, tokens: Sequence[int] | int = -1
) -> Metric:
    """The metric logit(right) - logit(wrong) at a token, or of two labels of a classifier.

    right, wrong: the ids for each row of the data, (n,) each, or one id for all rows. tokens: the
    index of the token in each row, or in all; by default the last one. Wang et al. 2022, section 2.

    >>> batch = Batch(torch.tensor([1]), {}, {})
    >>> logit_difference([0, 2], [0, 0])(torch.tensor([[1.0, 5.0, 4.0]]), batch)
    tensor([3.])
    >>> logit_difference(2, 0)(torch.tensor([[1.0, 5.0, 4.0]]), batch)
    tensor([3.])

    Raises InputError for text in the place of ids, and from the metric for ids that the logits or
    the rows do not have.
    """
    first_ids, second_ids = (_ids(ids) for ids in (right, wrong))
    for_all = first_ids.ndim == second_ids.ndim == 0
    n = torch.as_tensor(tokens).numel() if for_all else max(first_ids.numel(), second_ids.numel())
    both = torch.stack([first_ids.expand(n), second_ids.expand(n)], 1)  # (n, 2)
    places = torch.as_tensor(tokens).expand(n)  # (n,)

    def metric(logits: Tensor, batch: Batch) -> Tensor:
        rows, size = batch.rows.cpu(), logits.shape[-1]
        if for_all and n == 1:
            rows = torch.zeros_like(rows)
        if int(rows.max()) >= n or not bool(((both >= 0) & (both < size)).all()):
            raise InputError(
                "experiment.ids_of_difference",
                "right and wrong must have an id from 0 to {last} for each row of the data, got "
                "{right} and {wrong}",
                last=size - 1,
                right=both[:, 0].tolist()[:10],
                wrong=both[:, 1].tolist()[:10],
            )
        ids = both[rows].to(logits.device)  # (B, 2)
        first, second = batch.at(logits, places[rows]).gather(1, ids).unbind(1)
        return first - second

    return metric


def _ids(ids: object) -> Tensor:
    """Ids as a tensor, (n,) or (). Raises InputError for text and other values."""
    try:
        found = torch.as_tensor(ids)
    except (TypeError, ValueError, RuntimeError):
        found = torch.zeros(0)
    if found.numel() == 0 or found.ndim > 1 or found.is_floating_point():
        raise InputError(
            "experiment.ids_are_integers",
            "right and wrong must be ids, integers, got {ids!r}; model.vocabulary.encode(text) "
            "returns the ids of a text, and of a classifier the id is the number of the label",
            ids=ids,
        )
    return found


def mean_log_probability(logits: Tensor, batch: Batch) -> Tensor:
    """The mean log-probability of the next tokens of each row, (B,): minus its loss.

    Raises InputError for a model that generates no text.
    """
    if batch.labels is None:
        raise InputError(
            "experiment.no_next_tokens",
            "this metric needs a model that generates text; try a metric of its labels",
        )
    real = batch.labels != IGNORE_INDEX  # (B, T)
    log_p = logits.log_softmax(-1).gather(-1, batch.labels.clamp(min=0)[..., None])[..., 0]
    return (log_p * real).sum(1) / real.sum(1).clamp(min=1)


def per_row(metric: Metric, logits: Tensor, batch: Batch) -> Tensor:
    """The metric of a batch, (B,). Raises InputError for another shape."""
    values = metric(logits, batch)
    if not isinstance(values, Tensor) or values.shape != (len(batch),):
        raise InputError(
            "experiment.metric_shape",
            "a metric must return one number per row, {n} of them, got {shape}; sum over tokens "
            "and labels, not over rows",
            n=len(batch),
            shape=tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__,
        )
    return values
