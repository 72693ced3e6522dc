"""Sequence to sequence: a source is read, a target is written. Numbers to figures, translation.

Shapes: B pairs, S source tokens, T target tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.corpora import SEQUENCES, Splits
from jumok.data.packing import bucketed
from jumok.data.ragged import Ragged
from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.decoding import DecodingConfig, Written, write_targets
from jumok.evaluation import score_sequences
from jumok.models import EncoderDecoder
from jumok.nn.masks import EVERYTHING, AttentionMask
from jumok.tasks.answers import Rewriting
from jumok.tasks.augmentation import Cut, sampled
from jumok.tasks.batches import Batches, PaddedIds, in_order_of_length, padded
from jumok.tasks.recipe import ModelConfig, Recipe
from jumok.tasks.task import Scored
from jumok.text.vocabulary import Vocabulary
from jumok.training.randomness import permutation, seed_for
from jumok.training.report import Example
from jumok.training.trainer import DevScore
from jumok.training.vocabulary_loss import vocabulary_loss

if TYPE_CHECKING:
    from jumok.tasks.answering import Loaded

ANSWERING_TOKENS = 4_096  # source tokens of a batch when nothing is learned
SHOWN = 30  # examples in a report

# a target may be half as long again as its source, and ten tokens more
GREEDY = DecodingConfig(max_length=1_024, max_ratio=1.5)


@dataclass(frozen=True)
class Pairs:
    """Sources and the targets wanted for them."""

    sources: Sequence[str]
    targets: Sequence[str]


@dataclass(frozen=True)
class PairEncoder:
    """Texts to ids: a source ends with [EOS]; a target stands between [BOS] and [EOS]."""

    vocabulary: Vocabulary
    max_length: int

    def sources(self, texts: Sequence[str], cut: Cut | None = None) -> Ragged:
        """pieces [EOS], cut at the model's length."""
        rows = _cut(self._pieces(texts, cut), self.max_length - 1)
        return _framed(rows, [], [self.vocabulary.eos_id])

    def targets(self, texts: Sequence[str], cut: Cut | None = None) -> Ragged:
        """[BOS] pieces [EOS], cut at the model's length; input and output are one token apart."""
        rows = _cut(self._pieces(texts, cut), self.max_length - 1)
        return _framed(rows, [self.vocabulary.bos_id], [self.vocabulary.eos_id])

    def _pieces(self, texts: Sequence[str], cut: Cut | None) -> Ragged:
        if cut is None:
            return encode_cached(texts, self.vocabulary)
        return sampled(texts, self.vocabulary, cut)


@dataclass(frozen=True)
class PairBatch:
    """Pairs of like length: what is read, what is written so far, and what comes next."""

    source: PaddedIds  # (B, S)
    target: PaddedIds  # (B, T): [BOS] and the target
    wanted: Tensor  # (B, T): the target and [EOS]
    twice: bool = False  # the second half are the pairs of the first half again

    @property
    def tokens(self) -> int:
        """Real tokens of both sides."""
        return self.source.n_real + self.target.n_real

    @property
    def units(self) -> int:
        """Real target tokens."""
        return self.target.n_real


class SequenceJob:
    """What a trainer needs to train an encoder-decoder by a recipe."""

    def __init__(
        self,
        recipe: Recipe,
        model: EncoderDecoder,
        vocabulary: Vocabulary,
        train: Pairs,
        dev: Pairs,
        device: torch.device,
    ) -> None:
        self.recipe, self.model, self.vocabulary = recipe, model, vocabulary
        self.device = device
        self.dev = dev
        self.train, self.encode = train, PairEncoder(vocabulary, recipe.model.max_length)
        self.train_ids = self.encode.sources(train.sources), self.encode.targets(train.targets)
        self.dev_ids = self.encode.sources(dev.sources), self.encode.targets(dev.targets)

    def epoch(self, number: int) -> Batches[PairBatch]:
        """Batches of like length, in an order and with the augmentation of this epoch."""
        seed = self.recipe.seed
        twice = self.recipe.augmentation.consistency > 0
        sources = [self._sources(number, view) for view in range(1 + twice)]
        targets = self._targets(number)  # the same for both views, or they could not be compared
        lengths = np.stack([*(rows.lengths for rows in sources), targets.lengths], -1)
        order = permutation(len(targets), seed, number)
        rng = np.random.Generator(np.random.Philox(seed_for(seed, "batches", number)))
        plan = bucketed(lengths, order, self.recipe.training.batch_tokens, rng)
        return Batches(plan, lambda examples: self._batch(sources, targets, examples))

    def _sources(self, number: int, view: int) -> Ragged:
        """The training sources as an epoch sees them, a function of its number and the view."""
        cut = self._cut("source", number, view)
        return self.train_ids[0] if cut is None else self.encode.sources(self.train.sources, cut)

    def _targets(self, number: int) -> Ragged:
        cut = self._cut("target", number, 0)
        return self.train_ids[1] if cut is None else self.encode.targets(self.train.targets, cut)

    def _cut(self, side: str, number: int, view: int) -> Cut | None:
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return None
        seed = seed_for(self.recipe.seed, side, number, view)
        return Cut(augmentation.subword_sampling, augmentation.sampling_alpha, seed)

    def loss(self, batch: PairBatch) -> Tensor:
        """Cross-entropy of each next token, summed over the real target tokens.

        Only real tokens are projected to the vocabulary, the largest product of a small model. Of
        pairs seen twice R-Drop's term is added.
        """
        memory_mask = _mask(batch.source.real)
        memory = self.model.encode(batch.source.ids, memory_mask)
        hidden = self.model.decode(batch.target.ids, memory, memory_mask)  # (B, T, D)
        real = batch.target.real
        if real is None:
            hidden, wanted = hidden.flatten(0, 1), batch.wanted.flatten()
        else:
            hidden, wanted = hidden[real], batch.wanted[real]  # (tokens, D), (tokens,)
        return vocabulary_loss(
            hidden,
            self.model.output,
            wanted,
            label_smoothing=self.recipe.training.label_smoothing,
            # a pair counts as its two texts
            consistency=2 * self.recipe.augmentation.consistency if batch.twice else 0.0,
        )

    def evaluate(self) -> DevScore:
        """The recipe's metric on the development pairs, and their mean loss a token."""
        total, units = 0.0, 0
        for examples in in_order_of_length(self.dev_ids[0], ANSWERING_TOKENS):
            batch = self._batch([self.dev_ids[0]], self.dev_ids[1], examples)
            total += self.loss(batch).item()
            units += batch.units
        texts = [text for text, _ in write_all(self.model, self.dev_ids[0], self.vocabulary,
                                               self.device)]  # fmt: skip
        scores = score_sequences(texts, self.dev.targets)
        metric = self.recipe.score
        return DevScore(total / max(units, 1), float(getattr(scores, metric)), metric)

    def _batch(
        self, views: Sequence[Ragged], targets: Ragged, examples: NDArray[np.int64]
    ) -> PairBatch:
        rows = [targets[i] for _ in views for i in examples]
        pad_id = self.vocabulary.pad_id
        return PairBatch(
            source=padded([rows[i] for rows in views for i in examples], pad_id, self.device),
            target=padded([row[:-1] for row in rows], pad_id, self.device),
            wanted=padded([row[1:] for row in rows], pad_id, self.device).ids,
            twice=len(views) > 1,
        )


