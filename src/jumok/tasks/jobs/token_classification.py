"""Training job of token classification: cross-entropy of piece tags, entity F1.

Shapes: B texts, T pieces, N tagged pieces, L tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import Splits
from jumok.evaluation import entity_metrics
from jumok.nn.losses import cross_entropy, rdrop_kl
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch, collate
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.inputs.token_labels import IGNORE_INDEX, LabelledTokens
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.jobs.epoch_sampler import EpochSampler
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.token_classification import drop_spaces, forward, log_probabilities, viterbi_tags
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult


@dataclass(frozen=True)
class TagBatch:
    """Texts of similar length and their tag ids (B, T), IGNORE_INDEX where there is none.

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
        """The number of tagged pieces."""
        return int((self.labels != IGNORE_INDEX).sum())


class TokenClassificationJob:
    """Trains a token classifier with cross-entropy of the tags of pieces."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        tokenizer: Tokenizer,
        train: LabelledTokens,
        dev: LabelledTokens,
        tags: Sequence[str],
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.dev, self.tags, self.device = dev, tags, device
        self.labels, self.dev_labels = train.label_ids(tags), dev.label_ids(tags)
        self.epochs = EpochSampler(
            TextEncoder(tokenizer, recipe.model.max_length),
            TextInputs(train.texts.texts),
            train.texts.ids,
            recipe.augmentation,
            recipe.training.batch_tokens,
            recipe.seed,
            device,
        )

    @classmethod
    def from_splits(
        cls,
        recipe: Recipe,
        model: nn.Module,
        tokenizers: TokenizerPair,
        splits: Splits,
        device: torch.device,
    ) -> "TokenClassificationJob":
        """The job of a recipe and its data."""
        encode = TextEncoder(tokenizers.source, recipe.model.max_length)
        train, dev = (
            LabelledTokens.from_table(table, encode) for table in (splits.train, splits.dev)
        )
        return cls(recipe, model, tokenizers.source, train, dev, splits.labels, device)

    def epoch(self, number: int) -> LazyBatches[TagBatch]:
        """The batches of an epoch, in its order and with its dropped tokens."""

        def build(texts: PaddedBatch, examples: NDArray[np.int64]) -> TagBatch:
            labels = collate([self.labels[i] for i in examples], IGNORE_INDEX, self.device)
            return TagBatch(texts, labels.input_ids, self.epochs.two_views)

        return self.epochs.batches(number, build)

    def loss(self, batch: TagBatch) -> Tensor:
        """Cross-entropy of the tags, summed over the pieces; with two views plus R-Drop."""
        tagged = batch.labels != IGNORE_INDEX  # (B, T)
        logits = forward(self.model, batch.texts)[tagged]  # (N, L)
        smoothing = self.recipe.training.label_smoothing
        loss = cross_entropy(logits, batch.labels[tagged], smoothing)
        if batch.two_views:
            weight = self.recipe.augmentation.rdrop_alpha  # a pair counts as its two texts
            loss = loss + weight * rdrop_kl(*logits.chunk(2))
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """KLUE's entity F1 of the development texts, and their mean loss per piece."""
        texts = self.dev.texts
        log_p = log_probabilities(self.model, texts.ids, self.tokenizer, self.device, processes)
        total, n = 0.0, 0
        for number, row in enumerate(log_p):
            labels = self.dev_labels[number]
            positions = np.flatnonzero(labels != IGNORE_INDEX)
            total -= float(row[positions, labels[positions]].sum())
            n += len(positions)
        predicted = viterbi_tags(texts, log_p, self.tags)
        rows = (drop_spaces(tags, texts.texts) for tags in (self.dev.tags, predicted))
        score = entity_metrics(*rows).macro_f1
        return DevResult(total / max(n, 1), score, self.recipe.selection_metric)
