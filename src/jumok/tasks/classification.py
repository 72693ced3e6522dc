"""Classification: one label a text, by an encoder, or by study note 002's encoder-decoder.

Shapes: B texts, T tokens, L labels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.corpora import CLASSIFICATION, Splits
from jumok.data.packing import bucketed
from jumok.data.ragged import Ragged
from jumok.data.table import Table
from jumok.evaluation import ClassificationScores, score_labels
from jumok.models import EncoderDecoderClassifier, TextClassifier
from jumok.tasks.answers import Prediction
from jumok.tasks.augmentation import replaced, sample
from jumok.tasks.batches import Batches, PaddedIds, in_order_of_length, padded
from jumok.tasks.recipe import AugmentationConfig, ModelConfig, Recipe
from jumok.tasks.task import Scored
from jumok.tasks.texts import TextEncoder, texts_of
from jumok.text.vocabulary import Vocabulary
from jumok.training.objectives import cross_entropy, inconsistency
from jumok.training.randomness import permutation, seed_for
from jumok.training.report import Mistake
from jumok.training.trainer import DevScore

if TYPE_CHECKING:
    from jumok.tasks.answering import Loaded

ANSWERING_TOKENS = 4_096  # of a batch when nothing is learned; larger ones are no faster
SHOWN = 30  # mistakes in a report


@dataclass(frozen=True)
class TextBatch:
    """Texts of like length and the numbers of their labels (B,).

    With `twice` the second half are the texts of the first half, augmented in another way.
    """

    texts: PaddedIds
    labels: Tensor
    twice: bool = False

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return self.texts.n_real

    @property
    def units(self) -> int:
        """Texts."""
        return len(self.labels)


@dataclass(frozen=True)
class LabelledTexts:
    """Texts, the ids a classifier reads of them, and the numbers of their labels (n,) int64."""

    texts: Sequence[str]
    ids: Ragged
    labels: NDArray[np.int64]

    @classmethod
    def of_table(
        cls, table: Table, pieces: bool, encode: TextEncoder, labels: Sequence[str]
    ) -> "LabelledTexts":
        """The rows of a table whose cells under "label" are names out of `labels`."""
        numbers = {label: number for number, label in enumerate(labels)}
        wanted = [numbers[label] for label in table.column("label")]
        ids = encode.of_table(table, pieces)
        return cls(texts_of(table, pieces), ids, np.array(wanted, dtype=np.int64))


class ClassificationJob:
    """What a trainer needs to train a classifier by a recipe."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabulary: Vocabulary,
        train: LabelledTexts,
        dev: LabelledTexts,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.device = device
        self.encode = TextEncoder(vocabulary, recipe.model.max_length)
        self.train, self.dev = train, dev

    def epoch(self, number: int) -> Batches[TextBatch]:
        """Batches of like length, in an order and with the augmentation of this epoch."""
        seed = self.recipe.seed
        twice = self.recipe.augmentation.consistency > 0
        views = [self._augmented(number, view) for view in range(1 + twice)]
        order = permutation(len(views[0]), seed, number)
        rng = np.random.Generator(np.random.Philox(seed_for(seed, "batches", number)))
        lengths = np.stack([rows.lengths for rows in views], -1)  # (n, views)
        plan = bucketed(lengths, order, self.recipe.training.batch_tokens, rng)

        def make(examples: NDArray[np.int64]) -> TextBatch:
            both = [rows[i] for rows in views for i in examples]
            labels = torch.from_numpy(self.train.labels[examples]).repeat(len(views))
            texts = padded(both, self.vocabulary.pad_id, self.device)
            return TextBatch(texts, labels.to(self.device), twice)

        return Batches(plan, make)

    def loss(self, batch: TextBatch) -> Tensor:
        """Cross-entropy of the labels, summed over the texts; of texts seen twice R-Drop's."""
        logits = classify(self.model, batch.texts, self.vocabulary.bos_id)
        loss = cross_entropy(logits, batch.labels, self.recipe.training.label_smoothing)
        if batch.twice:
            weight = 2 * self.recipe.augmentation.consistency  # a pair counts as its two texts
            loss = loss + weight * inconsistency(*logits.chunk(2))
        return loss

    def evaluate(self) -> DevScore:
        """The recipe's metric on the development texts, and their mean loss."""
        logits = answer_all(self.model, self.dev.ids, self.vocabulary, self.device)
        wanted = torch.from_numpy(self.dev.labels)
        loss = cross_entropy(logits, wanted).item() / max(len(wanted), 1)
        scores = score_labels(self.dev.labels.tolist(), logits.argmax(-1).tolist(), logits.shape[1])
        metric = self.recipe.score
        return DevScore(loss, float(getattr(scores, metric)), metric)

    def _augmented(self, number: int, view: int) -> Ragged:
        """The training texts as an epoch sees them: a pure function of its number and the view."""
        augmentation, seed = self.recipe.augmentation, self.recipe.seed
        rng = np.random.Generator(np.random.Philox(seed_for(seed, "augmentation", number, view)))
        rows = self.train.ids
        if augmentation.subword_sampling:
            chosen = np.flatnonzero(rng.random(len(rows)) < augmentation.subword_sampling)
            pieces = sample(
                [self.train.texts[int(i)] for i in chosen],
                self.vocabulary,
                augmentation.sampling_alpha,
                seed_for(seed, "sampling", number, view),
            )
            rows = replaced(rows, chosen, self.encode.framed(pieces))
        return _with_token_dropout(rows, augmentation, self.vocabulary, rng)