class SequenceToSequence:
    """The task: a source is read, a target is written."""

    def columns(self, recipe: Recipe) -> tuple[str, ...]:
        """A source and its target."""
        return SEQUENCES

    def texts(self, recipe: Recipe, train: Table) -> Iterator[str]:
        """Both sides, one after the other."""
        for name in SEQUENCES:
            yield from train.column(name)

    def model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The Transformer of figure 1."""
        return EncoderDecoder(config)

    def job(
        self,
        recipe: Recipe,
        model: nn.Module,
        vocabulary: Vocabulary,
        splits: Splits,
        device: torch.device,
    ) -> SequenceJob:
        """What a trainer needs."""
        assert isinstance(model, EncoderDecoder)
        pairs, dev_pairs = (
            Pairs(list(table.column("source")), list(table.column("target")))
            for table in (splits.train, splits.dev)
        )
        return SequenceJob(recipe, model, vocabulary, pairs, dev_pairs, device)

    def score(self, loaded: "Loaded", table: Table, split: str) -> Scored:
        """Exact match, BLEU and chrF, and some examples, wrong ones first."""
        sources, targets = list(table.column("source")), list(table.column("target"))
        outputs = [answer.output for answer in self.answer(loaded, sources)]
        found = score_sequences(outputs, targets)
        triples = [Example(*triple) for triple in zip(sources, targets, outputs, strict=True)]
        wrong = [example for example in triples if example.output != example.target]
        right = [example for example in triples if example.output == example.target]
        return Scored(
            {
                "task": loaded.recipe.task,
                "split": split,
                "n": found.n,
                "exact_match": found.exact_match,
                "bleu": found.bleu,
                "chrf": found.chrf,
                "signature": found.signature,
            },
            examples=[*wrong[: SHOWN // 2], *right[: SHOWN // 2]],
        )

    def answer(self, loaded: "Loaded", texts: Sequence[str]) -> list[Rewriting]:
        """What is written for each text."""
        assert isinstance(loaded.model, EncoderDecoder)
        sources = PairEncoder(loaded.vocabulary, loaded.recipe.model.max_length).sources(texts)
        outputs = write_all(loaded.model, sources, loaded.vocabulary, loaded.device)
        return [
            Rewriting(text, output, written.score)
            for text, (output, written) in zip(texts, outputs, strict=True)
        ]


@torch.inference_mode()
def write_all(
    model: EncoderDecoder,
    sources: Ragged,
    vocabulary: Vocabulary,
    device: torch.device,
    config: DecodingConfig = GREEDY,
) -> list[tuple[str, Written]]:
    """What the model writes for every source, the best of its answers, in the sources' order."""
    config = config.within(model.decoder.embedding.max_length)
    written: list[tuple[str, Written] | None] = [None] * len(sources)
    for batch in in_order_of_length(sources, ANSWERING_TOKENS):
        source = padded([sources[i] for i in batch], vocabulary.pad_id, device)
        answers = write_targets(
            model,
            source.ids,
            source.real,
            config,
            bos_id=vocabulary.bos_id,
            end_id=vocabulary.eos_id,
            vocabulary=vocabulary,
        )
        outputs = [best for best, *_ in answers]
        texts = vocabulary.decode_batch([output.ids for output in outputs])
        for i, text, output in zip(batch, texts, outputs, strict=True):
            written[i] = (text, output)
    return [pair for pair in written if pair is not None]


def _mask(real: Tensor | None) -> AttentionMask:
    return EVERYTHING if real is None else AttentionMask.from_padding(real)


def _cut(rows: Ragged, longest: int) -> Ragged:
    """No row longer than `longest`."""
    if len(rows) == 0 or int(rows.lengths.max()) <= longest:
        return rows
    return Ragged.from_lists([rows[i][:longest].tolist() for i in range(len(rows))])


def _framed(rows: Ragged, before: list[int], after: list[int]) -> Ragged:
    """The same ids before and after every row."""
    return Ragged.from_lists([[*before, *rows[i].tolist(), *after] for i in range(len(rows))])
