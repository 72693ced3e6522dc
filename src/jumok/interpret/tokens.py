"""The tokens of a trace: pieces, and their spans and eojeols in the text."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Protocol

from jumok.errors import InputError
from jumok.interpret.eojeol import NO_EOJEOL, eojeol_at, eojeol_spans, is_space, trim_span
from jumok.interpret.schema import Tokens
from jumok.text.offsets import Span
from jumok.text.tokenizer import Tokenizer, piece_or_empty
from jumok.unicode_forms import normalize

CHUNK = 64  # ids whose prefixes are decoded in one batch
CONTEXT = 8  # ids before a chunk that are decoded with it: more bytes than a character has

_REPLACEMENT = "\ufffd"  # the decoding of an incomplete character


@dataclass(frozen=True)
class TokenSequence:
    """The ids of one sequence, and the span of each in the text.

    The span of a special token such as [CLS] or [EOS] is None.
    """

    text: str
    ids: Sequence[int]
    spans: Sequence[Span | None]
    segments: Sequence[int] | None = None
    padding_segment: int = 0  # the token type of padding
    n_truncated: int = 0  # pieces of the text beyond max_length

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
    """Decodes ids to text; every `Tokenizer` does."""

    def decode_batch(self, batch: Iterable[Iterable[int]]) -> list[str]:
        """The decoded texts of rows of ids, without special tokens."""


def padded_tokens(row: TokenSequence, tokenizer: Tokenizer, width: int) -> Tokens:
    """A sequence for the header, padded on the right to `width` tokens."""
    padding, segments = width - len(row), row.segments
    ids = [*row.ids, *[tokenizer.padding_id] * padding]
    tokens = described_tokens(
        row.text,
        [*(piece_or_empty(tokenizer, i) for i in row.ids), *[_padding_piece(tokenizer)] * padding],
        ids,
        [*(span and trim_span(row.text, span) for span in row.spans), *[None] * padding],
        [*[1] * len(row), *[0] * padding],
    )
    if segments is not None:
        segments = (*segments, *[row.padding_segment] * padding)
    return replace(tokens, segments=segments, truncated=row.n_truncated)


def described_tokens(
    text: str,
    pieces: Sequence[str],
    ids: Sequence[int],
    spans: Sequence[Span | None],
    real: Sequence[int],
) -> Tokens:
    """The tokens for the header; those without a span are special.

    A special token has an empty span at the start of the next piece.
    """
    found: list[Span] = []
    for span in reversed(spans):
        start = found[-1][0] if found else len(text)
        found.append((start, start) if span is None else span)
    found.reverse()
    eojeols = eojeol_spans(text)
    return Tokens(
        text=text,
        pieces=tuple(pieces),
        ids=tuple(map(int, ids)),
        spans=tuple(found),
        special=tuple(int(span is None) for span in spans),
        real=tuple(map(int, real)),
        words=tuple(
            NO_EOJEOL if span is None else eojeol_at(eojeols, span, piece)
            for span, piece in zip(spans, pieces, strict=True)
        ),
    )


def token_spans(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> list[Span]:
    """The span of each id of an encoded text: the tokenizer's offsets, else `align_spans`."""
    pieces = [piece_or_empty(tokenizer, i) for i in ids]
    try:
        encoding = tokenizer.encode_with_offsets(text)
    except InputError:  # it has none, rewrites the text, or encodes characters as bytes
        return align_spans(text, ids, tokenizer, pieces)
    if encoding.ids != list(ids):
        return align_spans(text, ids, tokenizer, pieces)
    # the offsets of an added space are those of the first character of its word
    return [
        (a, a) if is_space(piece) and text[a:b].strip() else (a, b)
        for piece, (a, b) in zip(pieces, encoding.offsets, strict=True)
    ]


