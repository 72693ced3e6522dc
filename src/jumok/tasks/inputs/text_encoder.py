"""Texts, or pairs of texts, as the input ids of an encoder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.errors import InputError
from jumok.tasks.inputs.special_tokens import build_inputs
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # texts are encoded without torch
    from torch import Tensor


@dataclass(frozen=True)
class TextInputs:
    r"""Input texts, or pairs of them.

    >>> texts = TextInputs.from_lines(["비가 온다\t날이 맑다"], paired=True)
    >>> texts.texts, texts.pairs, texts.display(0)
    (['비가 온다'], ['날이 맑다'], '비가 온다 / 날이 맑다')
    """

    texts: Sequence[str]
    pairs: Sequence[str] | None = None  # the second text of each pair

    @classmethod
    def from_table(cls, table: Table, pieces: bool = False) -> "TextInputs":
        """The texts of a table, and those of its column "pair" if it has one."""
        paired = "pair" in table.column_names
        return cls(table_texts(table, pieces), table.column("pair") if paired else None)

    @classmethod
    def from_lines(cls, lines: Sequence[str], paired: bool) -> "TextInputs":
        """One text per line, or two separated by a TAB; an empty line is a pair of empty texts.

        Raises InputError for a line with more or fewer texts.
        """
        if not paired:
            return cls(lines)
        cells = [line.split("\t") if line else ["", ""] for line in lines]
        for line, texts in zip(lines, cells, strict=True):
            if len(texts) != 2:
                raise InputError(
                    "input.not_a_pair",
                    "a pair must be two texts separated by one TAB, got {line!r}; use exactly "
                    "one TAB",
                    line=line,
                )
        return cls([first for first, _ in cells], [second for _, second in cells])

    def __iter__(self) -> Iterator[str]:
        """Every text, all first texts of pairs before all second ones."""
        yield from self.texts
        yield from self.pairs or ()

    def display(self, index: int) -> str:
        """The text, or the pair, as one line of a report."""
        text = self.texts[index]
        return text if self.pairs is None else f"{text} / {self.pairs[index]}"


@dataclass(frozen=True)
class LabelledTexts:
    """Texts, their input ids, and their labels: int64 label ids or float32 scores."""

    texts: TextInputs
    ids: Ragged
    labels: NDArray[Any]  # (n,)


@dataclass(frozen=True)
class TextEncoder:
    """Texts to input ids: [CLS] and the pieces, or [CLS] a [SEP] b [SEP] of a pair.

    A text that is too long is truncated at its end; of a pair the longer text is truncated until
    both fit (Devlin et al. 2019, appendix A.2). An imported tokenizer has its own template.
    """

    tokenizer: Tokenizer
    max_length: int

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Ragged:
        """The input ids of each text; an empty text is [CLS] alone."""
        rows = self.ids(texts)
        other = None if pairs is None else encode_cached(pairs, self.tokenizer)
        return self.add_special_tokens(rows, other)

    def ids(self, texts: Sequence[str]) -> Ragged:
        """The ids of each text, without special tokens and of any length."""
        return encode_cached(texts, self.tokenizer)

    def encode_lines(self, lines: Sequence[str], paired: bool) -> Ragged:
        """The input ids of each line: a text, or a pair with a TAB between its texts."""
        texts = TextInputs.from_lines(lines, paired)
        return self(texts.texts, texts.pairs)

    def encode_table(self, table: Table, pieces: bool = False) -> Ragged:
        """The input ids of a table's texts or pairs; with `pieces` the texts are tokenized."""
        if pieces:
            return self.encode_pieces(table.pieces("text"))
        texts = TextInputs.from_table(table)
        return self(texts.texts, texts.pairs)

    def encode_pieces(self, texts: Sequence[Sequence[str]]) -> Ragged:
        """The input ids of tokenized texts; a piece that is not in the vocabulary is [UNK].

        Raises InputError when most pieces are unknown: another vocabulary tokenized the texts.
        """
        ids = {piece: self._id(piece) for text in texts for piece in text}
        rows = Ragged.from_lists([[ids[piece] for piece in text] for text in texts])
        unknown = int((rows.ids == self.tokenizer.unk_id).sum())
        if unknown > len(rows.ids) / 2:
            raise InputError(
                "input.unknown_pieces",
                "the vocabulary lacks {unknown:,} of {n_ids:,} pieces; set vocabulary.file to "
                "the model that tokenized the texts",
                unknown=unknown,
                n_ids=len(rows.ids),
            )
        return self.add_special_tokens(rows)

    def add_special_tokens(self, rows: Ragged, pairs: Ragged | None = None) -> Ragged:
        """Rows of pieces, or pairs of them, with their special tokens."""
        return build_inputs(self.tokenizer, rows, pairs, self.max_length)

    def _id(self, piece: str) -> int:
        try:
            return self.tokenizer.id(piece)
        except InputError:
            return self.tokenizer.unk_id


def table_texts(table: Table, pieces: bool) -> Sequence[str]:
    """The texts of a table; pieces are joined to text.

    >>> list(table_texts(Table.from_columns({"text": [["▁재미", "있", "▁어요"]]}), pieces=True))
    ['재미있 어요']
    """
    if not pieces:
        return table.column("text")
    return ["".join(text).replace("▁", " ").strip() for text in table.pieces("text")]


def uses_token_types(tokenizer: Tokenizer, n_segments: int, pooling: str = "first") -> bool:
    """Whether a model reads token types 0 and 1 for the texts of a pair.

    With an imported tokenizer that returns no token types, all tokens have type 0, except for
    pooling "compare", which always needs the types.
    """
    return n_segments > 1 and (tokenizer.has_token_type_ids or pooling == "compare")


def token_type_ids(ids: "Tensor", sep_id: int) -> "Tensor":
    """The token type of each id of a pair: 0 up to the first [SEP], 1 after it.

    ids (B, T) int64 -> (B, T) int64. A single text without [SEP] has type 0.

    >>> import torch
    >>> cls, sep = 5, 4
    >>> token_type_ids(torch.tensor([[cls, 8, sep, 9, 9, sep]]), sep).tolist()
    [[0, 0, 0, 1, 1, 1]]
    """
    is_sep = (ids == sep_id).long()
    return (is_sep.cumsum(-1) - is_sep).clamp(max=1)


def row_token_types(rows: Ragged, sep_id: int) -> NDArray[np.int32]:
    """The same for rows without padding: the type of each of their ids, (tokens,).

    >>> row_token_types(Ragged.from_lists([[5, 8, 4, 9, 4], [5, 8]]), sep_id=4).tolist()
    [0, 0, 0, 1, 1, 0, 0]
    """
    before = np.concatenate([[0], np.cumsum(rows.ids == sep_id)])  # [SEP] before each id
    start = np.repeat(before[rows.offsets[:-1]], rows.lengths)
    types: NDArray[np.int32] = np.minimum(before[:-1] - start, 1).astype(np.int32)
    return types
