"""Training job of masked language modeling: new masks in every epoch, perplexity."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.resumable_loader import Epoch
from jumok.data.splits import Splits
from jumok.lab.models.cooccurrence import cooccurrence_embedding
from jumok.lab.models.replaced_tokens import ReplacedTokenModel
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import PaddedBatch
from jumok.tasks.inputs.masking import MaskedRows, PieceInfo, mask_tokens
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.jobs.recipe_job import RecipeJob
from jumok.tasks.jobs.subword_sampling import sample_some
from jumok.tasks.masked_lm import (
    MaskedBatch,
    PackedTexts,
    fixed_masking,
    masked_hidden,
    masked_language_model,
    replaced_token_loss,
    score_masked,
)
from jumok.text.ragged import Ragged
from jumok.training.job import DevResult

MAX_COUNTED_TOKENS = 20_000_000  # of the training texts; the vectors hardly change with more


class MaskedLMJob(RecipeJob[MaskedBatch]):
    """Trains a masked language model with cross-entropy of the masked tokens.

    A text longer than `model.max_length` is cut into several.
    """

    def prepare(self, splits: Splits) -> None:
        """Mask the development texts; the training texts are masked in each epoch."""
        self.encode = TextEncoder(self.tokenizer, self.recipe.model.max_length)
        self.pieces = PieceInfo.of(self.tokenizer)
        self.train = splits.train.column("text")
        rows = self._cut(self.encode.ids(splits.dev.column("text")))
        self.dev = fixed_masking(rows, self.pieces, self.recipe.masking)

    @torch.no_grad()
    def initialize(self) -> None:
        """With `masking.cooccurrence_init` start from what single tokens and pairs of them show.

        The embeddings are those of `cooccurrence_embedding` with the usual standard deviation; the
        bias of the output is the logarithm of the frequency of each token.
        """
        if not self.recipe.masking.cooccurrence_init:
            return
        rows = self.encode.ids(self.train)
        step = -(-len(rows.ids) // MAX_COUNTED_TOKENS)
        rows = rows.take(np.arange(0, len(rows), max(step, 1)))
        language_model = masked_language_model(self.model)
        weight = language_model.encoder.embedding.tokens.weight  # (V, E)
        generator = torch.Generator().manual_seed(derive_seed(self.recipe.seed, "cooccurrence"))
        vectors = cooccurrence_embedding(rows, weight.shape[0], weight.shape[1], generator)
        vectors = vectors.to(weight.device)
        known = vectors.any(-1)  # (V,)
        weight[known] = vectors[known] * weight.shape[1] ** -0.5
        counts = torch.from_numpy(np.bincount(rows.ids, minlength=len(weight)) + 1.0)  # (V,)
        language_model.output.bias.copy_((counts / counts.sum()).log())

    def epoch(self, number: int) -> Epoch[MaskedBatch]:
        """The batches of an epoch, in its order and with its masks."""
        return self.batches(number)

    def batches(self, number: int) -> "MaskedBatches | PackedBatches":
        """The batches of an epoch: a text in each row, or several with `masking.packed`."""
        rows, config = self._rows(number), self.recipe
        if not config.masking.packed:
            return MaskedBatches(self, number, rows, self.index_batches(rows.lengths, number))
        order = permutation(len(rows), config.seed, number)
        width = config.model.max_length
        n_rows = max(config.training.batch_tokens // width, 1)
        return PackedBatches(self, number, order, rows.take(order), width, n_rows)

    def mask(self, rows: Ragged, epoch: int, batch: int, n_batches: int) -> MaskedRows:
        """Mask the rows of a batch: a pure function of its epoch and number."""
        seed = derive_seed(self.recipe.seed, "masking", epoch, batch)
        rng = np.random.Generator(np.random.Philox(seed))
        return mask_tokens(rows, self.pieces, self.recipe.masking, rng, epoch + batch / n_batches)

    def loss(self, batch: MaskedBatch) -> Tensor:
        """Cross-entropy of the masked tokens, summed; plus that of detecting replaced tokens."""
        return self.loss_of(*masked_hidden(self.model, batch), batch)

    def loss_of(self, hidden: Tensor, output: nn.Linear, batch: MaskedBatch) -> Tensor:
        """The loss from the states (M, D) and the output projection of `masked_hidden`."""
        smoothing = self.recipe.training.label_smoothing
        loss = fused_linear_cross_entropy(hidden, output, batch.labels, label_smoothing=smoothing)
        if isinstance(self.model, ReplacedTokenModel):
            loss = loss + replaced_token_loss(self.model, batch, hidden, output)
        return loss

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """Perplexity of the development texts, with the same masks every time."""
        metrics, _ = score_masked(self.model, self.dev, self.tokenizer, self.device, processes)
        return DevResult(metrics.loss, metrics.perplexity, "perplexity")

    def _rows(self, number: int) -> Ragged:
        """The input ids of the training texts in an epoch."""
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return self._cut(self.encode.ids(self.train))
        seed = derive_seed(self.recipe.seed, "sampling", number)
        return self._cut(sample_some(self.train, self.tokenizer, augmentation, seed))

    def _cut(self, rows: Ragged) -> Ragged:
        """Rows of at most `model.max_length` tokens, special tokens included."""
        n_special = self.tokenizer.input_template.n_special(paired=False)
        return self.encode.add_special_tokens(rows.split(self.recipe.model.max_length - n_special))


@dataclass(frozen=True)
class TokenPlaces:
    """For each token (B * T) of a batch the number of its row, -1 for padding, and its position."""

    rows: NDArray[np.int64]
    positions: NDArray[np.int64]


@dataclass(frozen=True)
class MaskedBatches:
    """The batches of an epoch: texts of similar length, masked when they are read."""

    job: MaskedLMJob
    number: int
    rows: Ragged
    index_batches: Sequence[NDArray[np.int64]]

    def __len__(self) -> int:
        return len(self.index_batches)

    def __getitem__(self, index: int) -> MaskedBatch:
        job, texts = self.job, self.rows.take(self.index_batches[index])
        masked = job.mask(texts, self.number, index, len(self))
        return MaskedBatch.of(masked, np.arange(len(texts)), job.tokenizer.padding_id, job.device)

    def places(self, index: int) -> TokenPlaces:
        """Where each token (B * T) of a batch is from."""
        rows = self.index_batches[index]
        lengths = self.rows.lengths[rows]
        columns = np.arange(lengths.max())
        number = np.where(columns < lengths[:, None], rows[:, None], -1)  # (B, T)
        return TokenPlaces(number.ravel(), np.tile(columns, len(rows)))


@dataclass(frozen=True)
class PackedBatches:
    """The batches of an epoch: all texts end to end in rows of one width, without padding.

    A text that crosses the end of a row is two texts. Tokens after the last whole batch are left
    out: those of other texts in every epoch.
    """

    job: MaskedLMJob
    number: int
    order: NDArray[np.int64]  # the number of each text, in the order of the epoch
    stream: Ragged  # the texts in this order
    width: int  # T
    n_rows: int  # B

    def __len__(self) -> int:
        return max(len(self.stream.ids) // (self.width * self.n_rows), 1)

    def __getitem__(self, index: int) -> MaskedBatch:
        tokens, width = self._tokens(index)
        text, start = self._texts(tokens)
        row_start = tokens - (tokens - tokens[0]) % width
        rows = np.full(len(tokens) // width, width, np.int64)
        masked = self.job.mask(
            Ragged.from_lengths(self.stream.ids[tokens], rows), self.number, index, len(self)
        )

        def grid(values: NDArray[np.integer]) -> Tensor:
            return self._tensor(values).view(-1, width)  # (B, T)

        return MaskedBatch(
            PaddedBatch(grid(masked.rows.ids), None),
            self._tensor(np.flatnonzero(masked.mask)),
            self._tensor(masked.labels[masked.mask]),
            PackedTexts(grid(text), grid(tokens - np.maximum(start, row_start))),
        )

    def places(self, index: int) -> TokenPlaces:
        """Where each token (B * T) of a batch is from."""
        tokens, _ = self._tokens(index)
        text, start = self._texts(tokens)
        return TokenPlaces(self.order[text], tokens - start)

    def _tokens(self, index: int) -> tuple[NDArray[np.int64], int]:
        """The tokens (B * T) of a batch, as indices into the stream, and the width T."""
        size = self.width * self.n_rows
        first = index * size
        n = len(self.stream.ids[first : first + size])
        width = min(self.width, n)  # fewer tokens than a row: all texts in one
        return first + np.arange(n // width * width), width

    def _texts(self, tokens: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The text of each token, and where it starts in the stream."""
        offsets = self.stream.offsets
        text = np.searchsorted(offsets, tokens, side="right") - 1
        return text, offsets[text]

    def _tensor(self, values: NDArray[np.integer]) -> Tensor:
        return torch.from_numpy(values.astype(np.int64)).to(self.job.device)
