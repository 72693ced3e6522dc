"""Classification: one label a text, or a pair of texts.

By an encoder, or by study note 002's encoder-decoder.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from jumok.data.splits import CLASSIFICATION, PAIRS, Splits
from jumok.data.table import Table
from jumok.evaluation import ClassificationMetrics, calibration_error, classification_metrics
from jumok.evaluation.examples import Mistake
from jumok.models import EncoderDecoderClassifier, text_classifier
from jumok.nn.losses import cross_entropy, rdrop_kl
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import LazyBatches
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.jobs.epoch_sampler import EpochSampler
from jumok.tasks.pipeline.outputs import EvaluationResult, Prediction
from jumok.tasks.pipeline.sequence_classification import (
    LabelledTexts,
    TextBatch,
    epoch_batches,
    forward,
    predict_all,
)
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

if TYPE_CHECKING:
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.pipeline import Pipeline

MAX_EXAMPLES = 30  # mistakes in a report


class ClassificationJob:
    """What a trainer needs to train a classifier by a recipe."""

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
        """Cross-entropy of the labels, summed over the texts; of texts seen twice R-Drop's."""
        logits = forward(self.model, batch.texts, self.vocabulary)  # (B, L)
        loss = cross_entropy(logits, batch.labels, self.recipe.training.label_smoothing)
        if batch.two_views:
            weight = self.recipe.augmentation.rdrop_alpha  # a pair counts as its two texts
            loss = loss + weight * rdrop_kl(*logits.chunk(2))
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development texts, and their mean loss."""
        logits = predict_all(self.model, self.dev.ids, self.vocabulary, self.device, processes)
        wanted = torch.from_numpy(self.dev.labels)
        loss = cross_entropy(logits, wanted).item() / max(len(wanted), 1)
        scores = classification_metrics(
            self.dev.labels.tolist(), logits.argmax(-1).tolist(), logits.shape[1]
        )
        metric = self.recipe.selection_metric
        return DevResult(loss, float(getattr(scores, metric)), metric)


class ClassificationTask:
    """The task: one label a text, or a pair of texts."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """A text, the other one of a pair, and the label."""
        return PAIRS if recipe.paired else CLASSIFICATION

    def vocabulary_texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """The training texts, of pairs all the first ones before all the others."""
        yield from TextInputs.from_table(train, recipe.data.pieces)

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with a head, or note 002's encoder-decoder."""
        if config.kind == "encoder_decoder":
            return EncoderDecoderClassifier(config, len(labels))
        return text_classifier(config, len(labels), config.pooling, config.pooler)

    def build_job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabularies: "TokenizerPair",
        splits: Splits,
        device: torch.device,
    ) -> ClassificationJob:
        """What a trainer needs."""
        encode = TextEncoder(vocabularies.source, recipe.model.max_length)
        train, dev = (
            label_table(table, recipe.data.pieces, encode, splits.labels)
            for table in (splits.train, splits.dev)
        )
        return ClassificationJob(recipe, model, vocabularies.source, train, dev, device)

    def evaluate(self, loaded: "Pipeline", table: Table, split: str) -> EvaluationResult:
        """Accuracy, macro F1, how far certainty is from being right, the surest mistakes."""
        encode = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)
        labels = loaded.labels
        data = label_table(table, loaded.recipe.data.pieces, encode, labels)
        wanted = data.labels.tolist()
        found, probabilities = score_texts(
            loaded.model, data.ids, wanted, loaded.vocabulary, loaded.device, loaded.processes
        )
        sure, guessed = probabilities.max(-1)
        right = guessed == torch.tensor(wanted)
        wrong = (~right).nonzero().flatten().tolist()
        worst = sorted(wrong, key=lambda i: -float(sure[i]))[:MAX_EXAMPLES]
        return EvaluationResult(
            {
                "task": loaded.recipe.task,
                "split": split,
                "n": found.n,
                "accuracy": found.accuracy,
                "macro_f1": found.macro_f1,
                "calibration_error": calibration_error(sure.tolist(), right.tolist()),
            },
            confusion=found.confusion.tolist(),
            mistakes=[
                Mistake(
                    data.texts.display(i),
                    labels[wanted[i]],
                    labels[int(guessed[i])],
                    float(sure[i]),
                )
                for i in worst
            ],
        )

    def predict(self, loaded: "Pipeline", texts: Sequence[str]) -> list[Prediction]:
        """The probabilities of all labels, a text, or a pair parted by a TAB, at a time."""
        encode = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)
        rows = encode.encode_lines(texts, loaded.recipe.paired)
        logits = predict_all(loaded.model, rows, loaded.vocabulary, loaded.device)
        return [
            _prediction(text, row, loaded.labels)
            for text, row in zip(texts, logits.softmax(-1).tolist(), strict=True)
        ]


def _prediction(text: str, probabilities: list[float], labels: Sequence[str]) -> Prediction:
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    by_label = dict(zip(labels, probabilities, strict=True))
    return Prediction(text, labels[best], probabilities[best], by_label)


def label_table(
    table: Table, pieces: bool, encode: TextEncoder, labels: Sequence[str]
) -> LabelledTexts:
    """The rows of a table, and for each cell under "label" the number of that name in `labels`."""
    numbers = {label: number for number, label in enumerate(labels)}
    wanted = [numbers[label] for label in table.column("label")]
    ids = encode.encode_table(table, pieces)
    return LabelledTexts(
        TextInputs.from_table(table, pieces), ids, np.array(wanted, dtype=np.int64)
    )


def score_texts(
    model: nn.Module,
    rows: Ragged,
    wanted: Sequence[int],
    vocabulary: Tokenizer,
    device: torch.device,
    processes: ProcessGroup = SINGLE_PROCESS,
) -> tuple[ClassificationMetrics, Tensor]:
    """Scores against the labels wanted, and the probabilities (n, L) behind them."""
    logits = predict_all(model, rows, vocabulary, device, processes)
    scores = classification_metrics(wanted, logits.argmax(-1).tolist(), logits.shape[1])
    return scores, logits.softmax(-1)
