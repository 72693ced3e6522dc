"""Sequence to sequence: a source is read, a target is written. Numbers to figures, translation.

Shapes: B pairs, S source tokens, T target tokens, D model width.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.packing import length_batches
from jumok.data.splits import SEQUENCES, Splits
from jumok.data.table import Table
from jumok.decoding import DecodingConfig, OnToken, StepCallback, TextStreamer
from jumok.evaluation import bleu_tokenizations, sequence_metrics
from jumok.evaluation.examples import Example
from jumok.models import EncoderDecoder
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed, permutation
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, LazyBatches, batches_by_length
from jumok.tasks.inputs.seq2seq_encoder import SentencePairs, Seq2SeqBatch, Seq2SeqEncoder
from jumok.tasks.jobs.subword_sampling import SubwordSampling
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.generation import (
    Generated,
    effective_config,
    generate_all,
    greedy_config,
    to_generated_text,
)
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult

if TYPE_CHECKING:
    from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
    from jumok.tasks.pipeline.pipeline import Pipeline

MAX_EXAMPLES = 30  # examples in a report


class Seq2SeqJob:
    """What a trainer needs to train an encoder-decoder by a recipe."""

    def __init__(
        self,
        recipe: Recipe,
        model: EncoderDecoder,
        vocabulary: Tokenizer,
        train: SentencePairs,
        dev: SentencePairs,
        device: torch.device,
        target_vocabulary: Tokenizer | None = None,
    ) -> None:
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.target_vocabulary = target_vocabulary or vocabulary
        self.device = device
        self.train, self.dev = train, dev
        self.encode = Seq2SeqEncoder(vocabulary, self.target_vocabulary, recipe.model.max_length)
        self.train_ids = self.encode.sources(train.sources), self.encode.targets(train.targets)
        self.dev_ids = self.encode.sources(dev.sources), self.encode.targets(dev.targets)

    def epoch(self, number: int) -> LazyBatches[Seq2SeqBatch]:
        """Batches of like length, in an order and with the augmentation of this epoch."""
        seed = self.recipe.seed
        twice = self.recipe.augmentation.rdrop_alpha > 0
        sources = [self._sources(number, view) for view in range(1 + twice)]
        targets = self._targets(number)  # the same for both views, or they could not be compared
        lengths = np.stack([rows.lengths for view in sources for rows in (view, targets)], -1)
        order = permutation(len(targets), seed, number)
        rng = np.random.Generator(np.random.Philox(derive_seed(seed, "batches", number)))
        plan = length_batches(lengths, order, self.recipe.training.batch_tokens, rng)
        return LazyBatches(plan, lambda examples: self._batch(sources, targets, examples))

    def _sources(self, number: int, view: int) -> Ragged:
        """The training sources as an epoch sees them, a function of its number and the view."""
        cut = self._cut("source", number, view)
        return self.train_ids[0] if cut is None else self.encode.sources(self.train.sources, cut)

    def _targets(self, number: int) -> Ragged:
        cut = self._cut("target", number, 0)
        return self.train_ids[1] if cut is None else self.encode.targets(self.train.targets, cut)

    def _cut(self, side: str, number: int, view: int) -> SubwordSampling | None:
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return None
        seed = derive_seed(self.recipe.seed, side, number, view)
        return SubwordSampling(augmentation.subword_sampling, augmentation.sampling_alpha, seed)

    def loss(self, batch: Seq2SeqBatch) -> Tensor:
        """Cross-entropy of each next token, summed over the real target tokens.

        Of pairs seen twice R-Drop's term is added.
        """
        return self._loss(batch, self.recipe.training.label_smoothing)

    def _loss(self, batch: Seq2SeqBatch, smoothing: float) -> Tensor:
        """Only real tokens are projected to the vocabulary, a small model's largest product."""
        source_mask = batch.source.attention_mask
        memory = self.model.encode(batch.source.input_ids, source_mask)
        hidden = self.model.decode(batch.target.input_ids, memory, source_mask)  # (B, T, D)
        real = batch.target.attention_mask
        if real is None:
            hidden, wanted = hidden.flatten(0, 1), batch.labels.flatten()
        else:
            hidden, wanted = hidden[real], batch.labels[real]  # (tokens, D), (tokens,)
        return fused_linear_cross_entropy(
            hidden,
            self.model.output,
            wanted,
            label_smoothing=smoothing,
            # a pair counts as its two texts
            rdrop_alpha=self.recipe.augmentation.rdrop_alpha if batch.two_views else 0.0,
        )

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development pairs, and their mean loss a token, not smoothed.

        Targets are written greedily, whatever search the recipe asks for at the end.
        """

        def lose(examples: NDArray[np.int64]) -> tuple[float, int]:
            batch = self._batch([self.dev_ids[0]], self.dev_ids[1], examples)
            return self._loss(batch, 0.0).item(), batch.n_targets

        plan = batches_by_length(self.dev_ids[0], EVAL_BATCH_TOKENS)
        losses = distributed_map(plan, lose, processes, JSON_CODEC)
        total, units = sum(loss for loss, _ in losses), sum(n for _, n in losses)
        outputs = generate_all(
            self.model,
            self.dev_ids[0],
            self.vocabulary.padding_id,
            self.target_vocabulary,
            greedy_config(self.recipe.decoding),
            self.device,
            processes=processes,
        )
        scores = sequence_metrics([best.text for best, *_ in outputs], self.dev.targets)
        metric = self.recipe.selection_metric
        return DevResult(total / max(units, 1), float(getattr(scores, metric)), metric)

    def _batch(
        self, views: Sequence[Ragged], targets: Ragged, examples: NDArray[np.int64]
    ) -> Seq2SeqBatch:
        return self.encode.batch(views, targets, examples, self.device)


class Seq2SeqTask:
    """The task: a source is read, a target is written."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """A source and its target."""
        return SEQUENCES

    def vocabulary_texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """Both sides, one after the other."""
        for name in SEQUENCES:
            yield from train.column(name)

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The Transformer of figure 1."""
        return EncoderDecoder(config)

    def build_job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabularies: "TokenizerPair",
        splits: Splits,
        device: torch.device,
    ) -> Seq2SeqJob:
        """What a trainer needs."""
        assert isinstance(model, EncoderDecoder)
        train, dev = SentencePairs.from_table(splits.train), SentencePairs.from_table(splits.dev)
        source, target = vocabularies.source, vocabularies.target
        return Seq2SeqJob(recipe, model, source, train, dev, device, target)

    def evaluate(self, loaded: "Pipeline", table: Table, split: str) -> EvaluationResult:
        """Exact match, BLEU and chrF, how many answers loop, examples with wrong ones first."""
        sources, targets = list(table.column("source")), list(table.column("target"))
        answers = self.predict(loaded, sources)
        outputs = [answer.output for answer in answers]
        language = loaded.recipe.data.language
        found = sequence_metrics(outputs, targets, bleu_tokenizations(language), language)
        composed = [normalize("NFC", target) for target in targets]  # as vocabularies write
        triples = [Example(*triple) for triple in zip(sources, composed, outputs, strict=True)]
        wrong = [example for example in triples if example.output != example.target]
        right = [example for example in triples if example.output == example.target]
        return EvaluationResult(
            {
                "task": loaded.recipe.task,
                "split": split,
                **found.to_dict(),
                "loops": sum(answer.loop is not None for answer in answers),
                "decoding": f"{self.effective_decoding(loaded)}{loaded.constraints_summary}",
            },
            examples=[*wrong[: MAX_EXAMPLES // 2], *right[: MAX_EXAMPLES // 2]],
        )

    def effective_decoding(self, loaded: "Pipeline") -> DecodingConfig:
        """How answers are written."""
        assert isinstance(loaded.model, EncoderDecoder)
        return effective_config(loaded.recipe.decoding, loaded.model)

    def predict(self, loaded: "Pipeline", texts: Sequence[str]) -> list[GeneratedText]:
        """What is written for each text."""
        outputs = self.generate(loaded, texts)
        return [
            to_generated_text(loaded, text, several)
            for text, several in zip(texts, outputs, strict=True)
        ]

    def stream(
        self, loaded: "Pipeline", text: str, on_text: Callable[[str], None]
    ) -> GeneratedText:
        """The answer to one text; its parts are given out as soon as they are certain."""
        stops = loaded.recipe.decoding.stop
        streams = TextStreamer(loaded.target_vocabulary, lambda _, part: on_text(part), stops)
        (outputs,) = self.generate(loaded, [text], streams.push)
        streams.finish()
        return to_generated_text(loaded, text, outputs)

    def generate(
        self,
        loaded: "Pipeline",
        texts: Sequence[str],
        on_token: OnToken | None = None,
        callback: StepCallback | None = None,
    ) -> list[list[Generated]]:
        """All that is written for each text, the best first; an `callback` is for a single one."""
        assert isinstance(loaded.model, EncoderDecoder)
        reading, writing = loaded.vocabulary, loaded.target_vocabulary
        sources = Seq2SeqEncoder(reading, writing, loaded.recipe.model.max_length).sources(texts)
        return generate_all(
            loaded.model,
            sources,
            reading.padding_id,
            writing,
            loaded.recipe.decoding,
            loaded.device,
            others=[model for model in loaded.ensemble_models if isinstance(model, EncoderDecoder)],
            draft=loaded.draft_model,
            kernels=loaded.backends,
            constraints=loaded.processors,
            on_token=on_token,
            callback=callback,
            processes=loaded.processes,
        )
