"""Distillation of vectors: a model learns the vectors of texts that teachers give.

Reimers and Gurevych 2020, "Making monolingual sentence embeddings multilingual using knowledge
distillation", section 2, with one language. Shapes: n texts, B of a batch, S width of the
teachers, D of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.inference.optimization import optimize, unsupported_reason
from jumok.lab.assemble import HeldOut
from jumok.lab.distillation.projection import Projection
from jumok.lab.models.token_vectors import begin_as_token_vectors, begin_from_token_vectors
from jumok.language import translate
from jumok.models import SentenceEncoder
from jumok.seeding import derive_seed
from jumok.tasks.inputs.batches import LazyBatches, PaddedBatch, collate
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.unlabelled_texts import unlabelled_texts
from jumok.tasks.pipeline.sequence_classification import forward
from jumok.tasks.pipeline.text_vectors import Vectors
from jumok.tasks.pipeline.vector_index import cached_vectors, query_prompt
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.similarity import (
    SimilarityJob,
    TextPairBatch,
    TextPairs,
    check_scores,
    cosines,
    read_pairs,
)
from jumok.terminal import print_notice
from jumok.text.tokenizer import Tokenizer

FITTED_ROWS = 65_536  # vectors from which the projection is computed, evenly spaced
PAIRS = 64  # with scores, in each batch


@dataclass(frozen=True)
class TargetVectorBatch:
    """Texts of similar length, padded, and the vector that the model must give each."""

    texts: PaddedBatch
    vectors: Tensor  # (B, D) float32, of length 1
    pairs: TextPairBatch | None = None  # with scores

    @property
    def tokens(self) -> int:
        """The number of tokens without padding."""
        return self.texts.n_tokens

    @property
    def n_targets(self) -> int:
        """The number of texts."""
        return len(self.vectors)


class VectorDistillationJob(SimilarityJob):
    """Trains a `SentenceEncoder` by the vectors of teachers; dev pairs select the checkpoint."""

    def prepare(self, splits: Splits) -> None:
        """Encode the texts of the training pairs and the added ones, and read their vectors.

        Raises InputError for a teacher that is not an encoder.
        """
        config, texts = self.recipe.distillation, distilled_texts(self.recipe, splits)
        self.ids = TextEncoder(self.tokenizer, self.recipe.model.max_length)(texts)
        self.teachers = [teacher_vectors(name, texts, self.device) for name in config.teachers]
        fitted = np.arange(0, len(texts), 1 + len(texts) // FITTED_ROWS)
        width = self.recipe.model.d_model
        self.projection = Projection.fit(self._teacher_rows(fitted), self.width, width)
        self.dev = read_pairs(splits.dev, self.tokenizer, self.recipe)
        if config.scores:
            self.train = scored_pairs(splits, self.tokenizer, self.recipe)

    @torch.no_grad()
    def initialize(self) -> None:
        """With `distillation.token_vectors` begin from the teachers' vectors of single pieces."""
        if not self.recipe.distillation.token_vectors:
            return
        assert isinstance(self.model, SentenceEncoder)
        n = len(self.tokenizer)
        pieces = [self.tokenizer.piece(i).replace("▁", " ").strip() or " " for i in range(n)]
        found = [
            teacher_vectors(name, pieces, self.device) for name in self.recipe.distillation.teachers
        ]
        vectors = np.concatenate(found, -1)  # (V, S)
        vectors = (vectors - vectors.mean(0)) @ self.projection.components[:, : self.width]
        counts = np.bincount(self.ids.ids, minlength=n)
        frequencies = counts / counts.sum()
        frequencies[list(self.tokenizer.special_ids.values())] = 1
        begin = begin_from_token_vectors if self._has_layers else begin_as_token_vectors
        begin(
            self.model.encoder,
            torch.from_numpy(vectors).to(self.device),
            torch.from_numpy(frequencies.astype(np.float32)).to(self.device),
        )

    @property
    def width(self) -> int:
        """The dimensions of the vectors that are learned: two may hold the weights of tokens."""
        taken = 2 * (self.recipe.distillation.token_vectors and self._has_layers)
        return self.recipe.model.d_model - taken

    @property
    def _has_layers(self) -> bool:
        return self.recipe.model.n_layers > 0

    def epoch(self, number: int) -> LazyBatches[TargetVectorBatch]:  # type: ignore[override]
        """The batches of an epoch, with texts of similar length together."""

        def build(examples: NDArray[np.int64]) -> TargetVectorBatch:
            texts = collate([self.ids[i] for i in examples], self.tokenizer.padding_id, self.device)
            vectors = torch.from_numpy(self.projection(self._teacher_rows(examples)))
            pairs = self._random_pairs(number, int(examples[0]))
            return TargetVectorBatch(texts, vectors.to(self.device), pairs)

        return LazyBatches(self.index_batches(self.ids.lengths, number), build)

    def loss(self, batch: TargetVectorBatch) -> Tensor:  # type: ignore[override]
        """1 - cosine of the vector of a text with that of the teachers, summed over the texts.

        With `distillation.scores` plus this weight times the `correlation_loss` of random training
        pairs, times the texts.
        With `distillation.relational` plus this weight times the squared difference of the cosines
        between the texts of the batch, the mean over the other texts (Tung and Mori 2019,
        "Similarity-preserving knowledge distillation", section 3.1).
        """
        u, v = forward(self.model, batch.texts, self.tokenizer), batch.vectors  # (B, D)
        loss = (1 - cosines(u, v)).sum()
        if weight := self.recipe.distillation.relational:
            loss = loss + weight * (u @ u.T - v @ v.T).square().mean(-1).sum()
        if batch.pairs is not None:
            found = self.pair_cosines(batch.pairs)
            weight = self.recipe.distillation.scores * len(u)
            loss = loss + weight * correlation_loss(found, batch.pairs.targets)
        return loss

    def _random_pairs(self, number: int, first: int) -> TextPairBatch | None:
        """Pairs with scores for the batch of an epoch that begins with this text."""
        if not self.recipe.distillation.scores:
            return None
        seed = derive_seed(self.recipe.seed, "pairs", number, first)
        rng = np.random.Generator(np.random.Philox(seed))
        return self.pair_batch(rng.integers(len(self.train.targets), size=PAIRS))

    def _teacher_rows(self, examples: NDArray[np.int64]) -> Vectors:
        """The vectors of these texts, one teacher's next to another's: (B, S)."""
        return np.concatenate([vectors[examples] for vectors in self.teachers], -1)


