"""Training jobs of classification and regression: one output per text, or pair of texts.

Shapes: B texts, L labels.
"""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import Splits
from jumok.evaluation import classification_metrics, regression_metrics
from jumok.nn.losses import cross_entropy, rdrop_kl
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.classification import label_table
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch
from jumok.tasks.inputs.text_encoder import LabelledTexts, TextEncoder
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.jobs.epoch_sampler import EpochSampler
from jumok.tasks.pipeline.sequence_classification import forward, predict_all
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.regression import predict_scaled, scale_targets
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult


@dataclass(frozen=True)
class TextBatch:
    """Texts of similar length and the label id or score of each, (B,).

    With `two_views` the second half repeats the texts of the first half, augmented differently.
    """

    texts: PaddedBatch
    labels: Tensor
    two_views: bool = False

    @property
    def tokens(self) -> int:
        """The number of tokens without padding."""
        return self.texts.n_tokens

    @property
    def n_targets(self) -> int:
        """The number of texts."""
        return len(self.labels)


def epoch_batches(
    epochs: EpochSampler, train: LabelledTexts, number: int
) -> LazyBatches[TextBatch]:
    """The batches of an epoch with the label of each text."""
    labels = torch.from_numpy(train.labels)

    def build(texts: PaddedBatch, examples: NDArray[np.int64]) -> TextBatch:
        return TextBatch(texts, labels[examples].to(epochs.device), epochs.two_views)

    return epochs.batches(number, build)


def epoch_sampler(
    recipe: Recipe, tokenizer: Tokenizer, train: LabelledTexts, device: torch.device
) -> EpochSampler:
    """The epochs of the training texts as the recipe augments them."""
    return EpochSampler(
        TextEncoder(tokenizer, recipe.model.max_length),
        train.texts,
        train.ids,
        recipe.augmentation,
        recipe.training.batch_tokens,
        recipe.seed,
        device,
    )


class ClassificationJob:
    """Trains a classifier with cross-entropy."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        tokenizer: Tokenizer,
        train: LabelledTexts,
        dev: LabelledTexts,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.train, self.dev, self.device = train, dev, device
        self.epochs = epoch_sampler(recipe, tokenizer, train, device)

    @classmethod
    def from_splits(
        cls,
        recipe: Recipe,
        model: nn.Module,
        tokenizers: TokenizerPair,
        splits: Splits,
        device: torch.device,
    ) -> "ClassificationJob":
        """The job of a recipe and its data."""
        encode = TextEncoder(tokenizers.source, recipe.model.max_length)
        train, dev = (
            label_table(table, recipe.data.pieces, encode, splits.labels)
            for table in (splits.train, splits.dev)
        )
        return cls(recipe, model, tokenizers.source, train, dev, device)

    def epoch(self, number: int) -> LazyBatches[TextBatch]:
        """The batches of an epoch, in its order and with its augmentation."""
        return epoch_batches(self.epochs, self.train, number)

    def loss(self, batch: TextBatch) -> Tensor:
        """Cross-entropy of the labels, summed over the texts; with two views plus R-Drop."""
        logits = forward(self.model, batch.texts, self.tokenizer)  # (B, L)
        loss = cross_entropy(logits, batch.labels, self.recipe.training.label_smoothing)
        if batch.two_views:
            weight = self.recipe.augmentation.rdrop_alpha  # a pair counts as its two texts
            loss = loss + weight * rdrop_kl(*logits.chunk(2))
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and their mean loss."""
        logits = predict_all(self.model, self.dev.ids, self.tokenizer, self.device, processes)
        labels = torch.from_numpy(self.dev.labels)
        loss = cross_entropy(logits, labels).item() / max(len(labels), 1)
        scores = classification_metrics(
            self.dev.labels.tolist(), logits.argmax(-1).tolist(), logits.shape[1]
        )
        metric = self.recipe.selection_metric
        return DevResult(loss, float(getattr(scores, metric)), metric)


class RegressionJob:
    """Trains a model with one output by the squared error of the scaled scores."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        tokenizer: Tokenizer,
        train: LabelledTexts,
        dev: LabelledTexts,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.train, self.dev, self.device = train, dev, device
        self.epochs = epoch_sampler(recipe, tokenizer, train, device)

    @classmethod
    def from_splits(
        cls,
        recipe: Recipe,
        model: nn.Module,
        tokenizers: TokenizerPair,
        splits: Splits,
        device: torch.device,
    ) -> "RegressionJob":
        """The job of a recipe and its data."""
        encode = TextEncoder(tokenizers.source, recipe.model.max_length)
        train, dev = (
            scale_targets(table, encode, recipe.regression) for table in (splits.train, splits.dev)
        )
        return cls(recipe, model, tokenizers.source, train, dev, device)

    def epoch(self, number: int) -> LazyBatches[TextBatch]:
        """The batches of an epoch, in its order and with its augmentation."""
        return epoch_batches(self.epochs, self.train, number)

    def loss(self, batch: TextBatch) -> Tensor:
        """(output - label)^2, summed over the texts; with two views plus R-Drop.

        For numbers the R-Drop term is the squared difference of the two outputs.
        """
        outputs = forward(self.model, batch.texts, self.tokenizer)[:, 0].float()  # (B,)
        loss = F.mse_loss(outputs, batch.labels, reduction="sum")
        if batch.two_views:
            weight = self.recipe.augmentation.rdrop_alpha  # a pair counts as its two texts
            first, second = outputs.chunk(2)
            loss = loss + weight * F.mse_loss(first, second, reduction="sum")
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and the mean squared scaled error."""
        outputs = predict_scaled(self.model, self.dev.ids, self.tokenizer, self.device, processes)
        loss = float(np.mean((outputs - self.dev.labels) ** 2))
        metric = self.recipe.selection_metric
        scores = regression_metrics(self.dev.labels.tolist(), outputs.tolist())
        return DevResult(loss, float(getattr(scores, metric)), metric)