class Classification:
    """The task: one label a text."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """A text and its label."""
        return CLASSIFICATION

    def texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """The training texts."""
        yield from texts_of(train, recipe.data.pieces)

    def model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """An encoder with a head, or note 002's encoder-decoder."""
        if config.kind == "encoder_decoder":
            return EncoderDecoderClassifier(config, len(labels))
        return TextClassifier(config, len(labels), config.pooling)

    def job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabulary: Vocabulary,
        splits: Splits,
        device: torch.device,
    ) -> ClassificationJob:
        """What a trainer needs."""
        encode = TextEncoder(vocabulary, recipe.model.max_length)
        train, dev = (
            LabelledTexts.of_table(table, recipe.data.pieces, encode, splits.labels)
            for table in (splits.train, splits.dev)
        )
        return ClassificationJob(recipe, model, vocabulary, train, dev, device)

    def score(self, loaded: "Loaded", table: Table, split: str) -> Scored:
        """Accuracy and macro F1, the confusion of labels and the surest mistakes."""
        encode = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)
        labels = loaded.labels
        data = LabelledTexts.of_table(table, loaded.recipe.data.pieces, encode, labels)
        texts, wanted = data.texts, data.labels.tolist()
        found, probabilities = score_texts(
            loaded.model, data.ids, wanted, loaded.vocabulary, loaded.device
        )
        sure, guessed = probabilities.max(-1)
        wrong = (guessed != torch.tensor(wanted)).nonzero().flatten().tolist()
        worst = sorted(wrong, key=lambda i: -float(sure[i]))[:SHOWN]
        return Scored(
            {
                "task": loaded.recipe.task,
                "split": split,
                "n": found.n,
                "accuracy": found.accuracy,
                "macro_f1": found.macro_f1,
            },
            confusion=found.confusion.tolist(),
            mistakes=[
                Mistake(texts[i], labels[wanted[i]], labels[int(guessed[i])], float(sure[i]))
                for i in worst
            ],
        )

    def answer(self, loaded: "Loaded", texts: Sequence[str]) -> list[Prediction]:
        """The probabilities of all labels, a text at a time."""
        rows = TextEncoder(loaded.vocabulary, loaded.recipe.model.max_length)(texts)
        logits = answer_all(loaded.model, rows, loaded.vocabulary, loaded.device)
        return [
            _prediction(text, row, loaded.labels)
            for text, row in zip(texts, logits.softmax(-1).tolist(), strict=True)
        ]


def _prediction(text: str, probabilities: list[float], labels: Sequence[str]) -> Prediction:
    best = max(range(len(probabilities)), key=probabilities.__getitem__)
    by_label = dict(zip(labels, probabilities, strict=True))
    return Prediction(text, labels[best], probabilities[best], by_label)


def classify(model: nn.Module, texts: PaddedIds, bos_id: int) -> Tensor:
    """Logits (B, L); a decoder, where there is one, is given [BOS] as in note 002."""
    if isinstance(model, EncoderDecoderClassifier):
        begin = torch.full((len(texts.ids), 1), bos_id, device=texts.ids.device)
        return model(texts.ids, begin, texts.real)  # type: ignore[no-any-return]
    return model(texts.ids, texts.real)  # type: ignore[no-any-return]


@torch.inference_mode()
def answer_all(
    model: nn.Module, rows: Ragged, vocabulary: Vocabulary, device: torch.device
) -> Tensor:
    """Logits (n, L) float32 on the CPU of every row, in the order of the rows."""
    parts, order = [], []
    for batch in in_order_of_length(rows, ANSWERING_TOKENS):
        texts = padded([rows[i] for i in batch], vocabulary.pad_id, device)
        parts.append(classify(model, texts, vocabulary.bos_id).float().cpu())
        order.append(batch)
    if not parts:
        return torch.empty(0, 0)
    logits = torch.cat(parts)
    back = torch.from_numpy(np.argsort(np.concatenate(order), kind="stable"))
    return logits[back]


def score_texts(
    model: nn.Module,
    rows: Ragged,
    wanted: Sequence[int],
    vocabulary: Vocabulary,
    device: torch.device,
) -> tuple[ClassificationScores, Tensor]:
    """Scores against the labels wanted, and the probabilities (n, L) behind them."""
    logits = answer_all(model, rows, vocabulary, device)
    scores = score_labels(wanted, logits.argmax(-1).tolist(), logits.shape[1])
    return scores, logits.softmax(-1)


def _with_token_dropout(
    rows: Ragged,
    augmentation: AugmentationConfig,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
) -> Ragged:
    """The rows with some tokens hidden behind [MASK]; [CLS] stays."""
    if not augmentation.token_dropout:
        return rows
    hidden = rng.random(len(rows.ids), dtype=np.float32) < augmentation.token_dropout
    hidden[rows.offsets[:-1]] = False
    ids = np.where(hidden, np.int32(vocabulary.mask_id), rows.ids)
    return Ragged(ids, rows.offsets)
