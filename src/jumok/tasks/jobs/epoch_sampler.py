"""Epochs of training texts: order, batches and augmentation of each epoch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.data.packing import length_batches
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch, collate
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.jobs.subword_sampling import replace_rows, sample_all
from jumok.tasks.recipe.tables import AugmentationConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, unk_id

BatchT = TypeVar("BatchT")


@dataclass(frozen=True)
class EpochSampler:
    """All epochs of some texts; each is a pure function of its number and the seed."""

    encode: TextEncoder
    texts: TextInputs
    ids: Ragged  # of the texts, without augmentation
    augmentation: AugmentationConfig
    batch_tokens: int
    seed: int
    device: torch.device

    @property
    def two_views(self) -> bool:
        """Whether a batch has each text twice, with different augmentation, for R-Drop."""
        return self.augmentation.rdrop_alpha > 0

    def batches(
        self, number: int, build: Callable[[PaddedBatch, NDArray[np.int64]], BatchT]
    ) -> LazyBatches[BatchT]:
        """The batches of an epoch, with texts of similar length together.

        `build` gets the padded ids and the indices of the texts, (B,). With two views the second
        half of a batch repeats the texts of the first half in the same order.
        """
        views = [self._augment(number, view) for view in range(1 + self.two_views)]
        order = permutation(len(self.ids), self.seed, number)
        rng = np.random.Generator(np.random.Philox(derive_seed(self.seed, "batches", number)))
        lengths = np.stack([rows.lengths for rows in views], -1)  # (n, views)
        index_batches = length_batches(lengths, order, self.batch_tokens, rng)

        def batch(examples: NDArray[np.int64]) -> BatchT:
            rows = [view[i] for view in views for i in examples]
            ids = collate(rows, self.encode.tokenizer.padding_id, self.device)
            return build(ids, np.tile(examples, len(views)))

        return LazyBatches(index_batches, batch)

    def _augment(self, number: int, view: int) -> Ragged:
        """The rows of an epoch: a pure function of its number and the view."""
        seed = derive_seed(self.seed, "augmentation", number, view)
        rng = np.random.Generator(np.random.Philox(seed))
        rows, augmentation = self.ids, self.augmentation
        if augmentation.subword_sampling:
            chosen = np.flatnonzero(rng.random(len(rows)) < augmentation.subword_sampling)
            rows = replace_rows(rows, chosen, self._sample(chosen, number, view))
        return drop_tokens(rows, augmentation.token_dropout, self.encode.tokenizer, rng)

    def _sample(self, chosen: NDArray[np.int64], number: int, view: int) -> Ragged:
        """Random segmentations of the chosen texts, of pairs for both texts."""
        keys = ("sampling", number, view)
        rows = self._sample_texts(self.texts.texts, chosen, keys)
        pairs = self.texts.pairs
        other = None if pairs is None else self._sample_texts(pairs, chosen, (*keys, "pair"))
        return self.encode.add_special_tokens(rows, other)

    def _sample_texts(
        self, texts: Sequence[str], chosen: NDArray[np.int64], keys: Sequence[int | str]
    ) -> Ragged:
        alpha, seed = self.augmentation.sampling_alpha, derive_seed(self.seed, *keys)
        return sample_all([texts[int(i)] for i in chosen], self.encode.tokenizer, alpha, seed)


def drop_tokens(
    rows: Ragged, rate: float, tokenizer: Tokenizer, rng: np.random.Generator
) -> Ragged:
    """The rows with a fraction of their tokens replaced by [MASK]; special tokens stay."""
    if not rate:
        return rows
    dropped = rng.random(len(rows.ids), dtype=np.float32) < rate
    dropped[rows.offsets[:-1]] = False
    kept = set(tokenizer.special_ids.values()) - {unk_id(tokenizer)}  # [UNK] of a text may drop
    dropped[np.isin(rows.ids, list(kept))] = False
    ids = np.where(dropped, np.int32(tokenizer.mask_id), rows.ids)
    return Ragged(ids, rows.offsets)
