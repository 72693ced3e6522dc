"""What the tasks share that answer a text, or a pair of texts, as a whole.

The batches of an epoch, augmented anew in each, and what a model says to them. Shapes: B texts, T
tokens, L outputs of the model: one for each label, or one alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.packing import bucketed
from jumok.data.ragged import Ragged
from jumok.models import EncoderDecoderClassifier, TextClassifier
from jumok.tasks.augmentation import replaced, sample
from jumok.tasks.batches import Batches, PaddedIds, in_order_of_length, padded
from jumok.tasks.recipe import Recipe
from jumok.tasks.texts import TextEncoder, Texts, segments_of
from jumok.text.vocabulary import Vocabulary
from jumok.training.randomness import permutation, seed_for

ANSWERING_TOKENS = 4_096  # of a batch when nothing is learned; larger ones are no faster


@dataclass(frozen=True)
class TextBatch:
    """Texts of like length and what is wanted for each: labels' numbers or scores, (B,).

    With `twice` the second half are the texts of the first half, augmented in another way.
    """

    texts: PaddedIds
    wanted: Tensor
    twice: bool = False

    @property
    def tokens(self) -> int:
        """Real tokens."""
        return self.texts.n_real

    @property
    def units(self) -> int:
        """Texts."""
        return len(self.wanted)


@dataclass(frozen=True)
class KnownTexts:
    """Texts, the ids a model reads of them, and what is wanted: int64 labels or float32 scores."""

    texts: Texts
    ids: Ragged
    wanted: NDArray[Any]  # (n,)


@dataclass(frozen=True)
class Epochs:
    """The training texts as each epoch shows them: a pure function of the epoch's number."""

    recipe: Recipe
    vocabulary: Vocabulary
    train: KnownTexts
    device: torch.device

    def __getitem__(self, number: int) -> Batches[TextBatch]:
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
            wanted = torch.from_numpy(self.train.wanted[examples]).repeat(len(views))
            texts = padded(both, self.vocabulary.pad_id, self.device)
            return TextBatch(texts, wanted.to(self.device), twice)

        return Batches(plan, make)

    def _augmented(self, number: int, view: int) -> Ragged:
        """The training texts as an epoch sees them: a pure function of its number and the view."""
        augmentation, seed = self.recipe.augmentation, self.recipe.seed
        rng = np.random.Generator(np.random.Philox(seed_for(seed, "augmentation", number, view)))
        rows = self.train.ids
        if augmentation.subword_sampling:
            chosen = np.flatnonzero(rng.random(len(rows)) < augmentation.subword_sampling)
            rows = replaced(rows, chosen, self._sampled(chosen, number, view))
        kept = () if self.train.texts.pairs is None else (self.vocabulary.sep_id,)
        return with_token_dropout(rows, augmentation.token_dropout, self.vocabulary, rng, kept)

    def _sampled(self, chosen: NDArray[np.int64], number: int, view: int) -> Ragged:
        """The chosen texts cut at random; both texts of a pair are."""
        alpha, seed = self.recipe.augmentation.sampling_alpha, self.recipe.seed
        encode = TextEncoder(self.vocabulary, self.recipe.model.max_length)
        texts, pairs = self.train.texts.texts, self.train.texts.pairs
        rows = sample(
            [texts[int(i)] for i in chosen],
            self.vocabulary,
            alpha,
            seed_for(seed, "sampling", number, view),
        )
        if pairs is None:
            return encode.framed(rows)
        seconds = sample(
            [pairs[int(i)] for i in chosen],
            self.vocabulary,
            alpha,
            seed_for(seed, "sampling", number, view, "pair"),
        )
        return encode.framed(rows, seconds)


def with_token_dropout(
    rows: Ragged,
    share: float,
    vocabulary: Vocabulary,
    rng: np.random.Generator,
    kept: Sequence[int] = (),
) -> Ragged:
    """The rows with a share of their tokens hidden behind [MASK]; [CLS] and the ids `kept` stay."""
    if not share:
        return rows
    hidden = rng.random(len(rows.ids), dtype=np.float32) < share
    hidden[rows.offsets[:-1]] = False
    hidden[np.isin(rows.ids, kept)] = False
    ids = np.where(hidden, np.int32(vocabulary.mask_id), rows.ids)
    return Ragged(ids, rows.offsets)


def outputs(model: nn.Module, texts: PaddedIds, vocabulary: Vocabulary) -> Tensor:
    """What the model says to a batch, (B, L); it learns from [SEP] which token is of which text.

    A decoder, where there is one, is given [BOS] as in note 002.
    """
    assert isinstance(model, TextClassifier | EncoderDecoderClassifier)
    segmented = model.encoder.embedding.segments is not None
    segments = segments_of(texts.ids, vocabulary.sep_id) if segmented else None
    if isinstance(model, EncoderDecoderClassifier):
        begin = torch.full((len(texts.ids), 1), vocabulary.bos_id, device=texts.ids.device)
        return model(texts.ids, begin, texts.real, segments=segments)  # type: ignore[no-any-return]
    return model(texts.ids, texts.real, segments=segments)  # type: ignore[no-any-return]


@torch.inference_mode()
def answer_all(
    model: nn.Module, rows: Ragged, vocabulary: Vocabulary, device: torch.device
) -> Tensor:
    """The outputs (n, L) float32 on the CPU for every row, in the order of the rows."""
    parts, order = [], []
    for batch in in_order_of_length(rows, ANSWERING_TOKENS):
        texts = padded([rows[i] for i in batch], vocabulary.pad_id, device)
        parts.append(outputs(model, texts, vocabulary).float().cpu())
        order.append(batch)
    if not parts:
        return torch.empty(0, 0)
    found = torch.cat(parts)
    back = torch.from_numpy(np.argsort(np.concatenate(order), kind="stable"))
    return found[back]