def correlation_loss(found: Tensor, scores: Tensor) -> Tensor:
    """1 - the Pearson correlation of the cosines (P,) and the scores (P,); 1 if all are equal.

    Neither the mean nor the spread of the cosines counts: they remain those of the teachers.

    >>> correlation_loss(torch.tensor([0.6, 0.7, 0.8]), torch.tensor([0.0, 0.5, 1.0])).item() < 1e-6
    True
    >>> round(correlation_loss(torch.tensor([0.8, 0.6]), torch.tensor([0.0, 1.0])).item(), 3)
    2.0
    """
    return 1 - torch.cosine_similarity(found - found.mean(), scores - scores.mean(), dim=0)


def scored_pairs(splits: Splits, tokenizer: Tokenizer, recipe: Recipe) -> TextPairs:
    """The training pairs with scores, without those of a sentence of another split."""
    check_scores(splits.train, recipe)
    pairs, held_out = read_pairs(splits.train, tokenizer, recipe), _held_out(splits)
    texts = zip(splits.train.column("text"), splits.train.column("pair"), strict=True)
    kept = np.array([i for i, both in enumerate(texts) if not any(map(held_out.repeated_in, both))])
    return TextPairs(
        pairs.first.take(kept), pairs.second.take(kept), pairs.targets[kept], has_scores=True
    )


def distilled_texts(recipe: Recipe, splits: Splits) -> list[str]:
    """The distinct texts of the training pairs, followed by the added ones.

    A text that repeats a sentence of the pairs of another split is left out.
    """
    held_out = _held_out(splits)
    added = unlabelled_texts(recipe.distillation, splits)
    texts = dict.fromkeys([*_texts(splits.train), *added])
    return [text for text in texts if not held_out.repeated_in(text)]


def _held_out(splits: Splits) -> HeldOut:
    others = [table for name, table in splits.tables.items() if name != "train"]
    return HeldOut(text for table in others for text in _texts(table))


def _texts(pairs: Table) -> list[str]:
    return [*pairs.column("text"), *pairs.column("pair")]


def teacher_vectors(name: str, texts: Sequence[str], device: torch.device) -> Vectors:
    """The normalized vectors (n, S) of a teacher, mapped from the user's cache; int8 on a CPU."""
    from jumok.tasks.runs.load import load  # loads pipelines of all tasks

    teacher = load(name, str(device))
    encoder = teacher
    if device.type == "cpu" and unsupported_reason(teacher.model) is None:
        encoder = teacher.with_models(lambda model: optimize(model, "int8"))

    def progress(done: int, n: int) -> None:
        if done < n:
            print_notice(translate("encoded {:,} of {:,} lines", done, n))

    return cached_vectors(teacher, encoder, texts, query_prompt(teacher), progress)
