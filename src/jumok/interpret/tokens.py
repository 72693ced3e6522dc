"""The tokens of a trace: pieces, and which characters and eojeol of the text they stand for."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Protocol

from jumok.errors import InputError
from jumok.interpret.eojeol import NO_EOJEOL, eojeol_at, eojeol_spans, is_space, trim_span
from jumok.interpret.schema import Tokens
from jumok.text.offsets import Span, offsets
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.tokenizer import Tokenizer, piece_or_empty

CHUNK = 64  # ids of which all beginnings are decoded together
CONTEXT = 8  # ids before them that are decoded along: more bytes than a letter has

_BROKEN = "\ufffd"  # what some bytes of a letter are decoded to


@dataclass(frozen=True)
class TokenSequence:
    """The ids of one sequence, which of them stand for the text, and where in it.

    `spans` has a span for each id, None for one that frames: [CLS], [EOS] and the like.
    """

    text: str
    ids: Sequence[int]
    spans: Sequence[Span | None]
    segments: Sequence[int] | None = None
    padding_segment: int = 0  # what the model is told of padding
    n_truncated: int = 0  # pieces of the text that the model had no room for

    def __len__(self) -> int:
        return len(self.ids)

    def last(self, n: int) -> "TokenSequence":
        """The last `n` tokens."""
        lost = max(len(self) - n, 0)
        return replace(
            self,
            ids=self.ids[lost:],
            spans=self.spans[lost:],
            n_truncated=self.n_truncated + sum(span is not None for span in self.spans[:lost]),
        )


class Detokenizer(Protocol):
    """Whatever makes texts of ids; every `Tokenizer` does."""

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The texts of many rows of ids, special pieces left out."""


def padded_tokens(row: TokenSequence, vocabulary: Tokenizer, width: int) -> Tokens:
    """A row as the header has it, padded on the right to `width` tokens."""
    padding, end = width - len(row), len(row.text)
    pieces = [piece_or_empty(vocabulary, i) for i in row.ids]
    shown: list[Span] = []
    for span in reversed(row.spans):  # what frames stands where the next piece begins
        place = shown[-1][0] if shown else end
        shown.append((place, place) if span is None else trim_span(row.text, span))
    shown.reverse()
    eojeols = eojeol_spans(row.text)
    numbers = [
        NO_EOJEOL if own is None else eojeol_at(eojeols, span, name)
        for own, span, name in zip(row.spans, shown, pieces, strict=True)
    ]
    return Tokens(
        text=row.text,
        pieces=(*pieces, *[_padding_piece(vocabulary)] * padding),
        ids=(*map(int, row.ids), *[vocabulary.padding_id] * padding),
        spans=(*shown, *[(end, end)] * padding),
        special=(*(int(span is None) for span in row.spans), *[1] * padding),
        real=(*[1] * len(row), *[0] * padding),
        words=(*numbers, *[NO_EOJEOL] * padding),
        segments=None
        if row.segments is None
        else (*row.segments, *[row.padding_segment] * padding),
    )


def token_spans(text: str, ids: Sequence[int], vocabulary: Tokenizer) -> list[Span]:
    """The characters of a text that each of its ids stands for, as exactly as can be told.

    The vocabulary's own offsets where it has some; else the text is compared with what the ids
    spell (`align_spans`).
    """
    pieces = [piece_or_empty(vocabulary, i) for i in ids]
    if isinstance(vocabulary, PretrainedTokenizer):
        try:
            cut = vocabulary.encode_hf_with_offsets(text)
        except InputError:  # Marian's tokenisers have none
            return align_spans(text, ids, vocabulary, pieces)
        if cut.ids != list(ids):  # somebody typed "[CLS]"
            return align_spans(text, ids, vocabulary, pieces)
        # a space put before a word is laid on the word's first letter
        return [
            (a, a) if is_space(name) and text[a:b].strip() else (a, b)
            for name, (a, b) in zip(pieces, cut.spans, strict=True)
        ]
    try:
        return offsets(text, vocabulary.pieces(text))
    except InputError:  # it rewrites the text, or spells letters as bytes
        return align_spans(text, ids, vocabulary, pieces)


