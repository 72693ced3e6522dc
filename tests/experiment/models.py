"""Random models, their data, and metrics, for tests of experiments."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumok.experiment import Batch, Data, read
from jumok.tasks.pipeline.pipeline import Pipeline
from tests.interpret.random_models import KINDS, loaded_of, texts_of
from tests.tiny_runs import readings

__all__ = ["KINDS", "data_of", "first_logit", "loaded_of", "model_of", "rows_of", "swapped"]


def model_of(kind: str) -> Pipeline:
    return loaded_of(kind)


def rows_of(kind: str) -> list[Any]:
    """Texts of different lengths, with targets where the model needs them."""
    if kind == "sequences":
        return [(source, target) for source, target in readings(3, 5)]
    return texts_of(kind)


def data_of(kind: str) -> Data:
    return read(model_of(kind), rows_of(kind))


def swapped(data: Data, side: str | None = None) -> Data:
    """The data with other real tokens: those of each row in reverse, of one side or of all."""
    ids: dict[Any, Any] = {
        each: [row[::-1] if side in (None, each) else row for row in rows]
        for each, rows in data.ids.items()
    }
    return Data(ids, data.segments, data.labels)


def first_logit(logits: Tensor, batch: Batch) -> Tensor:
    """A metric that is linear in the logits: the first one minus the second, at the last token."""
    last = batch.at(logits) if logits.ndim > 1 else logits
    return last[:, 0] - last[:, 1] if last.shape[1] > 1 else last[:, 0]


def by_hand(kind: str, row: int, data: Data | None = None, model: Any = None) -> float:
    """The metric of one row without padding."""
    data = data or data_of(kind)
    batch = data.batch(np.array([row]), torch.device("cpu"))
    model = model or model_of(kind).model
    ids = [batch.ids[side] for side in data.ids]
    segments = {} if batch.segments is None else {"segments": batch.segments}
    with torch.no_grad():
        return float(first_logit(model(*ids, **segments), batch))
