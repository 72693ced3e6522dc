"""Classification: one label per text, or pair of texts, by an encoder or an encoder-decoder."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.decoding.finite import check_logits
from jumok.errors import InputError
from jumok.evaluation import (
    calibration_error,
    classification_metrics,
    label_scores,
)
from jumok.evaluation.examples import Mistake
from jumok.evaluation.own_metric import own_scores
from jumok.models import EncoderDecoderClassifier, text_classifier
from jumok.nn.losses import cross_entropy, rdrop_kl
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder, TextInputs
from jumok.tasks.pipeline.origin import Origin
from jumok.tasks.pipeline.outputs import EvaluationResult, Prediction, RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.predictions import label_predictions
from jumok.tasks.pipeline.sequence_classification import encode_lines, forward, outputs_of
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.shipped_start import COMPARED_PAIRS, SHIPPED_MODEL, SHIPPED_VECTORS
from jumok.tasks.recipe.tables import DistillationConfig, ModelConfig
from jumok.tasks.registry import JOBS
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.text_job import TextJob
from jumok.tasks.task import Task
from jumok.training.job import DevResult

MAX_EXAMPLES = 30  # mistakes in a report


class ClassificationTask(Task):
    """One label per text, or pair of texts."""

    kinds = ("encoder", "encoder_decoder")
    metrics = ("accuracy", "macro_f1")
    columns = ("text", "pair", "label")
    tables = (("distillation", DistillationConfig),)
    augmentations = ("subword_sampling", "token_dropout", "rdrop_alpha")
    reads_pieces = pretokenizes = token_types = compares_rows = True
    has_linear_head = weighs_classes = True
    head_keys = ("kind", "pooling", "pooler")
    answer = "label"
    head = "text_classifier"
    korean = "글 하나(또는 두 글)에 레이블 하나를 붙이는"

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with a classification head, or an encoder-decoder with one."""
        return build_classifier(config, labels)

    def n_outputs(self, config: ModelConfig, labels: Sequence[str]) -> int:
        """A logit for each label."""
        return len(labels)

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """Cross-entropy of the labels; with teachers also their probabilities."""
        return (
            JOBS.get("classification.distillation")
            if recipe.distillation.teachers
            else ClassificationJob
        )

    def start(self, *, paired: bool) -> tuple[str, dict[str, Any]] | None:
        """Pairs begin from the shipped vectors, which represent similarity, and are compared."""
        return start_of_classifier(paired)

    def check_imported(self, origin: Origin, labels: Sequence[str]) -> None:
        """Raise InputError for another problem_type than that of single labels."""
        if not origin.single_label:
            raise InputError(
                "task.unknown_problem_type",
                "config.json: problem_type must be single_label_classification or "
                "multi_label_classification, got {config!r}; use .logits(...), or train a head "
                "with model.init",
                config=str(origin.config["problem_type"])[:80],
            )

    def imported_as(self, origin: Origin, labels: Sequence[str]) -> str | None:
        """The problem_type or a single label select another task for the same head."""
        if origin.multi_label:
            return "multi_label_classification"
        return "regression" if len(labels) == 1 else None

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Accuracy, macro F1, calibration error, and the most confident mistakes."""
        recipe, labels = pipeline.recipe, pipeline.labels
        encode = TextEncoder(pipeline.vocabulary, recipe.model.max_length)
        data = label_table(table, recipe.data.pieces, encode, labels)
        truth = data.labels.tolist()
        logits = outputs_of(pipeline, data.ids)
        metrics = classification_metrics(truth, logits.argmax(-1).tolist(), logits.shape[1])
        probabilities = logits.softmax(-1)
        check_logits(probabilities)
        confidence, predicted = probabilities.max(-1)
        correct = predicted == torch.tensor(truth)
        wrong = (~correct).nonzero().flatten().tolist()
        worst = sorted(wrong, key=lambda i: -float(confidence[i]))[:MAX_EXAMPLES]
        return EvaluationResult(
            {
                "task": recipe.task,
                "split": split,
                "n": metrics.n,
                "accuracy": metrics.accuracy,
                "macro_f1": metrics.macro_f1,
                "calibration_error": calibration_error(confidence.tolist(), correct.tolist()),
                "labels": label_scores(metrics.confusion, labels),
                **own_scores(
                    recipe.metric,
                    [labels[i] for i in truth],
                    [labels[i] for i in predicted.tolist()],
                ),
            },
            confusion=metrics.confusion.tolist(),
            mistakes=[
                Mistake(
                    data.texts.display(i),
                    labels[truth[i]],
                    labels[int(predicted[i])],
                    float(confidence[i]),
                )
                for i in worst
            ],
        )

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[Prediction]:
        """The probabilities of all labels for each text, or pair separated by a TAB."""
        rows = encode_lines(pipeline, texts)
        logits = outputs_of(pipeline, rows)
        return label_predictions(texts, logits.numpy(), pipeline.labels)

    def row_outputs(self, pipeline: Pipeline, table: Table) -> RunOutputs:
        """The label of each row; the metric is accuracy."""
        from jumok.tasks.shared.row_statistics import fraction  # to compare runs

        encode = TextEncoder(pipeline.vocabulary, pipeline.recipe.model.max_length)
        labels = pipeline.labels
        data = label_table(table, pipeline.recipe.data.pieces, encode, labels)
        logits = outputs_of(pipeline, data.ids)
        predicted = logits.argmax(-1).numpy()
        return RunOutputs(
            [data.texts.display(i) for i in range(len(table))],
            [labels[i] for i in data.labels],
            [labels[i] for i in predicted],
            {"accuracy": fraction(predicted == data.labels)},
            logits.softmax(-1).amax(-1).tolist(),
        )


def start_of_classifier(paired: bool) -> tuple[str, dict[str, Any]]:
    """The shipped model that a user's classifier begins from, and its keys of [model]."""
    return (SHIPPED_VECTORS, dict(COMPARED_PAIRS)) if paired else (SHIPPED_MODEL, {})


