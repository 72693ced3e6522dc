"""Training job of masked language modeling: new masks in every epoch, perplexity."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from jumok.data.packing import length_batches
from jumok.data.splits import Splits
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import LazyBatches
from jumok.tasks.inputs.masking import PieceInfo, mask_tokens
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.jobs.subword_sampling import SubwordSampling, sample_some
from jumok.tasks.masked_lm import MaskedBatch, fixed_masking, masked_hidden, score_masked
from jumok.tasks.recipe.recipe import Recipe
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult


class MaskedLMJob:
    """Trains a masked language model with cross-entropy of the masked tokens."""

    def __init__(
        self,
        recipe: Recipe,
        model: nn.Module,
        tokenizer: Tokenizer,
        train: Sequence[str],
        dev: Sequence[str],
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.train, self.device = train, device
        self.encode = TextEncoder(tokenizer, recipe.model.max_length)
        self.pieces = PieceInfo.of(tokenizer)
        self.dev = fixed_masking(self.encode(dev), self.pieces, recipe.masking)

    @classmethod
    def from_splits(
        cls,
        recipe: Recipe,
        model: nn.Module,
        tokenizers: TokenizerPair,
        splits: Splits,
        device: torch.device,
    ) -> "MaskedLMJob":
        """The job of a recipe and its data."""
        train, dev = (table.column("text") for table in (splits.train, splits.dev))
        return cls(recipe, model, tokenizers.source, train, dev, device)

    def epoch(self, number: int) -> LazyBatches[MaskedBatch]:
        """The batches of an epoch, in its order and with its masks."""
        seed = self.recipe.seed
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "masking", number)))
        masked = mask_tokens(self._rows(number), self.pieces, self.recipe.masking, rng)
        order = permutation(len(masked.rows), seed, number)
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "batches", number)))
        batch_tokens = self.recipe.training.batch_tokens
        index_batches = length_batches(masked.rows.lengths, order, batch_tokens, rng)
        pad_id = self.tokenizer.padding_id
        return LazyBatches(
            index_batches, lambda examples: MaskedBatch.of(masked, examples, pad_id, self.device)
        )

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Cross-entropy of the masked tokens, summed."""
        hidden, output = masked_hidden(self.model, batch)
        smoothing = self.recipe.training.label_smoothing
        return fused_linear_cross_entropy(hidden, output, batch.labels, label_smoothing=smoothing)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """Perplexity of the development texts, with the same masks every time."""
        metrics, _ = score_masked(self.model, self.dev, self.tokenizer, self.device, processes)
        return DevResult(metrics.loss, metrics.perplexity, "perplexity")

    def _rows(self, number: int) -> Ragged:
        """The input ids of the training texts in an epoch."""
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return self.encode(self.train)
        sampling = SubwordSampling(
            augmentation.subword_sampling,
            augmentation.sampling_alpha,
            derive_seed(self.recipe.seed, "sampling", number),
        )
        return self.encode.add_special_tokens(sample_some(self.train, self.tokenizer, sampling))
