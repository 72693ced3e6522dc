"""Regression: one score per text, or pair of texts, such as the similarity of two sentences.

The model has one output. It is trained on scores scaled to `recipe.regression`; its outputs are
scaled back and may be slightly outside that range. Shapes: n texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.evaluation import regression_metrics
from jumok.evaluation.own_metric import own_scores
from jumok.models import PairClassifier, TextClassifier, text_classifier
from jumok.nn.hooks import shared_copy
from jumok.tasks.classification import start_of_classifier
from jumok.tasks.inputs.batches import LazyBatches, collate
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.pipeline.outputs import EvaluationResult, RegressionOutput, RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.predictions import check_finite, score_outputs
from jumok.tasks.pipeline.sequence_classification import encode_lines, forward, outputs_of
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig, RegressionConfig
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.row_statistics import compare_scores
from jumok.tasks.shared.text_job import TextJob
from jumok.tasks.task import Task
from jumok.text.ragged import Ragged
from jumok.training.job import DevResult


class RegressionTask(Task):
    """One score per text, or pair of texts."""

    metrics = ("pearson", "spearman")
    columns = ("text", "pair", "score")
    tables = (("regression", RegressionConfig),)
    augmentations = ("subword_sampling", "token_dropout", "rdrop_alpha")
    smooths_labels = False
    pretokenizes = token_types = compares_rows = has_linear_head = True
    head_keys = ("kind", "pooling", "pooler")
    answer = "score"
    head = "text_classifier"
    problem_type = "regression"
    korean = "글 하나(또는 두 글)에 점수를 매기는"

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with one output."""
        return text_classifier(config, 1, config.pooling, config.pooler)

    def n_outputs(self, config: ModelConfig, labels: Sequence[str]) -> int:
        """A score."""
        return 1

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
                **vars(metrics),
                "mse": float(np.mean((predicted - truth) ** 2)),
                **own_scores(pipeline.recipe.metric, truth.tolist(), predicted.tolist()),
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


def first_rows(texts: Sequence[str]) -> NDArray[np.int64]:
    """The first row of each run of equal texts.

    >>> first_rows(["a", "a", "b", "a"]).tolist()
    [0, 2, 3]
    """
    found = [i for i, text in enumerate(texts) if not i or text != texts[i - 1]]
    return np.array(found, np.int64)


def predict_scores(pipeline: Pipeline, rows: Ragged) -> NDArray[np.float64]:
    """The score of every row, (n,), in the order of the rows, on the scale of the data."""
    outputs = outputs_of(pipeline, rows).double().numpy().reshape(len(rows))
    check_finite(outputs, "the scores")
    regression = pipeline.recipe.regression
    return outputs * regression.span + regression.lowest


@dataclass(frozen=True)
class RankedBatch(LabelledBatch):
    """Pairs, those of each first text together."""

    sizes: tuple[int, ...] = ()  # the pairs of each first text

    @property
    def n_targets(self) -> int:
        """The number of first texts."""
        return len(self.sizes)


class RegressionJob(TextJob):
    """Trains a model with one output by the squared error of the scaled scores, or their order."""

    linear_loss = "squared_error"

    def epoch(self, number: int) -> LazyBatches[LabelledBatch]:
        """The batches of an epoch, with texts of similar length together."""
        if self.recipe.regression.loss == "squared_error":
            return super().epoch(number)
        assert self.texts.pairs is not None  # checked with the recipe
        starts = first_rows(self.texts.texts)
        sizes = np.diff(starts, append=len(self.ids))
        lengths = np.zeros((len(starts), sizes.max()), np.int64)  # (queries, rows of each)
        for row, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            lengths[row, :size] = self.ids.lengths[start : start + size]

        def build(queries: NDArray[np.int64]) -> LabelledBatch:
            examples = np.concatenate([np.arange(starts[q], starts[q] + sizes[q]) for q in queries])
            rows = [self.ids[i] for i in examples]
            texts = collate(rows, self.tokenizer.padding_id, self.device)
            return RankedBatch(
                texts, self.labels_of(examples), sizes=tuple(sizes[queries].tolist())
            )

        return LazyBatches(self.index_batches(lengths, number), build)

    def _read(self, table: Table, splits: Splits) -> LabelledTexts:
        scale, texts = self.recipe.regression, TextInputs.from_table(table)
        scores = (np.array(table.numbers("score")[:]) - scale.lowest) / scale.span
        return LabelledTexts(texts, self.encode.encode_table(table), scores.astype(np.float32))

    def loss(self, batch: LabelledBatch) -> Tensor:
        """(output - label)^2, summed over the texts; with two views plus R-Drop.

        For numbers the R-Drop term is the squared difference of the two outputs. Of ranked pairs
        the cross-entropy of the best one among those of its first text (the top one probability of
        Cao et al. 2007, "Learning to rank", section 4).
        """
        outputs = forward(self.model, batch.texts, self.tokenizer)[:, 0].float()  # (B,)
        if isinstance(batch, RankedBatch):
            sizes, labels = list(batch.sizes), batch.labels.float()
            parts = (torch.split(each, sizes) for each in (outputs, labels))
            logits, scores = (
                pad_sequence(list(p), True, -torch.inf) for p in parts
            )  # (queries, rows)
            return F.cross_entropy(logits, scores.argmax(-1), reduction="sum")
        loss = (self.own_loss or squared_error)(outputs, batch.labels)
        if batch.two_views:  # a pair counts as its two texts
            first, second = outputs.chunk(2)
            loss = loss + self.rdrop_alpha * squared_error(first, second)
        return loss

    def score(self, outputs: Tensor, labels: NDArray[Any]) -> DevResult:
        """The recipe's metric, and the mean loss of the scaled scores."""
        found = outputs.double().reshape(len(labels))
        loss = (self.own_loss or squared_error)(found, torch.from_numpy(labels).double()).item()
        scale = self.recipe.regression
        rows = [(each * scale.span + scale.lowest).tolist() for each in (labels, found.numpy())]
        metrics = regression_metrics(labels.tolist(), found.tolist())
        return self.dev_result(loss / max(len(labels), 1), metrics, *rows)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """(output - target)^2, summed: (N,), (N,) -> ()."""
    return F.mse_loss(outputs, targets, reduction="sum")
