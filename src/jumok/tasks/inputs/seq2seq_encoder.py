"""Sources and targets as ids, and as batches with teacher forcing.

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
from jumok.tasks.inputs.special_tokens import build_source, build_target
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Seq2SeqEncoder:
    """Texts to ids: a source ends with [EOS]; a target is between [BOS] and [EOS].

    Both sides may share one tokenizer. Imported tokenizers have their own templates.
    """

    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    max_length: int

    def sources(self, texts: Sequence[str]) -> Ragged:
        """pieces [EOS], truncated to the model's length."""
        return self.source_rows(encode_cached(texts, self.source_tokenizer))

    def targets(self, texts: Sequence[str]) -> Ragged:
        """[BOS] pieces [EOS]; the pieces and [EOS] are truncated to the model's length."""
        return self.target_rows(encode_cached(texts, self.target_tokenizer))

    def pairs(self, table: Table) -> tuple[Ragged, Ragged]:
        """The ids of the columns `source` and `target`."""
        return self.sources(table.column("source")), self.targets(table.column("target"))

    def source_rows(self, rows: Ragged) -> Ragged:
        """Rows of source pieces with their special tokens."""
        return build_source(self.source_tokenizer, rows, self.max_length)

    def target_rows(self, rows: Ragged) -> Ragged:
        """Rows of target pieces with their special tokens."""
        return build_target(self.target_tokenizer, rows, self.max_length)

    def batch(
        self,
        views: Sequence[Ragged],
        targets: Ragged,
        examples: NDArray[np.int64],
        device: torch.device,
    ) -> "Seq2SeqBatch":
        """The batch of these examples; with two `views` of the sources it has each pair twice."""
        rows = [targets[i] for _ in views for i in examples]
        sources = [view[i] for view in views for i in examples]
        pad_id = self.target_tokenizer.padding_id
        return Seq2SeqBatch(
            source=collate(sources, self.source_tokenizer.padding_id, device),
            target=collate([row[:-1] for row in rows], pad_id, device),
            labels=collate([row[1:] for row in rows], pad_id, device).input_ids,
            two_views=len(views) > 1,
        )


@dataclass(frozen=True)
class Seq2SeqBatch:
    """Pairs of similar length: source, decoder input, and the labels of the next tokens."""

    source: PaddedBatch  # (B, S)
    target: PaddedBatch  # (B, T): [BOS] and the target
    labels: Tensor  # (B, T): the target and [EOS]
    two_views: bool = False  # the second half repeats the pairs of the first half

    @property
    def tokens(self) -> int:
        """The number of tokens of both sides without padding."""
        return self.source.n_tokens + self.target.n_tokens

    @property
    def n_targets(self) -> int:
        """The number of target tokens without padding."""
        return self.target.n_tokens
