"""Training job of sequence to sequence: teacher forcing, BLEU and loss on the development pairs.

Shapes: B pairs, T target tokens, D model width.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.packing import length_batches
from jumok.data.splits import Splits
from jumok.decoding import GenerationRequest
from jumok.evaluation import sequence_metrics
from jumok.models import EncoderDecoder
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, LazyBatches, batches_by_length
from jumok.tasks.inputs.seq2seq_encoder import SentencePairs, Seq2SeqBatch, Seq2SeqEncoder
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.jobs.subword_sampling import SubwordSampling, sample_some
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.generation import generate_all, greedy_config
from jumok.tasks.recipe.recipe import Recipe
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult


class Seq2SeqJob:
    """Trains an encoder-decoder with cross-entropy of the next target token."""

    def __init__(
        self,
        recipe: Recipe,
        model: EncoderDecoder,
        tokenizer: Tokenizer,
        train: SentencePairs,
        dev: SentencePairs,
        device: torch.device,
        target_tokenizer: Tokenizer | None = None,
    ) -> None:
        self.recipe, self.model, self.tokenizer = recipe, model, tokenizer
        self.target_tokenizer = target_tokenizer or tokenizer
        self.train, self.dev, self.device = train, dev, device
        self.encode = Seq2SeqEncoder(tokenizer, self.target_tokenizer, recipe.model.max_length)
        self.train_ids = self.encode.sources(train.sources), self.encode.targets(train.targets)
        self.dev_ids = self.encode.sources(dev.sources), self.encode.targets(dev.targets)

    @classmethod
    def from_splits(
        cls,
        recipe: Recipe,
        model: nn.Module,
        tokenizers: TokenizerPair,
        splits: Splits,
        device: torch.device,
    ) -> "Seq2SeqJob":
        """The job of a recipe and its data."""
        assert isinstance(model, EncoderDecoder)
        train, dev = SentencePairs.from_table(splits.train), SentencePairs.from_table(splits.dev)
        return cls(recipe, model, tokenizers.source, train, dev, device, tokenizers.target)

    def epoch(self, number: int) -> LazyBatches[Seq2SeqBatch]:
        """The batches of an epoch, in its order and with its augmentation."""
        seed = self.recipe.seed
        n_views = 2 if self.recipe.augmentation.rdrop_alpha > 0 else 1
        sources = [self._sources(number, view) for view in range(n_views)]
        targets = self._targets(number)  # the same for both views, which R-Drop compares by token
        lengths = np.stack([rows.lengths for view in sources for rows in (view, targets)], -1)
        order = permutation(len(targets), seed, number)
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "batches", number)))
        index_batches = length_batches(lengths, order, self.recipe.training.batch_tokens, rng)
        return LazyBatches(index_batches, lambda examples: self._batch(sources, targets, examples))

    def _sources(self, number: int, view: int) -> Ragged:
        """The training sources of an epoch: a pure function of its number and the view."""
        sampling = self._sampling("source", number, view)
        if sampling is None:
            return self.train_ids[0]
        return self.encode.source_rows(sample_some(self.train.sources, self.tokenizer, sampling))

    def _targets(self, number: int) -> Ragged:
        sampling = self._sampling("target", number, 0)
        if sampling is None:
            return self.train_ids[1]
        rows = sample_some(self.train.targets, self.target_tokenizer, sampling)
        return self.encode.target_rows(rows)

    def _sampling(self, side: str, number: int, view: int) -> SubwordSampling | None:
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return None
        seed = derive_seed(self.recipe.seed, side, number, view)
        return SubwordSampling(augmentation.subword_sampling, augmentation.sampling_alpha, seed)

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
        metric = self.recipe.selection_metric
        return DevResult(total / max(n_targets, 1), float(getattr(scores, metric)), metric)

    def _batch(
        self, views: Sequence[Ragged], targets: Ragged, examples: NDArray[np.int64]
    ) -> Seq2SeqBatch:
        return self.encode.batch(views, targets, examples, self.device)