def align_spans(
    text: str, ids: Sequence[int], tokenizer: Detokenizer, pieces: Sequence[str] | None = None
) -> list[Span]:
    """The span of each id, from an alignment of the text with the decoded ids.

    Characters are compared without case, accents and composition; every byte of a character has its
    span. The words between two aligned ids are given to the unknown pieces between them, in order,
    a new word for each of the `pieces` that starts one.
    """
    added = _added_text(ids, tokenizer)
    owners = [number for number, part in enumerate(added) for _ in _base_characters(part)]
    decoded = [character for part in added for character in _base_characters(part)]
    given = [
        (base, at) for at, character in enumerate(text) for base in _base_characters(character)
    ]
    spans: list[Span | None] = [None] * len(ids)
    for i, j, size in _matches(decoded, [base for base, _ in given]):
        for offset in range(size):
            number, at = owners[i + offset], given[j + offset][1]
            begin, end = spans[number] or (at, at)
            spans[number] = (min(begin, at), max(end, at + 1))
    following: Span | None = None
    for number, is_partial in reversed(list(enumerate(_are_partial(ids, tokenizer)))):
        span = spans[number]
        if span is not None:
            following = span
        elif is_partial and following is not None:
            spans[number] = (following[0], following[0] + 1)  # the last byte is aligned
    return _fill_gaps(text, spans, pieces or [""] * len(ids))


def _added_text(ids: Sequence[int], tokenizer: Detokenizer) -> list[str]:
    """The text that each id adds to the decoding of those before it.

    In chunks, because the prefixes of a whole text take quadratic memory.
    """
    added: list[str] = []
    for first in range(0, len(ids), CHUNK):
        start, stop = max(first - CONTEXT, 0), min(first + CHUNK, len(ids))
        rows = [list(ids[start:end]) for end in range(first, stop + 1)]
        partial = _REPLACEMENT if start else ""  # the context may start within a character
        before, *prefixes = (text.lstrip(partial) for text in tokenizer.decode_batch(rows))
        before = before.rstrip(_REPLACEMENT)
        for end, text in enumerate(prefixes, first + 1):
            complete = text if end == len(ids) else text.rstrip(_REPLACEMENT)
            continues = complete.startswith(before)
            added.append(complete[len(before) :] if continues else "")
            before = complete if continues else before
    return added


def _are_partial(ids: Sequence[int], tokenizer: Detokenizer) -> list[bool]:
    """Which ids are some bytes of a character."""
    return [_REPLACEMENT in text for text in tokenizer.decode_batch([[i] for i in ids])]


def _fill_gaps(text: str, spans: Sequence[Span | None], pieces: Sequence[str]) -> list[Span]:
    """Spans for pieces that have none, in the text between those that have."""
    found: list[Span] = []
    left = 0  # the end of the spans so far
    while len(found) < len(spans):
        begin = len(found)
        known = spans[begin]
        if known is not None:
            found.append(known)
            left = max(left, known[1])
            continue
        stop = next((i for i in range(begin, len(spans)) if spans[i] is not None), len(spans))
        following = spans[stop] if stop < len(spans) else None
        right = max(left, following[0] if following else len(text))
        words = [(left + a, left + b) for a, b in eojeol_spans(text[left:right])]
        found += _distribute(words, pieces[begin:stop], (left, right))
        left = max(left, *(end for _, end in found[begin:]))
    return found


def _distribute(words: Sequence[Span], pieces: Sequence[str], gap: Span) -> list[Span]:
    """One word of a gap after the other for each piece; the last word for all further pieces.

    A bare space has an empty span before its word, or at the end of the gap if no word is left, and
    the piece after it has that word.

    >>> _distribute([(0, 2), (3, 5)], ["▁", "<unk>", "▁", "<unk>"], (0, 5))
    [(0, 0), (0, 2), (3, 3), (3, 5)]
    """
    if not words:
        return [gap] * len(pieces)
    found, number, after_space = [], -1, False
    for piece in pieces:
        number += not after_space
        after_space = is_space(piece)
        if after_space:
            start = words[number][0] if number < len(words) else gap[1]
            found.append((start, start))
        else:
            found.append(words[min(number, len(words) - 1)])
    return found


def _matches(decoded: Sequence[str], given: Sequence[str]) -> list[tuple[int, int, int]]:
    if list(decoded) == list(given):
        return [(0, 0, len(decoded))]
    blocks = SequenceMatcher(None, decoded, given, autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks]


def _base_characters(text: str) -> list[str]:
    """The decomposed characters in lower case, without accents and white space."""
    parts = normalize("NFKD", text.casefold())
    return [c for c in parts if not c.isspace() and unicodedata.category(c) != "Mn"]


def _padding_piece(tokenizer: Tokenizer) -> str:
    try:
        return tokenizer.piece(tokenizer.pad_id)
    except InputError:
        return "[PAD]"
