"""Pairs of texts: to the ids a model reads and writes, and to batches of them.

Shapes: B pairs, S source tokens, T target tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.tasks.inputs.batches import PaddedBatch, collate
from jumok.tasks.inputs.special_tokens import build_source, build_target, pad_id_or_zero
from jumok.tasks.jobs.subword_sampling import SubwordSampling, sample_some
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class SentencePairs:
    """Sources and the targets wanted for them."""

    sources: Sequence[str]
    targets: Sequence[str]

    @classmethod
    def from_table(cls, table: Table) -> "SentencePairs":
        """The pairs of a table with the columns `source` and `target`."""
        return cls(list(table.column("source")), list(table.column("target")))


@dataclass(frozen=True)
class Seq2SeqEncoder:
    """Texts to ids: a source ends with [EOS]; a target stands between [BOS] and [EOS].

    Both sides may share one vocabulary. Imported ones have frames of their own.
    """

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    max_length: int

    def sources(self, texts: Sequence[str], cut: SubwordSampling | None = None) -> Ragged:
        """pieces [EOS], cut at the model's length."""
        return build_source(
            self.source_tokenizer, _pieces(texts, self.source_tokenizer, cut), self.max_length
        )

    def targets(self, texts: Sequence[str], cut: SubwordSampling | None = None) -> Ragged:
        """[BOS] pieces [EOS], cut at the model's length; input and output are one token apart."""
        return build_target(
            self.target_tokenizer, _pieces(texts, self.target_tokenizer, cut), self.max_length
        )

    def batch(
        self,
        views: Sequence[Ragged],
        targets: Ragged,
        examples: NDArray[np.int64],
        device: torch.device,
    ) -> "Seq2SeqBatch":
        """The batch of these examples; with two `views` of the sources each pair is in it twice."""
        rows = [targets[i] for _ in views for i in examples]
        sources = [rows[i] for rows in views for i in examples]
        return Seq2SeqBatch(
            source=collate(sources, pad_id_or_zero(self.source_tokenizer), device),
            target=collate(
                [row[:-1] for row in rows], pad_id_or_zero(self.target_tokenizer), device
            ),
            labels=collate(
                [row[1:] for row in rows], pad_id_or_zero(self.target_tokenizer), device
            ).input_ids,
            two_views=len(views) > 1,
        )


@dataclass(frozen=True)
class Seq2SeqBatch:
    """Pairs of like length: what is read, what is written so far, and what comes next."""

    source: PaddedBatch  # (B, S)
    target: PaddedBatch  # (B, T): [BOS] and the target
    labels: Tensor  # (B, T): the target and [EOS]
    two_views: bool = False  # the second half are the pairs of the first half again

    @property
    def tokens(self) -> int:
        """Real tokens of both sides."""
        return self.source.n_tokens + self.target.n_tokens

    @property
    def n_targets(self) -> int:
        """Real target tokens."""
        return self.target.n_tokens


def _pieces(texts: Sequence[str], vocabulary: Tokenizer, cut: SubwordSampling | None) -> Ragged:
    if cut is None:
        return encode_cached(texts, vocabulary)
    return sample_some(texts, vocabulary, cut)
