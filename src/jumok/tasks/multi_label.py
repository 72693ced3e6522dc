"""Multi-label classification: any number of labels per text, or pair of texts.

Each label is decided by itself: its probability is the sigmoid of its logit, and the prediction
are the labels from `recipe.multi_label.threshold` on. Shapes: n texts, L labels.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.files.labels import SEPARATOR, join_labels, split_labels
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.decoding.finite import check_logits
from jumok.errors import InputError
from jumok.evaluation import multi_label_metrics
from jumok.evaluation.bootstrap import RowStatistics
from jumok.evaluation.examples import Mistake
from jumok.evaluation.own_metric import own_scores
from jumok.nn.losses import binary_cross_entropy
from jumok.tasks.classification import MAX_EXAMPLES, build_classifier, start_of_classifier
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.pipeline.outputs import EvaluationResult, MultiLabelPrediction, RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.predictions import chosen_labels, multi_label_predictions, sigmoid
from jumok.tasks.pipeline.sequence_classification import encode_lines, forward, outputs_of
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig, MultiLabelConfig
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.row_statistics import fraction
from jumok.tasks.shared.text_job import TextJob
from jumok.tasks.task import Task
from jumok.text.ragged import Ragged
from jumok.training.job import DevResult


class MultiLabelTask(Task):
    """Any number of labels per text, or pair of texts."""

    kinds = ("encoder", "encoder_decoder")
    metrics = ("micro_f1", "macro_f1", "exact_match")
    columns = ("text", "pair", "labels")
    tables = (("multi_label", MultiLabelConfig),)
    augmentations = ("subword_sampling", "token_dropout")
    smooths_labels = False
    pretokenizes = token_types = compares_rows = has_linear_head = True
    head_keys = ("kind", "pooling", "pooler")
    answer = "labels"
    head = "text_classifier"
    problem_type = "multi_label_classification"
    korean = "글 하나(또는 두 글)에 레이블을 여럿 붙이는"

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The model of a classifier, with one logit for each label."""
        return build_classifier(config, labels)

    def n_outputs(self, config: ModelConfig, labels: Sequence[str]) -> int:
        """A logit for each label."""
        return len(labels)

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """Binary cross-entropy of each label."""
        return MultiLabelJob

    def start(self, *, paired: bool) -> tuple[str, dict[str, Any]] | None:
        """As a classifier."""
        return start_of_classifier(paired)

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise InputError for a name that cannot be written in a cell of several labels."""
        wrong = [name for name in recipe.data.labels if SEPARATOR in name]
        if wrong:
            raise InputError(
                "task.separator_in_label",
                "data.labels must be names without {separator}, which separates the labels of a "
                "text, got {wrong!r}; rename it",
                separator=SEPARATOR,
                wrong=wrong[0],
            )

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Micro and macro F1, exact match, and the most confident mistakes."""
        recipe, labels = pipeline.recipe, pipeline.labels
        encode = TextEncoder(pipeline.vocabulary, recipe.model.max_length)
        data = multi_label_table(table, encode, labels)
        probabilities = label_probabilities(pipeline, data.ids)
        predicted, truth = probabilities >= recipe.multi_label.threshold, data.labels > 0
        metrics = multi_label_metrics(truth, predicted)
        certainty = np.where(truth == predicted, 0.0, np.abs(probabilities - 0.5) + 0.5)  # (n, L)
        wrong = np.flatnonzero((truth != predicted).any(-1))
        worst = sorted(wrong.tolist(), key=lambda i: -float(certainty[i].max()))[:MAX_EXAMPLES]
        return EvaluationResult(
            {
                "task": recipe.task,
                "split": split,
                **vars(metrics),
                **own_scores(
                    recipe.metric,
                    [chosen_labels(row, labels) for row in truth],
                    [chosen_labels(row, labels) for row in predicted],
                ),
            },
            mistakes=[
                Mistake(
                    data.texts.display(i),
                    " | ".join(chosen_labels(truth[i], labels)) or "–",
                    " | ".join(chosen_labels(predicted[i], labels)) or "–",
                    float(certainty[i].max()),
                )
                for i in worst
            ],
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[MultiLabelPrediction]:
        """The labels of each text, or pair separated by a TAB, and the probability of each one."""
        rows = encode_lines(pipeline, texts)
        probabilities = label_probabilities(pipeline, rows)
        threshold = pipeline.recipe.multi_label.threshold
        return multi_label_predictions(texts, probabilities, pipeline.labels, threshold)

    def row_outputs(self, pipeline: Pipeline, table: Table) -> RunOutputs:
        """The labels of each row; the metrics are micro F1 and exact match."""
        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        data = multi_label_table(table, encode, pipeline.labels)
        threshold = pipeline.recipe.multi_label.threshold
        predicted, truth = label_probabilities(pipeline, data.ids) >= threshold, data.labels > 0
        counts = np.stack([x.sum(-1) for x in (truth, predicted, truth & predicted)], -1)
        return RunOutputs(
            [data.texts.display(i) for i in range(len(table))],
            [join_labels(chosen_labels(row, pipeline.labels)) for row in truth],
            [join_labels(chosen_labels(row, pipeline.labels)) for row in predicted],
            {
                "micro_f1": RowStatistics(counts.astype(np.float64), _micro_f1),
                "exact_match": fraction((truth == predicted).all(-1)),
            },
        )


def _micro_f1(sums: NDArray[np.float64]) -> float:
    """F1 from the counts of expected, predicted and correct labels."""
    expected, predicted, correct = sums
    return float(2 * correct / max(expected + predicted, 1))


def multi_label_table(table: Table, encode: TextEncoder, labels: Sequence[str]) -> LabelledTexts:
    """The rows of a table with their labels (n, L) float32: 1 where a text has the label."""
    indices = {label: index for index, label in enumerate(labels)}
    targets = np.zeros((len(table), len(labels)), dtype=np.float32)
    for row, cell in enumerate(table.column("labels")):
        targets[row, [indices[label] for label in split_labels(cell)]] = 1.0
    return LabelledTexts(TextInputs.from_table(table), encode.encode_table(table), targets)


def label_probabilities(pipeline: Pipeline, rows: Ragged) -> NDArray[np.float64]:
    """The probability of each label for every row, (n, L), in the order of the rows."""
    logits = outputs_of(pipeline, rows)
    check_logits(logits)
    return sigmoid(logits.numpy())


class MultiLabelJob(TextJob):
    """Trains a classifier that decides each label by itself with binary cross-entropy."""

    linear_loss = "binary_cross_entropy"

    def _read(self, table: Table, splits: Splits) -> LabelledTexts:
        self.labels = splits.labels
        return multi_label_table(table, self.encode, splits.labels)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Binary cross-entropy, summed over the texts and the labels."""
        logits = forward(self.model, batch.texts, self.tokenizer)  # (B, L)
        return (self.own_loss or binary_cross_entropy)(logits.float(), batch.labels)

    def score(self, outputs: Tensor, labels: NDArray[Any]) -> DevResult:
        """The recipe's metric and the mean loss of finite logits (n, L)."""
        check_logits(outputs)
        targets = torch.from_numpy(labels)
        loss = (self.own_loss or binary_cross_entropy)(outputs, targets).item()
        predicted = (outputs.sigmoid() >= self.recipe.multi_label.threshold).numpy()
        metrics = multi_label_metrics(labels > 0, predicted)
        expected, found = (
            [chosen_labels(row, self.labels) for row in sets] for sets in (labels > 0, predicted)
        )
        return self.dev_result(loss / max(targets.numel(), 1), metrics, expected, found)
