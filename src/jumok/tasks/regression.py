"""Regression: one score per text, or pair of texts, such as the similarity of two sentences.

The model has one output. It is trained on scores scaled to `recipe.regression`; its outputs are
scaled back and may be slightly outside that range. Shapes: n texts.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.evaluation import (
    regression_metrics,
)
from jumok.models import PairClassifier, TextClassifier, text_classifier
from jumok.nn.hooks import shared_copy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.classification import start_of_classifier
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.pipeline.outputs import EvaluationResult, RegressionOutput, RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.predictions import check_finite, score_outputs
from jumok.tasks.pipeline.sequence_classification import encode_lines, forward, predict_all
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig, RegressionConfig
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.row_statistics import compare_scores
from jumok.tasks.shared.text_job import TextJob
from jumok.tasks.task import Task
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult


class RegressionTask(Task):
    """One score per text, or pair of texts."""

    metrics = ("pearson", "spearman")
    columns = ("text", "pair", "score")
    tables = (("regression", RegressionConfig),)
    augmentations = ("subword_sampling", "token_dropout", "rdrop_alpha")
    unsmoothed = "which has no labels"
    pretokenizes = token_types = compares_rows = has_linear_head = True
    head_keys = ("kind", "pooling", "pooler")
    answer = "score"
    head = "text_classifier"
    problem_type = "regression"
    korean = "글 하나(또는 두 글)에 점수를 매기는"

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with one output."""
        return text_classifier(config, 1, config.pooling, config.pooler)

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """The squared error of the scaled scores."""
        return RegressionJob

    def start(self, *, paired: bool) -> tuple[str, dict[str, Any]] | None:
        """As a classifier."""
        return start_of_classifier(paired)

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
        return score_outputs(texts, predict_scores(pipeline, encode_lines(pipeline, texts)))

    def row_outputs(self, pipeline: Pipeline, table: Table) -> RunOutputs:
        """The score of each row; the metric is Pearson's correlation."""
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        return compare_scores(table, predict_scores(pipeline, encode.encode_table(table)))

    def for_export(self, pipeline: Pipeline) -> Pipeline:
        """Fold [regression] into the weights of the output layer.

        Scores from 0 to 5 are trained as 0 to 1, so w and b become 5 w and 5 b. Imported models are
        returned unchanged.
        """
        scale = pipeline.recipe.regression
        if pipeline.origin is not None or scale == RegressionConfig():
            return pipeline

        @torch.no_grad()
        def scaled(model: nn.Module) -> nn.Module:
            copy = shared_copy(model)
            assert isinstance(copy, TextClassifier | PairClassifier)
            weight, bias = copy.output.weight, copy.output.bias
            copy.output.weight = nn.Parameter(weight * scale.span, requires_grad=False)
            copy.output.bias = nn.Parameter(bias * scale.span + scale.lowest, requires_grad=False)
            if isinstance(copy, PairClassifier):
                weight = copy.similarity.weight * scale.span
                copy.similarity.weight = nn.Parameter(weight, requires_grad=False)
            return copy

        folded = pipeline.with_models(scaled)
        folded.recipe = replace(pipeline.recipe, regression=RegressionConfig())
        return folded


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
    check_finite(outputs, "the scores")
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


class RegressionJob(TextJob):
    """Trains a model with one output by the squared error of the scaled scores."""

    linear_loss = "squared_error"

    def _read(self, table: Table, splits: Splits) -> LabelledTexts:
        return scale_targets(table, self.encode, self.recipe.regression)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """(output - label)^2, summed over the texts; with two views plus R-Drop.

        For numbers the R-Drop term is the squared difference of the two outputs.
        """
        outputs = forward(self.model, batch.texts, self.tokenizer)[:, 0].float()  # (B,)
        loss = F.mse_loss(outputs, batch.labels, reduction="sum")
        if batch.two_views:  # a pair counts as its two texts
            first, second = outputs.chunk(2)
            loss = loss + self.rdrop_alpha * F.mse_loss(first, second, reduction="sum")
        return loss

    def score(self, outputs: Tensor, labels: NDArray[Any]) -> DevResult:
        """The recipe's metric, and the mean squared error of the scaled scores."""
        found = outputs.double().numpy().reshape(len(labels))
        loss = float(np.mean((found - labels) ** 2))
        return self.dev_result(loss, regression_metrics(labels.tolist(), found.tolist()))
