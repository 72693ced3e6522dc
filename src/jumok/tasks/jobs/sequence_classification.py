"""Training jobs of classifiers and regressions: one output vector per text, or pair of texts.

Shapes: B texts, L labels.
"""

from abc import abstractmethod

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.evaluation import (
    classification_metrics,
    multi_label_metrics,
    regression_metrics,
)
from jumok.lab.distillation.distillation import (
    distillation_loss,
    soft_labels,
    with_unlabelled,
)
from jumok.nn.losses import binary_cross_entropy, cross_entropy, rdrop_kl
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.classification import label_table
from jumok.tasks.inputs.batches import PaddedBatch
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder
from jumok.tasks.inputs.token_labels import IGNORE_INDEX
from jumok.tasks.inputs.unlabelled_texts import unlabelled_texts
from jumok.tasks.jobs.encoder_job import EncoderJob, LabelledBatch
from jumok.tasks.multi_label import multi_label_table, predict_logits
from jumok.tasks.pipeline.sequence_classification import forward, predict_all
from jumok.tasks.regression import predict_scaled, scale_targets
from jumok.training.job import DevResult


class TextJob(EncoderJob):
    """Abstract: the labels of each text, or its score."""

    def prepare(self, splits: Splits) -> None:
        """Encode the texts, and turn their labels into numbers."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        self.train, self.dev = self._read(splits.train, splits), self._read(splits.dev, splits)
        self.texts, self.ids = self.train.texts, self.train.ids

    @abstractmethod
    def _read(self, table: Table, splits: Splits) -> LabelledTexts: ...

    def labels_of(self, examples: NDArray[np.int64]) -> Tensor:
        """The label ids or scores of these training texts, (B,), or their label sets, (B, L)."""
        return torch.from_numpy(self.train.labels[examples]).to(self.device)


class ClassificationJob(TextJob):
    """Trains a classifier with cross-entropy, and by the probabilities of teachers if there are."""

    soft_labels: Tensor | None = None  # (n, L) of the training texts

    def prepare(self, splits: Splits) -> None:
        """Encode the texts; with teachers, add texts without a label and predict soft labels."""
        super().prepare(splits)
        config = self.recipe.distillation
        if config.teachers:
            added = unlabelled_texts(config, splits)
            self.train = with_unlabelled(self.train, added, self.encode)
            self.texts, self.ids = self.train.texts, self.train.ids
            self.soft_labels = soft_labels(config, self.texts, splits.labels, self.device)

    def labelled(
        self, texts: PaddedBatch, examples: NDArray[np.int64], *, two_views: bool
    ) -> LabelledBatch:
        """The batch of these training texts, with their soft labels if there are any."""
        soft = self.soft_labels
        chosen = None if soft is None else soft[torch.from_numpy(examples)].to(self.device)
        return LabelledBatch(texts, self.labels_of(examples), two_views, chosen)

    def _read(self, table: Table, splits: Splits) -> LabelledTexts:
        return label_table(table, self.recipe.data.pieces, self.encode, splits.labels)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Cross-entropy of the labels, summed over the texts; with two views plus R-Drop.

        With teachers the divergence from their probabilities is added for every text.
        """
        logits = forward(self.model, batch.texts, self.tokenizer)  # (B, L)
        labelled = batch.labels != IGNORE_INDEX  # all, unless texts without a label were added
        loss = cross_entropy(
            logits[labelled], batch.labels[labelled], self.recipe.training.label_smoothing
        )
        if batch.soft_labels is not None:
            config = self.recipe.distillation
            divergence = distillation_loss(logits, batch.soft_labels, config.temperature)
            loss = loss + config.weight * divergence
        if batch.two_views:  # a pair counts as its two texts
            loss = loss + self.rdrop_alpha * rdrop_kl(*logits.chunk(2))
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and their mean loss."""
        logits = predict_all(self.model, self.dev.ids, self.tokenizer, self.device, processes)
        labels = torch.from_numpy(self.dev.labels)
        loss = cross_entropy(logits, labels).item() / max(len(labels), 1)
        predicted = logits.argmax(-1).tolist()
        metrics = classification_metrics(self.dev.labels.tolist(), predicted, logits.shape[1])
        return self.dev_result(loss, metrics)


class MultiLabelJob(TextJob):
    """Trains a classifier that decides each label by itself with binary cross-entropy."""

    def _read(self, table: Table, splits: Splits) -> LabelledTexts:
        return multi_label_table(table, self.encode, splits.labels)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Binary cross-entropy, summed over the texts and the labels."""
        logits = forward(self.model, batch.texts, self.tokenizer)  # (B, L)
        return binary_cross_entropy(logits, batch.labels)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and the mean loss of their labels."""
        logits = predict_logits(self.model, self.dev.ids, self.tokenizer, self.device, processes)
        labels = torch.from_numpy(self.dev.labels)
        loss = binary_cross_entropy(logits, labels).item() / max(labels.numel(), 1)
        predicted = logits.sigmoid() >= self.recipe.multi_label.threshold
        metrics = multi_label_metrics(self.dev.labels > 0, predicted.numpy())
        return self.dev_result(loss, metrics)


class RegressionJob(TextJob):
    """Trains a model with one output by the squared error of the scaled scores."""

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

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and the mean squared scaled error."""
        outputs = predict_scaled(self.model, self.dev.ids, self.tokenizer, self.device, processes)
        loss = float(np.mean((outputs - self.dev.labels) ** 2))
        return self.dev_result(loss, regression_metrics(self.dev.labels.tolist(), outputs.tolist()))
