"""Texts with the characters of each of their pieces, and tags of characters as labels of pieces.

Shapes: T pieces, L tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from jumok.data.table import Table
from jumok.models.character_classifier import Characters
from jumok.tasks.inputs import bio
from jumok.tasks.inputs.batches import IGNORE_INDEX
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.text.offsets import Span
from jumok.text.ragged import Ragged


@dataclass(frozen=True)
class TokenizedTexts:
    """Texts, their input ids, and the characters of the ids that cover any.

    Special tokens cover none, nor does the space that a tokenizer may put before a text.
    `positions` are the positions of the others in each row of ids.
    """

    texts: Sequence[str]
    ids: Ragged
    spans: Sequence[Sequence[Span]]
    positions: Sequence[Sequence[int]]

    @classmethod
    def encode(cls, texts: Sequence[str], encode: TextEncoder) -> "TokenizedTexts":
        """Encode the texts. Raises InputError when the tokenizer rewrites one."""
        ids, tokenizer = encode(texts), encode.tokenizer
        before, after = tokenizer.input_template.n_before_and_after()
        offsets = (tokenizer.encode_with_offsets(text).offsets for text in texts)
        lengths = ids.lengths - before - after
        left = tokenizer.truncation_side == "left"
        kept = [
            row[len(row) - n :] if left else row[:n]
            for row, n in zip(offsets, lengths.tolist(), strict=True)
        ]
        positions = [[before + at for at, (i, j) in enumerate(row) if i < j] for row in kept]
        return cls(texts, ids, [[(i, j) for i, j in row if i < j] for row in kept], positions)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The sizes of each text that determine its batch, (n,) or (n, 2): its ids."""
        return self.ids.lengths

    @property
    def output_lengths(self) -> NDArray[np.int64]:
        """The number of outputs of the model for each text, (n,): one for each id."""
        return self.ids.lengths

    def characters(self, numbers: NDArray[np.int64], device: torch.device) -> Characters | None:
        """What the model reads besides the ids of these texts: nothing."""
        return None

    def at_pieces(self, row: NDArray[np.float32], number: int) -> NDArray[np.float32]:
        """The outputs (T, L) of a row that cover characters."""
        return row[self.positions[number]]


@dataclass(frozen=True)
class LabelledTokens:
    """Texts and the tags of their characters."""

    texts: TokenizedTexts
    tags: Sequence[Sequence[str]]

    @classmethod
    def from_table(
        cls,
        table: Table,
        encode: TextEncoder,
        texts_type: "type[TokenizedTexts] | None" = None,
    ) -> "LabelledTokens":
        """The rows of a table, with tags of pieces or of what `texts_type` has instead."""
        texts = (texts_type or TokenizedTexts).encode(list(table.column("text")), encode)
        return cls(texts, [tags.split(" ") for tags in table.column("tags")])

    def piece_tags(self) -> list[list[str]]:
        """The tags of the pieces that cover characters."""
        return [
            bio.piece_tags(tags, spans)
            for tags, spans in zip(self.tags, self.texts.spans, strict=True)
        ]

    def label_ids(self, tags: Sequence[str]) -> Ragged:
        """The tag indices in rows like the model's outputs, IGNORE_INDEX where there is none."""
        indices = {tag: index for index, tag in enumerate(tags)}
        n = self.texts.output_lengths
        labels = Ragged.from_lengths(np.full(int(n.sum()), IGNORE_INDEX, np.int32), n)
        rows = zip(self.piece_tags(), self.texts.positions, strict=True)
        for number, (row, positions) in enumerate(rows):
            labels[number][positions] = [indices[tag] for tag in row]
        return labels
