"""Templates of special tokens: [CLS] A [SEP] B [SEP] of BERT, A </s> of T5, nothing for GPT-2.

A template lists where one or two texts go and which special tokens surround them. Rows that would
be longer than `max_length` lose pieces of their texts, never a special token.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jumok.errors import TokenizerError
from jumok.text.ragged import Ragged

Ints = NDArray[np.int64]
Side = Literal["right", "left"]
Truncation = Literal["longest_first", "longest_first_python", "first_keeps_more"]


@dataclass(frozen=True)
class TemplateOutput:
    """One row as the model reads it; `token_type_ids` are those of transformers (0 if unused)."""

    ids: list[int]
    token_type_ids: list[int]


@dataclass(frozen=True)
class TextSlot:
    """The position of a text (0 the first, 1 the second) and the token type of its pieces."""

    text: Literal[0, 1]
    token_type: int = 0


@dataclass(frozen=True)
class SpecialToken:
    """A special token, which may have several ids, and its token type."""

    ids: tuple[int, ...]
    token_type: int = 0


TemplatePiece = TextSlot | SpecialToken


@dataclass(frozen=True)
class Template:
    """How a row is built of one text (`single`) or of two (`pair`, empty: pairs are refused).

    >>> cls, sep = SpecialToken((2,)), SpecialToken((3,))
    >>> single = (cls, TextSlot(0), sep)
    >>> bert = Template(single, (*single, TextSlot(1, 1), SpecialToken((3,), 1)))
    >>> bert.apply_one([10, 11, 12, 13], [20], max_length=7)
    TemplateOutput(ids=[2, 10, 11, 12, 3, 20, 3], token_type_ids=[0, 0, 0, 0, 0, 1, 1])
    """

    single: tuple[TemplatePiece, ...] = (TextSlot(0),)
    pair: tuple[TemplatePiece, ...] = (TextSlot(0), TextSlot(1, 1))
    side: Side = "right"  # the side on which a text that is too long is truncated
    truncation: Truncation = "longest_first"  # how two texts divide what has to be removed

    def apply(self, rows: Ragged, pairs: Ragged | None, max_length: int | None) -> Ragged:
        """Rows of at most `max_length` ids (None: unlimited) from one text or two a row.

        >>> rows = Ragged.from_lists([[10, 11], [12]])
        >>> list(Template((TextSlot(0), SpecialToken((3,)))).apply(rows, None, max_length=2))
        [array([10,  3], dtype=int32), array([12,  3], dtype=int32)]
        """
        texts = self._truncated(rows, pairs, max_length)
        return Ragged.hstack(
            [
                texts[piece.text]
                if isinstance(piece, TextSlot)
                else Ragged.repeated(piece.ids, len(rows))
                for piece in self._pieces(pairs is not None)
            ]
        )

    def apply_one(
        self, ids: Sequence[int], pair: Sequence[int] | None, max_length: int | None
    ) -> TemplateOutput:
        """The row of one text or two, with its token types."""
        first, second = Ragged.from_lists([ids]), Ragged.from_lists([pair or ()])
        texts = self._truncated(first, None if pair is None else second, max_length)
        row: list[int] = []
        types: list[int] = []
        for piece in self._pieces(pair is not None):
            new = texts[piece.text][0].tolist() if isinstance(piece, TextSlot) else piece.ids
            row.extend(new)
            types.extend([piece.token_type] * len(new))
        return TemplateOutput(row, types)

    def n_special(self, *, paired: bool = False) -> int:
        """The number of special tokens in a row."""
        return sum(
            len(piece.ids) for piece in self._pieces(paired) if isinstance(piece, SpecialToken)
        )

    def n_before_and_after(self) -> tuple[int, int]:
        """The number of special tokens before and after the pieces of a single text."""
        at = self.single.index(next(p for p in self.single if isinstance(p, TextSlot)))
        before, after = self.single[:at], self.single[at + 1 :]
        return Template(before).n_special(), Template(after).n_special()

    def _pieces(self, paired: bool) -> tuple[TemplatePiece, ...]:
        if paired and not self.pair:
            raise TokenizerError(
                "text.no_pair_template",
                "this tokenizer has no template for pairs of texts; give one text",
            )
        return self.pair if paired else self.single

    def _truncated(
        self, rows: Ragged, pairs: Ragged | None, max_length: int | None
    ) -> tuple[Ragged, Ragged]:
        """The texts, truncated so that every row has at most `max_length` ids."""
        paired = pairs is not None
        second = Ragged.repeated((), len(rows)) if pairs is None else pairs
        n_special = self.n_special(paired=paired)
        if max_length is None:
            return rows, second
        capacity = max_length - n_special  # for the pieces of the texts
        if capacity < 0:
            raise TokenizerError(
                "text.no_room_for_special_tokens",
                "max_length must be at least {n_special}, the number of special tokens, got "
                "{max_length}; give at least {value} more",
                n_special=n_special,
                max_length=max_length,
                value=-capacity,
            )
        if not paired:
            return rows.truncate(capacity, self.side), second
        n_first, n_second = rows.lengths, second.lengths
        too_long = n_first + n_second > capacity
        kept_first, kept_second = _TRUNCATIONS[self.truncation](n_first, n_second, capacity)
        return (
            rows.truncate(np.where(too_long, kept_first, n_first), self.side),
            second.truncate(np.where(too_long, kept_second, n_second), self.side),
        )


def _longest_first(first: Ints, second: Ints, capacity: int) -> tuple[Ints, Ints]:
    """How many pieces two texts keep, as in the tokenizers library.

    The longer text is truncated to the shorter one, then both are truncated to the same length;
    an odd position goes to the longer one.

    >>> _longest_first(np.array([10, 4, 10]), np.array([4, 10, 8]), 9)
    (array([5, 4, 5]), array([4, 5, 4]))
    """
    short = np.minimum(first, second)
    kept_long = np.where(short > capacity, short, np.maximum(short, capacity - short))
    both = short + kept_long > capacity  # the shorter one is truncated as well
    kept_short = np.where(both, capacity // 2, short)
    kept_long = np.where(both, capacity // 2 + capacity % 2, kept_long)
    longer = first > second
    return np.where(longer, kept_long, kept_short), np.where(longer, kept_short, kept_long)


def _longest_first_python(first: Ints, second: Ints, capacity: int) -> tuple[Ints, Ints]:
    """How many pieces two texts keep, as in the tokenizers of transformers written in Python.

    >>> _longest_first_python(np.array([4, 9]), np.array([10, 9]), 9)
    (array([4, 5]), array([5, 4]))
    """
    removed = np.maximum(first + second - capacity, 0)
    difference = np.minimum(abs(first - second), removed)
    half = (removed - difference) // 2
    rest = removed - difference - half
    longer = first > second
    kept_first = np.where(longer, first - difference - half, first - half)
    kept_second = np.where(longer, second - rest, second - difference - rest)
    return np.maximum(kept_first, 0), np.maximum(kept_second, 0)


def _first_keeps_more(first: Ints, second: Ints, capacity: int) -> tuple[Ints, Ints]:
    """The longer text is truncated until both fit (Devlin et al. 2019, appendix A.2).

    An odd position goes to the first text.

    >>> _first_keeps_more(np.array([4, 7, 3]), np.array([3, 1, 4]), 5)
    (array([3, 4, 3]), array([2, 1, 2]))
    """
    kept = np.minimum(first, np.maximum(capacity - second, capacity - capacity // 2))
    return kept, capacity - kept


_TRUNCATIONS: dict[Truncation, Callable[[Ints, Ints, int], tuple[Ints, Ints]]] = {
    "longest_first": _longest_first,
    "longest_first_python": _longest_first_python,
    "first_keeps_more": _first_keeps_more,
}
