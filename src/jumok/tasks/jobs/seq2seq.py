"""Training job of sequence to sequence: teacher forcing, BLEU and loss on the development pairs.

Shapes: B pairs, T target tokens, D model width.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.splits import Splits
from jumok.decoding import GenerationRequest
from jumok.evaluation import sequence_metrics
from jumok.models import EncoderDecoder
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, LazyBatches, batches_by_length
from jumok.tasks.inputs.seq2seq_encoder import SentencePairs, Seq2SeqBatch, Seq2SeqEncoder
from jumok.tasks.jobs.recipe_job import RecipeJob
from jumok.tasks.jobs.subword_sampling import sample_some
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.generation import generate_all, greedy_config
from jumok.text.ragged import Ragged
from jumok.training.job import DevResult


class Seq2SeqJob(RecipeJob[Seq2SeqBatch]):
    """Trains an encoder-decoder with cross-entropy of the next target token."""

    model: EncoderDecoder

    def prepare(self, splits: Splits) -> None:
        """Encode the pairs of both splits."""
        self.target_tokenizer = self.tokenizers.target
        max_length = self.recipe.model.max_length
        self.encode = Seq2SeqEncoder(self.tokenizer, self.target_tokenizer, max_length)
        self.train, self.dev = map(SentencePairs.from_table, (splits.train, splits.dev))
        self.train_ids, self.dev_ids = map(self.encode.pairs, (self.train, self.dev))

    def epoch(self, number: int) -> LazyBatches[Seq2SeqBatch]:
        """The batches of an epoch, in its order and with its augmentation."""
        n_views = 2 if self.recipe.augmentation.rdrop_alpha > 0 else 1
        sources = [self._sources(number, view) for view in range(n_views)]
        targets = self._targets(number)  # the same for both views, which R-Drop compares by token
        lengths = np.stack([rows.lengths for view in sources for rows in (view, targets)], -1)
        index_batches = self.index_batches(lengths, number)
        return LazyBatches(index_batches, lambda examples: self._batch(sources, targets, examples))

    def _sources(self, number: int, view: int) -> Ragged:
        """The training sources of an epoch: a pure function of its number and the view."""
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return self.train_ids[0]
        seed = derive_seed(self.recipe.seed, "source", number, view)
        rows = sample_some(self.train.sources, self.tokenizer, augmentation, seed)
        return self.encode.source_rows(rows)

    def _targets(self, number: int) -> Ragged:
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return self.train_ids[1]
        seed = derive_seed(self.recipe.seed, "target", number, 0)
        rows = sample_some(self.train.targets, self.target_tokenizer, augmentation, seed)
        return self.encode.target_rows(rows)

    def loss(self, batch: Seq2SeqBatch) -> Tensor:
        """Cross-entropy of each next token, summed over the targets; with two views plus R-Drop."""
        return self._loss(batch, self.recipe.training.label_smoothing)

    def _loss(self, batch: Seq2SeqBatch, label_smoothing: float) -> Tensor:
        """Only tokens without padding are projected: the largest product of a small model."""
        source_mask = batch.source.attention_mask
        memory = self.model.encode(batch.source.input_ids, source_mask)
        hidden = self.model.decode(batch.target.input_ids, memory, source_mask)  # (B, T, D)
        mask = batch.target.attention_mask
        if mask is None:
            hidden, labels = hidden.flatten(0, 1), batch.labels.flatten()
        else:
            hidden, labels = hidden[mask], batch.labels[mask]  # (tokens, D), (tokens,)
        return fused_linear_cross_entropy(
            hidden,
            self.model.output,
            labels,
            label_smoothing=label_smoothing,
            # a pair counts as its two texts
            rdrop_alpha=self.recipe.augmentation.rdrop_alpha if batch.two_views else 0.0,
        )

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development pairs, and their mean loss per token.

        Targets are generated greedily, whatever search the recipe specifies for the test; the loss
        is without label smoothing.
        """

        def dev_loss(examples: NDArray[np.int64]) -> tuple[float, int]:
            batch = self._batch([self.dev_ids[0]], self.dev_ids[1], examples)
            return self._loss(batch, 0.0).item(), batch.n_targets

        index_batches = batches_by_length(self.dev_ids[0], EVAL_BATCH_TOKENS)
        losses = distributed_map(index_batches, dev_loss, processes, JSON_CODEC)
        total, n_targets = sum(loss for loss, _ in losses), sum(n for _, n in losses)
        outputs = generate_all(
            self.model,
            self.dev_ids[0],
            self.tokenizer.padding_id,
            GenerationRequest(
                greedy_config(self.recipe.decoding),
                end_id=self.target_tokenizer.eos_id,
                tokenizer=self.target_tokenizer,
            ),
            processes=processes,
        )
        scores = sequence_metrics([best.text for best, *_ in outputs], self.dev.targets)
        return self.dev_result(total / max(n_targets, 1), scores)

    def _batch(
        self, views: Sequence[Ragged], targets: Ragged, examples: NDArray[np.int64]
    ) -> Seq2SeqBatch:
        return self.encode.batch(views, targets, examples, self.device)
