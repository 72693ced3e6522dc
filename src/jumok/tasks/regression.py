"""Regression: one number a text, or a pair of texts, such as how alike two sentences are.

The model has one output. It learns the scores scaled to `recipe.regression`, by their squared
error; what it answers is scaled back and may lie a little beyond that range. Shapes: B or n texts.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import REGRESSION, Splits
from jumok.data.table import Table
from jumok.evaluation import regression_metrics
from jumok.models import text_classifier
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import LazyBatches
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.jobs.epoch_sampler import EpochSampler
from jumok.tasks.pipeline.outputs import RegressionOutput
from jumok.tasks.pipeline.sequence_classification import (
    LabelledTexts,
    TextBatch,
    epoch_batches,
    forward,
    predict_all,
)
from jumok.tasks.pipeline.task import EvaluationResult
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

if TYPE_CHECKING:
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.pipeline import Pipeline


class RegressionJob:
    """What a trainer needs to train a model that gives scores."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabulary: Tokenizer,
        train: LabelledTexts,
        dev: LabelledTexts,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.device = device
        self.train, self.dev = train, dev
        self.epochs = EpochSampler(recipe, vocabulary, train.texts, train.ids, device)

    def epoch(self, number: int) -> LazyBatches[TextBatch]:
        """Batches of like length, in an order and with the augmentation of this epoch."""
        return epoch_batches(self.epochs, self.train, number)

    def loss(self, batch: TextBatch) -> Tensor:
        """(answered - wanted)^2, summed over the texts; texts seen twice must be answered alike.

        For numbers R-Drop's divergence of the two answers is the square of their difference.
        """
        answered = forward(self.model, batch.texts, self.vocabulary)[:, 0].float()  # (B,)
        loss = F.mse_loss(answered, batch.labels, reduction="sum")
        if batch.two_views:
            weight = self.recipe.augmentation.rdrop_alpha  # a pair counts as its two texts
            once, again = answered.chunk(2)
            loss = loss + weight * F.mse_loss(once, again, reduction="sum")
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and their mean squared error as scaled."""
        answered = predict_scaled(self.model, self.dev.ids, self.vocabulary, self.device, processes)
        loss = float(np.mean((answered - self.dev.labels) ** 2))
        metric = self.recipe.selection_metric
        scores = regression_metrics(self.dev.labels.tolist(), answered.tolist())
        return DevResult(loss, float(getattr(scores, metric)), metric)


class RegressionTask:
    """The task: one number a text, or a pair of texts."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """A text, the other one of a pair, and the score."""
        return REGRESSION if recipe.paired else ("text", "score")

    def vocabulary_texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """The training texts, of pairs all the first ones before all the others."""
        yield from TextInputs.from_table(train)

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with one output."""
        return text_classifier(config, 1, config.pooling, config.pooler)

    def build_job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabularies: "TokenizerPair",
        splits: Splits,
        device: torch.device,
    ) -> RegressionJob:
        """What a trainer needs."""
        train, dev = (
            scale_targets(table, recipe, vocabularies.source)
            for table in (splits.train, splits.dev)
        )
        return RegressionJob(recipe, model, vocabularies.source, train, dev, device)

    def evaluate(self, loaded: "Pipeline", table: Table, split: str) -> EvaluationResult:
        """Pearson's and Spearman's correlation, and the mean squared error of the scores."""
        wanted = np.array(table.numbers("score")[:])
        rows = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length).encode_table(table)
        guessed = predict_scores(loaded, rows)
        found = regression_metrics(wanted, guessed)
        return EvaluationResult(
            {
                "task": loaded.recipe.task,
                "split": split,
                "n": found.n,
                "pearson": found.pearson,
                "spearman": found.spearman,
                "mse": float(np.mean((guessed - wanted) ** 2)),
            }
        )

    def predict(self, loaded: "Pipeline", texts: Sequence[str]) -> list[RegressionOutput]:
        """The score of each text, or pair parted by a TAB, on the scale of the data."""
        encode = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)
        guessed = predict_scores(loaded, encode.encode_lines(texts, loaded.recipe.paired))
        return [
            RegressionOutput(text, score)
            for text, score in zip(texts, guessed.tolist(), strict=True)
        ]


def scale_targets(table: Table, recipe: Recipe, vocabulary: Tokenizer) -> LabelledTexts:
    """The rows of a table and their scores, scaled as they are learnt."""
    ids = TextEncoder(vocabulary, recipe.model.max_length).encode_table(table)
    scale = recipe.regression
    wanted = (np.array(table.numbers("score")[:]) - scale.lowest) / scale.span
    return LabelledTexts(TextInputs.from_table(table), ids, wanted.astype(np.float32))


def predict_scores(loaded: "Pipeline", rows: Ragged) -> NDArray[np.float64]:
    """The score of every row, (n,), in the order of the rows, on the scale of the data."""
    answered = predict_scaled(
        loaded.model, rows, loaded.vocabulary, loaded.device, loaded.processes
    )
    scale = loaded.recipe.regression
    return answered * scale.span + scale.lowest


def predict_scaled(
    model: nn.Module,
    rows: Ragged,
    vocabulary: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> NDArray[np.float64]:
    """What the model answers to every row, (n,), in the order of the rows, as it learnt it."""
    found = predict_all(model, rows, vocabulary, device, processes)
    return found.double().numpy().reshape(len(rows))
