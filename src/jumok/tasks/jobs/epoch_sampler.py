"""The training texts as each epoch shows them: in an order, batches and augmentation of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.data.packing import length_batches
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch, collate
from jumok.tasks.inputs.masking import special_ids
from jumok.tasks.inputs.special_tokens import pad_id_or_zero
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.jobs.subword_sampling import replace_rows, sample_all
from jumok.tasks.recipe.recipe import Recipe
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, unk_id

BatchT = TypeVar("B")


@dataclass(frozen=True)
class EpochSampler:
    """All epochs of some texts; each is a pure function of its number and the recipe's seed."""

    recipe: Recipe
    vocabulary: Tokenizer
    texts: TextInputs
    ids: Ragged  # what a model reads of them
    device: torch.device

    @property
    def two_views(self) -> bool:
        """Whether a batch holds its texts twice, augmented in two ways, as R-Drop wants them."""
        return self.recipe.augmentation.rdrop_alpha > 0

    def batches(
        self, number: int, make: Callable[[PaddedBatch, NDArray[np.int64]], BatchT]
    ) -> LazyBatches[BatchT]:
        """The batches of an epoch, texts of like length together.

        Each is made of its ids and of which texts they are, (B,); seen twice, a text of the first
        half stands at the same place of the second half again.
        """
        seed = self.recipe.seed
        views = [self._augment(number, view) for view in range(1 + self.two_views)]
        order = permutation(len(self.ids), seed, number)
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "batches", number)))
        lengths = np.stack([rows.lengths for rows in views], -1)  # (n, views)
        plan = length_batches(lengths, order, self.recipe.training.batch_tokens, rng)

        def batch(examples: NDArray[np.int64]) -> BatchT:
            both = [rows[i] for rows in views for i in examples]
            ids = collate(both, pad_id_or_zero(self.vocabulary), self.device)
            return make(ids, np.tile(examples, len(views)))

        return LazyBatches(plan, batch)

    def _augment(self, number: int, view: int) -> Ragged:
        """The texts as an epoch sees them: a pure function of its number and the view."""
        augmentation, seed = self.recipe.augmentation, self.recipe.seed
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "augmentation", number, view)))
        rows = self.ids
        if augmentation.subword_sampling:
            chosen = np.flatnonzero(rng.random(len(rows)) < augmentation.subword_sampling)
            rows = replace_rows(rows, chosen, self._sampled(chosen, number, view))
        return _with_token_dropout(rows, augmentation.token_dropout, self.vocabulary, rng)

    def _sampled(self, chosen: NDArray[np.int64], number: int, view: int) -> Ragged:
        """The chosen texts cut at random; both texts of a pair are."""
        words = ("sampling", number, view)
        rows = self._cut(self.texts.texts, chosen, words)
        pairs = self.texts.pairs
        others = None if pairs is None else self._cut(pairs, chosen, (*words, "pair"))
        return TextEncoder(self.vocabulary, self.recipe.model.max_length).add_special_tokens(
            rows, others
        )

    def _cut(
        self, texts: Sequence[str], chosen: NDArray[np.int64], words: Sequence[int | str]
    ) -> Ragged:
        alpha, seed = self.recipe.augmentation.sampling_alpha, derive_seed(self.recipe.seed, *words)
        return sample_all([texts[int(i)] for i in chosen], self.vocabulary, alpha, seed)


def _with_token_dropout(
    rows: Ragged,
    share: float,
    vocabulary: Tokenizer,
    rng: np.random.Generator,
) -> Ragged:
    """The rows with a share of their tokens hidden behind [MASK]; [CLS], [SEP] and so on stay."""
    if not share:
        return rows
    hidden = rng.random(len(rows.ids), dtype=np.float32) < share
    hidden[rows.offsets[:-1]] = False
    stay = set(special_ids(vocabulary)) - {unk_id(vocabulary)}  # a text's own [UNK] may be hidden
    hidden[np.isin(rows.ids, list(stay))] = False
    ids = np.where(hidden, np.int32(vocabulary.mask_id), rows.ids)
    return Ragged(ids, rows.offsets)
