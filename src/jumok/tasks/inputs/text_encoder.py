"""TextInputs to the ids an encoder reads: a text alone, or two of them side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.errors import InputError
from jumok.tasks.inputs.special_tokens import build_inputs
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class TextInputs:
    r"""What a model is asked about: texts, or pairs of them.

    >>> texts = TextInputs.of_lines(["비가 온다\t날이 맑다"], paired=True)
    >>> texts.texts, texts.pairs, texts.shown(0)
    (['비가 온다'], ['날이 맑다'], '비가 온다 / 날이 맑다')
    """

    texts: Sequence[str]
    pairs: Sequence[str] | None = None  # the second text of each pair

    @classmethod
    def from_table(cls, table: Table, pieces: bool = False) -> "TextInputs":
        """The texts of a table, and those under "pair" where it has such a column."""
        paired = "pair" in table.column_names
        return cls(table_texts(table, pieces), table.column("pair") if paired else None)

    @classmethod
    def from_lines(cls, lines: Sequence[str], paired: bool) -> "TextInputs":
        """A text a line, or a pair parted by a TAB; an empty line is a pair of empty texts.

        Raises InputError for a line with more texts or fewer.
        """
        if not paired:
            return cls(lines)
        cells = [line.split("\t") if line else ["", ""] for line in lines]
        for line, texts in zip(lines, cells, strict=True):
            if len(texts) != 2:
                raise InputError(f"{line!r} is no pair; give two texts with one TAB between them")
        return cls([first for first, _ in cells], [second for _, second in cells])

    def __iter__(self) -> Iterator[str]:
        """Every text, the first ones of pairs before the others."""
        yield from self.texts
        yield from self.pairs or ()

    def display(self, index: int) -> str:
        """One of them for people to read."""
        text = self.texts[index]
        return text if self.pairs is None else f"{text} / {self.pairs[index]}"


@dataclass(frozen=True)
class TextEncoder:
    """TextInputs to the ids a model reads: [CLS] and the pieces, or [CLS] a [SEP] b [SEP] of a pair.

    Of texts longer than the model holds the beginning is read. Of a pair the longer text is cut
    until both fit (Devlin et al. 2019, appendix A.2). An imported vocabulary has frames of its own.
    """

    vocabulary: Tokenizer
    max_length: int

    def __call__(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Ragged:
        """The ids of each text; a text without any piece is [CLS] alone."""
        rows = encode_cached(texts, self.vocabulary)
        return self.add_special_tokens(
            rows, None if pairs is None else encode_cached(pairs, self.vocabulary)
        )

    def encode_lines(self, lines: Sequence[str], paired: bool) -> Ragged:
        """The ids of each line: a text, or a pair with a TAB between its texts."""
        texts = TextInputs.from_lines(lines, paired)
        return self(texts.texts, texts.pairs)

    def encode_table(self, table: Table, pieces: bool = False) -> Ragged:
        """The ids of a table's texts or pairs; its texts are `pieces` or not."""
        if pieces:
            return self.encode_pieces(table.pieces("text"))
        texts = TextInputs.from_table(table)
        return self(texts.texts, texts.pairs)

    def encode_pieces(self, texts: Sequence[Sequence[str]]) -> Ragged:
        """The ids of texts that are cut already; a piece the vocabulary lacks is [UNK].

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
        return self.add_special_tokens(rows)

    def add_special_tokens(self, rows: Ragged, pairs: Ragged | None = None) -> Ragged:
        """Rows of pieces, or pairs of them, with what stands around them."""
        return build_inputs(self.vocabulary, rows, pairs, self.max_length)

    def _id(self, piece: str) -> int:
        try:
            return self.vocabulary.id(piece)
        except InputError:
            return self.vocabulary.unk_id


def table_texts(table: Table, pieces: bool) -> Sequence[str]:
    """The texts of a table; those that are cut into pieces put together again.

    >>> list(texts_of(Table.from_columns({"text": [["▁재미", "있", "▁어요"]]}), pieces=True))
    ['재미있 어요']
    """
    if not pieces:
        return table.column("text")
    return ["".join(text).replace("▁", " ").strip() for text in table.pieces("text")]


def uses_token_types(vocabulary: Tokenizer, n_segments: int, pooling: str = "first") -> bool:
    """Whether a model is told which text of a pair each token belongs to.

    It is not where the tokeniser of somebody else's model does not tell it: there all tokens were
    of segment 0. Who compares the two texts needs it nevertheless.
    """
    tells = getattr(vocabulary, "has_token_type_ids", True)  # ours always do
    return n_segments > 1 and (tells or pooling == "compare")


def token_type_ids(ids: Tensor, sep_id: int) -> Tensor:
    """Which text of a pair each token belongs to: 0 up to the first [SEP], 1 after it.

    ids (B, T) int64 -> (B, T) int64. A text alone, without [SEP], is 0 all through.

    >>> import torch
    >>> cls, sep = 5, 4
    >>> segments_of(torch.tensor([[cls, 8, sep, 9, 9, sep]]), sep).tolist()
    [[0, 0, 0, 1, 1, 1]]
    """
    ends = (ids == sep_id).long()
    return (ends.cumsum(-1) - ends).clamp(max=1)
