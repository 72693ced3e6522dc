"""Training job of masked language modeling: new masks in every epoch, perplexity."""

import numpy as np
from torch import Tensor

from jumok.data.splits import Splits
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed
from jumok.tasks.inputs.batches import LazyBatches
from jumok.tasks.inputs.masking import PieceInfo, mask_tokens
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.jobs.recipe_job import RecipeJob
from jumok.tasks.jobs.subword_sampling import sample_some
from jumok.tasks.masked_lm import MaskedBatch, fixed_masking, masked_hidden, score_masked
from jumok.text.ragged import Ragged
from jumok.training.job import DevResult


class MaskedLMJob(RecipeJob[MaskedBatch]):
    """Trains a masked language model with cross-entropy of the masked tokens."""

    def prepare(self, splits: Splits) -> None:
        """Mask the development texts; the training texts are masked in each epoch."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        self.pieces = PieceInfo.of(self.tokenizer)
        self.train = splits.train.column("text")
        rows = self.encode(splits.dev.column("text"))
        self.dev = fixed_masking(rows, self.pieces, self.recipe.masking)

    def epoch(self, number: int) -> LazyBatches[MaskedBatch]:
        """The batches of an epoch, in its order and with its masks."""
        seed = self.recipe.seed
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "masking", number)))
        masked = mask_tokens(self._rows(number), self.pieces, self.recipe.masking, rng)
        pad_id = self.tokenizer.padding_id
        return LazyBatches(
            self.index_batches(masked.rows.lengths, number),
            lambda examples: MaskedBatch.of(masked, examples, pad_id, self.device),
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
        seed = derive_seed(self.recipe.seed, "sampling", number)
        rows = sample_some(self.train, self.tokenizer, augmentation, seed)
        return self.encode.add_special_tokens(rows)
