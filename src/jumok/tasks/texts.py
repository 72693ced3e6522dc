"""Texts to the ids an encoder reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jumok.data.ragged import Ragged
from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.errors import InputError
from jumok.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class TextEncoder:
    """Texts to the ids a classifier reads: [CLS] and the pieces.

    Of a text longer than the model holds, the first `max_length - 1` pieces are read.
    """

    vocabulary: Vocabulary
    max_length: int

    def __call__(self, texts: Sequence[str]) -> Ragged:
        """The ids of each text; a text without any piece is [CLS] alone."""
        return self.framed(encode_cached(texts, self.vocabulary))

    def of_pieces(self, texts: Sequence[Sequence[str]]) -> Ragged:
        """The same of texts that are cut already; a piece the vocabulary lacks is [UNK].

        Raises InputError when it lacks most of them: another vocabulary has cut the texts.
        """
        ids = {piece: self._id(piece) for text in texts for piece in text}
        rows = Ragged.from_lists([[ids[piece] for piece in text] for text in texts])
        unknown = int((rows.ids == self.vocabulary.unk_id).sum())
        if unknown > len(rows.ids) / 2:
            raise InputError(
                f"the vocabulary lacks {unknown:,} of {len(rows.ids):,} pieces; "
                "name the one that cut them with vocabulary.file"
            )
        return self.framed(rows)

    def of_table(self, table: Table, pieces: bool) -> Ragged:
        """The ids of a table's texts, which are `pieces` or not."""
        return self.of_pieces(table.pieces("text")) if pieces else self(table.column("text"))

    def _id(self, piece: str) -> int:
        try:
            return self.vocabulary.id(piece)
        except InputError:
            return self.vocabulary.unk_id

    def framed(self, rows: Ragged) -> Ragged:
        """[CLS] before every row, and no row longer than the model holds."""
        lengths = np.minimum(rows.lengths, self.max_length - 1)
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(lengths + 1, out=offsets[1:])
        ids = np.empty(int(offsets[-1]), dtype=np.int32)
        places = np.repeat(rows.offsets[:-1] - offsets[:-1] - 1, lengths + 1)
        places += np.arange(len(ids))
        places[offsets[:-1]] = 0  # these are written next
        ids[:] = rows.ids[places] if len(rows.ids) else 0
        ids[offsets[:-1]] = self.vocabulary.cls_id
        return Ragged(ids, offsets)


def texts_of(table: Table, pieces: bool) -> Sequence[str]:
    """The texts of a table; those that are cut into pieces put together again.

    >>> list(texts_of(Table.from_columns({"text": [["▁재미", "있", "▁어요"]]}), pieces=True))
    ['재미있 어요']
    """
    if not pieces:
        return table.column("text")
    return ["".join(text).replace("▁", " ").strip() for text in table.pieces("text")]