def build_classifier(config: ModelConfig, labels: Sequence[str]) -> nn.Module:
    """An encoder with one logit for each label, or an encoder-decoder with them."""
    if config.kind == "encoder_decoder":
        return EncoderDecoderClassifier(config, len(labels))
    return text_classifier(config, len(labels), config.pooling, config.pooler)


def label_table(
    table: Table, pieces: bool, encode: TextEncoder, labels: Sequence[str]
) -> LabelledTexts:
    """The rows of a table, with each cell of "label" as its index in `labels`."""
    indices = {label: index for index, label in enumerate(labels)}
    label_ids = np.array([indices[label] for label in table.column("label")], dtype=np.int64)
    texts = TextInputs.from_table(table, pieces)
    return LabelledTexts(texts, encode.encode_table(table, pieces), label_ids)


class ClassificationJob(TextJob):
    """Trains a classifier with cross-entropy."""

    linear_loss = "cross_entropy"

    def _read(self, table: Table, splits: Splits) -> LabelledTexts:
        self.labels, self.n_labels = splits.labels, len(splits.labels)
        return label_table(table, self.recipe.data.pieces, self.encode, splits.labels)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Cross-entropy of the labels, summed over the texts; with two views plus R-Drop."""
        logits = forward(self.model, batch.texts, self.tokenizer)  # (B, L)
        loss = self.label_loss(logits, batch)
        if batch.two_views:  # a pair counts as its two texts
            loss = loss + self.rdrop_alpha * rdrop_kl(*logits.chunk(2))
        return loss

    def label_loss(self, logits: Tensor, batch: LabelledBatch) -> Tensor:
        """The loss of logits (B, L) without R-Drop, summed over the texts: ()."""
        smoothing = self.recipe.training.label_smoothing
        if self.log_prior is not None:
            logits = logits.float() + self.log_prior
        if self.own_loss is not None:
            return self.own_loss(logits.float(), batch.labels)
        return cross_entropy(logits, batch.labels, smoothing)

    @cached_property
    def log_prior(self) -> Tensor | None:
        """The logarithm of the share of each label, (L,), with class_weights "balanced".

        The logits plus this are those of the training split; the logits alone are those of equally
        frequent labels (Menon et al. 2021, section 5.2). Weights of the labels in the loss have the
        same aim, but lose their effect once the training texts are fitted.
        """
        if self.recipe.training.class_weights != "balanced":
            return None
        counts = np.bincount(self.train.labels, minlength=self.n_labels).clip(min=1)
        return torch.from_numpy(np.log(counts / counts.sum())).float().to(self.device)

    def score(self, outputs: Tensor, labels: NDArray[Any]) -> DevResult:
        """The recipe's metric and the mean loss of logits (n, L)."""
        loss = (self.own_loss or cross_entropy)(outputs, torch.from_numpy(labels)).item()
        predicted = outputs.argmax(-1).tolist()
        metrics = classification_metrics(labels.tolist(), predicted, outputs.shape[1])
        names = [[self.labels[i] for i in indices] for indices in (labels.tolist(), predicted)]
        return self.dev_result(loss / max(len(labels), 1), metrics, *names)
