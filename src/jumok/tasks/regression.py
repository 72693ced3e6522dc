"""Regression: one score per text, or pair of texts, such as the similarity of two sentences.

The model has one output. It is trained on scores scaled to `recipe.regression`; its outputs are
scaled back and may be slightly outside that range. Shapes: n texts.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from jumok.data.table import Table
from jumok.decoding.finite import non_finite_error
from jumok.evaluation import regression_metrics
from jumok.models import text_classifier
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.pipeline.outputs import EvaluationResult, RegressionOutput
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.recipe.tables import ModelConfig, RegressionConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer


class RegressionTask:
    """One score per text, or pair of texts."""

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with one output."""
        return text_classifier(config, 1, config.pooling, config.pooler)

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Pearson's and Spearman's correlation, and the mean squared error of the scores."""
        truth = np.array(table.numbers("score")[:])
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        predicted = predict_scores(pipeline, encode.encode_table(table))
        metrics = regression_metrics(truth, predicted)
        return EvaluationResult(
            {
                "task": pipeline.recipe.task,
                "split": split,
                "n": metrics.n,
                "pearson": metrics.pearson,
                "spearman": metrics.spearman,
                "mse": float(np.mean((predicted - truth) ** 2)),
            }
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[RegressionOutput]:
        """The score of each text, or pair separated by a TAB, on the scale of the data."""
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        scores = predict_scores(pipeline, encode.encode_lines(texts, pipeline.recipe.paired))
        return [
            RegressionOutput(text, score)
            for text, score in zip(texts, scores.tolist(), strict=True)
        ]


def scale_targets(table: Table, encode: TextEncoder, regression: RegressionConfig) -> LabelledTexts:
    """The rows of a table, with their scores scaled to the range of the model's output."""
    scores = (np.array(table.numbers("score")[:]) - regression.lowest) / regression.span
    texts = TextInputs.from_table(table)
    return LabelledTexts(texts, encode.encode_table(table), scores.astype(np.float32))


def predict_scores(pipeline: Pipeline, rows: Ragged) -> NDArray[np.float64]:
    """The score of every row, (n,), in the order of the rows, on the scale of the data."""
    outputs = predict_scaled(
        pipeline.model, rows, pipeline.vocabulary, pipeline.device, pipeline.processes
    )
    if not np.isfinite(outputs).all():
        raise non_finite_error("scores")
    regression = pipeline.recipe.regression
    return outputs * regression.span + regression.lowest


def predict_scaled(
    model: nn.Module,
    rows: Ragged,
    tokenizer: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> NDArray[np.float64]:
    """The output of the model for every row, (n,), in the order of the rows, without rescaling."""
    outputs = predict_all(model, rows, tokenizer, device, processes)
    return outputs.double().numpy().reshape(len(rows))
