"""What the jobs of encoders share: labelled texts, augmented anew in each epoch.

Shapes: B texts, T tokens.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from jumok.models.character_classifier import Characters
from jumok.seeding import derive_seed
from jumok.tasks.inputs.batches import IGNORE_INDEX, LazyBatches, PaddedBatch, collate
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.subword_sampling import replace_rows, sample_all
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer, unk_id


@dataclass(frozen=True)
class LabelledBatch:
    """Texts of similar length and their labels: (B,) or (B, L) of texts, (B, T) of their parts.

    The parts are tokens, or characters of a model that tags characters.

    With `two_views` the second half repeats the texts of the first half, augmented differently.
    """

    texts: PaddedBatch
    labels: Tensor  # IGNORE_INDEX where a part has none
    two_views: bool = False
    characters: Characters | None = None  # of a model that tags characters

    @property
    def tokens(self) -> int:
        """The number of tokens without padding."""
        return self.texts.n_tokens

    @property
    def n_targets(self) -> int:
        """The number of labels."""
        return int((self.labels != IGNORE_INDEX).sum())


class EncoderJob(RecipeJob[LabelledBatch]):
    """Abstract: each epoch is a pure function of its number and the seed."""

    encode: TextEncoder
    texts: TextInputs  # for training
    ids: Ragged  # of the texts, without augmentation

    @abstractmethod
    def labels_of(self, examples: NDArray[np.int64]) -> Tensor:
        """The labels of these training texts on the model's device."""

    def labelled(
        self, texts: PaddedBatch, examples: NDArray[np.int64], *, two_views: bool
    ) -> LabelledBatch:
        """The batch of these training texts."""
        return LabelledBatch(texts, self.labels_of(examples), two_views)

    @property
    def rdrop_alpha(self) -> float:
        """The weight of R-Drop; above 0 a batch has each text twice, as two views."""
        return self.recipe.augmentation.rdrop_alpha

    def epoch(self, number: int) -> LazyBatches[LabelledBatch]:
        """The batches of an epoch, with texts of similar length together."""
        views = [self._augment(number, view) for view in range(2 if self.rdrop_alpha > 0 else 1)]
        lengths = np.stack([rows.lengths for rows in views], -1)  # (n, views)

        def build(examples: NDArray[np.int64]) -> LabelledBatch:
            rows = [view[i] for view in views for i in examples]
            texts = collate(rows, self.tokenizer.padding_id, self.device)
            return self.labelled(texts, np.tile(examples, len(views)), two_views=len(views) > 1)

        return LazyBatches(self.index_batches(lengths, number), build)

    def _augment(self, number: int, view: int) -> Ragged:
        """The rows of an epoch: a pure function of its number and the view."""
        rng = self.augmentation_rng(number, view)
        rows, augmentation = self.ids, self.recipe.augmentation
        if augmentation.subword_sampling:
            chosen = np.flatnonzero(rng.random(len(rows)) < augmentation.subword_sampling)
            rows = replace_rows(rows, chosen, self._sample(chosen, number, view))
        return drop_tokens(rows, augmentation.token_dropout, self.tokenizer, rng)

    def augmentation_rng(self, number: int, view: int) -> np.random.Generator:
        """The random numbers of the augmentation of an epoch and view."""
        seed = derive_seed(self.recipe.seed, "augmentation", number, view)
        return np.random.Generator(np.random.Philox(seed))

    def _sample(self, chosen: NDArray[np.int64], number: int, view: int) -> Ragged:
        """Random segmentations of the chosen texts, of pairs for both texts."""
        keys = ("sampling", number, view)
        rows = self.sample_texts(self.texts.texts, chosen, keys)
        pairs = self.texts.pairs
        other = None if pairs is None else self.sample_texts(pairs, chosen, (*keys, "pair"))
        return self.encode.add_special_tokens(rows, other)

    def sample_texts(
        self, texts: Sequence[str], chosen: NDArray[np.int64], keys: Sequence[int | str]
    ) -> Ragged:
        """Random segmentations of the chosen texts, without special tokens."""
        seed, alpha = derive_seed(self.recipe.seed, *keys), self.recipe.augmentation.sampling_alpha
        return sample_all([texts[int(i)] for i in chosen], self.tokenizer, alpha, seed)


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