def align_spans(
    text: str, ids: Sequence[int], vocabulary: Detokenizer, pieces: Sequence[str] | None = None
) -> list[Span]:
    """The characters of a text that ids stand for, told by what the vocabulary makes of them.

    Letters are compared without case, accents and ways of composing; bytes of one letter all
    stand for it; the words between two known places belong to the unknown pieces between them,
    in order, as `pieces`, those of the ids, begin words.
    """
    increments = _increments(ids, vocabulary)
    owners = [number for number, part in enumerate(increments) for _ in _letters(part)]
    spelling = [letter for part in increments for letter in _letters(part)]
    letters = [(letter, at) for at, character in enumerate(text) for letter in _letters(character)]
    given = [letter for letter, _ in letters]
    places: list[Span | None] = [None] * len(ids)
    for mine, theirs, size in _matches(spelling, given):
        for i in range(size):
            number, at = owners[mine + i], letters[theirs + i][1]
            begin, end = places[number] or (at, at)
            places[number] = (min(begin, at), max(end, at + 1))
    later: Span | None = None
    for number, partial in reversed(list(enumerate(_partial(ids, vocabulary)))):
        place = places[number]
        if place is not None:
            later = place
        elif partial and later is not None:
            places[number] = (later[0], later[0] + 1)  # its last byte has found the letter
    return _filled(text, places, pieces or [""] * len(ids))


def _increments(ids: Sequence[int], vocabulary: Detokenizer) -> list[str]:
    """What each id adds to the text of those before it.

    Some ids at a time: the beginnings of a whole text would take memory by its square.
    """
    added: list[str] = []
    for first in range(0, len(ids), CHUNK):
        start, stop = max(first - CONTEXT, 0), min(first + CHUNK, len(ids))
        rows = [list(ids[start:end]) for end in range(first, stop + 1)]
        cut = _BROKEN if start else ""  # the context may begin within a letter
        before, *whole = (text.lstrip(cut) for text in vocabulary.decode_batch(rows))
        before = before.rstrip(_BROKEN)
        for end, text in enumerate(whole, first + 1):
            sure = text if end == len(ids) else text.rstrip(_BROKEN)
            goes_on = sure.startswith(before)
            added.append(sure[len(before) :] if goes_on else "")
            before = sure if goes_on else before
    return added


def _partial(ids: Sequence[int], vocabulary: Detokenizer) -> list[bool]:
    """Which ids are some bytes of a letter."""
    return [_BROKEN in text for text in vocabulary.decode_batch([[i] for i in ids])]


def _filled(text: str, places: Sequence[Span | None], pieces: Sequence[str]) -> list[Span]:
    """Places for pieces that have none, in the text between those that have."""
    found: list[Span] = []
    left = 0  # where those that were found end
    while len(found) < len(places):
        begin = len(found)
        known = places[begin]
        if known is not None:
            found.append(known)
            left = max(left, known[1])
            continue
        stop = next((i for i in range(begin, len(places)) if places[i] is not None), len(places))
        following = places[stop] if stop < len(places) else None
        right = max(left, following[0] if following else len(text))
        inside = [(left + a, left + b) for a, b in eojeol_spans(text[left:right])]
        found += _spread(inside, pieces[begin:stop], (left, right))
        left = max(left, *(end for _, end in found[begin:]))
    return found


def _spread(inside: Sequence[Span], pieces: Sequence[str], gap: Span) -> list[Span]:
    """The words of a gap, one after the other, for its pieces; the last for all that are more.

    A bare space stands before its word, or at the end when no word is left, and the piece behind
    it goes on with that word.

    >>> _spread([(0, 2), (3, 5)], ["▁", "<unk>", "▁", "<unk>"], (0, 5))
    [(0, 0), (0, 2), (3, 3), (3, 5)]
    """
    if not inside:
        return [gap] * len(pieces)
    found, number, begun = [], -1, False
    for name in pieces:
        number += not begun
        begun = is_space(name)
        if begun:
            place = inside[number][0] if number < len(inside) else gap[1]
            found.append((place, place))
        else:
            found.append(inside[min(number, len(inside) - 1)])
    return found


def _matches(mine: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int, int]]:
    if list(mine) == list(theirs):
        return [(0, 0, len(mine))]
    blocks = SequenceMatcher(None, mine, theirs, autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks]


def _letters(text: str) -> list[str]:
    """The letters of a text, taken apart, in small letters, without accents and white space."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return [c for c in parts if not c.isspace() and unicodedata.category(c) != "Mn"]


def _padding_piece(vocabulary: Tokenizer) -> str:
    try:
        return vocabulary.piece(vocabulary.pad_id)
    except InputError:
        return "[PAD]"
