"""Training job of token classification: cross-entropy of the tags, entity F1.

Shapes: B texts, T pieces or characters, N of them with a tag, L tags.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.splits import Splits
from jumok.evaluation import entity_metrics
from jumok.models import Characters
from jumok.nn.losses import cross_entropy, rdrop_kl
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs.batches import LazyBatches, collate
from jumok.tasks.inputs.character_texts import CharacterTexts
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.inputs.token_labels import IGNORE_INDEX, LabelledTokens, TokenizedTexts
from jumok.tasks.jobs.encoder_job import EncoderJob, LabelledBatch, drop_tokens
from jumok.tasks.token_classification import (
    drop_spaces,
    forward,
    log_probabilities,
    texts_type,
    viterbi_tags,
)
from jumok.training.job import DevResult


class TokenClassificationJob(EncoderJob):
    """Trains a token classifier with cross-entropy of the tags of pieces or characters."""

    def prepare(self, splits: Splits) -> None:
        """Encode the texts, and turn the tags of their characters into labels."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        kind, self.tags = texts_type(self.recipe.model), splits.labels
        train = LabelledTokens.from_table(splits.train, self.encode, kind)
        self.dev = LabelledTokens.from_table(splits.dev, self.encode, kind)
        self.train_texts, self.ids = train.texts, train.texts.ids
        self.texts = TextInputs(train.texts.texts)
        self.train_labels, self.dev_labels = (
            train.label_ids(self.tags),
            self.dev.label_ids(self.tags),
        )

    def labels_of(self, examples: NDArray[np.int64]) -> Tensor:
        """The tag ids of the pieces or characters of these training texts, (B, T)."""
        rows = [self.train_labels[i] for i in examples]
        return collate(rows, IGNORE_INDEX, self.device).input_ids

    def epoch(self, number: int) -> LazyBatches[LabelledBatch]:
        """The batches of an epoch; the characters of each view have the pieces of that view."""
        views = [self._view(number, view) for view in range(2 if self.rdrop_alpha > 0 else 1)]
        lengths = np.stack([view.ids.lengths for view in views], -1)  # (n, views)

        def build(examples: NDArray[np.int64]) -> LabelledBatch:
            rows = [view.ids[i] for view in views for i in examples]
            texts = collate(rows, self.tokenizer.padding_id, self.device)
            characters = [view.characters(examples, self.device) for view in views]
            return LabelledBatch(
                texts,
                self.labels_of(np.tile(examples, len(views))),
                two_views=len(views) > 1,
                characters=Characters.concat(characters),
            )

        return LazyBatches(self.index_batches(lengths, number), build)

    def _view(self, number: int, view: int) -> TokenizedTexts:
        """The augmented training texts of an epoch: a pure function of its number and the view."""
        rng, augmentation = self.augmentation_rng(number, view), self.recipe.augmentation
        texts = self.train_texts
        if augmentation.subword_sampling and isinstance(texts, CharacterTexts):
            chosen = np.flatnonzero(rng.random(len(texts.ids)) < augmentation.subword_sampling)
            sampled = self.sample_texts(texts.texts, chosen, ("sampling", number, view))
            texts = texts.with_pieces(chosen, sampled, self.encode)
        ids = drop_tokens(texts.ids, augmentation.token_dropout, self.tokenizer, rng)
        return replace(texts, ids=ids)

    def loss(self, batch: LabelledBatch) -> Tensor:
        """Cross-entropy of the tags, summed over them; with two views plus R-Drop."""
        tagged = batch.labels != IGNORE_INDEX  # (B, T)
        logits = forward(self.model, batch.texts, batch.characters)[tagged]  # (N, L)
        smoothing = self.recipe.training.label_smoothing
        loss = cross_entropy(logits, batch.labels[tagged], smoothing)
        if batch.two_views:  # a pair counts as its two texts
            loss = loss + self.rdrop_alpha * rdrop_kl(*logits.chunk(2))
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """KLUE's entity F1 of the development texts, and their mean loss per tag."""
        texts = self.dev.texts
        log_p = log_probabilities(self.model, texts, self.tokenizer, self.device, processes)
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
