"""The tasks of the engine: outputs from logits, as the files of `jumok.tasks` with torch.

Shapes: n texts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jumok.tasks.pipeline.outputs import Output
from jumok.tasks.pipeline.predictions import (
    check_finite,
    label_predictions,
    multi_label_predictions,
    score_outputs,
    sigmoid,
)

if TYPE_CHECKING:
    from jumok.engine.run import EncoderRun

Array = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class EngineTask:
    """What the engine asks of a task.

    `outputs` are those of the texts (n) with these logits (n, outputs). Instead of logits a task
    that `compares_vectors` has the cosines (n) of both texts of each row.
    """

    outputs: Callable[["EncoderRun", Sequence[str], Array], Sequence[Output]]
    one_output: bool = False  # of the head; otherwise one for each label
    compares_vectors: bool = False


def _label(run: "EncoderRun", texts: Sequence[str], logits: Array) -> Sequence[Output]:
    return label_predictions(texts, logits, run.labels)


def _labels(run: "EncoderRun", texts: Sequence[str], logits: Array) -> Sequence[Output]:
    check_finite(logits)
    return multi_label_predictions(texts, sigmoid(logits), run.labels, run.threshold)


def _score(run: "EncoderRun", texts: Sequence[str], logits: Array) -> Sequence[Output]:
    scores = logits.astype(np.float64).reshape(len(texts))
    check_finite(scores, "scores")
    return score_outputs(texts, scores * run.regression.span + run.regression.lowest)


def _similarity(run: "EncoderRun", texts: Sequence[str], cosines: Array) -> Sequence[Output]:
    scores = cosines.astype(np.float64)
    check_finite(scores, "scores")
    return score_outputs(texts, scores)


TASKS = {
    "classification": EngineTask(_label),
    "multi_label_classification": EngineTask(_labels),
    "regression": EngineTask(_score, one_output=True),
    "similarity": EngineTask(_similarity, compares_vectors=True),
}
