"""Eojeols (어절), the words between white space, and the eojeol of each piece."""

import re
from collections.abc import Sequence

from jumok.text.offsets import Span

NO_EOJEOL = -1


def eojeol_spans(text: str) -> list[Span]:
    r"""The span of each eojeol of a text.

    >>> eojeol_spans("겨울은  추워요.\t감기")
    [(0, 3), (5, 9), (10, 12)]
    """
    return [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]


def is_space(name: str) -> bool:
    """Whether a piece is only the space mark of SentencePiece or GPT-2.

    >>> is_space("▁"), is_space("▁영화"), is_space("Ġ")
    (True, False, True)
    """
    return bool(name) and not name.strip("▁Ġ ")


def eojeol_at(eojeols: Sequence[Span], span: Span, name: str = "") -> int:
    """The index of the first eojeol that a piece overlaps; for a bare space, the next one.

    >>> eojeol_at([(0, 2), (3, 5)], (3, 4)), eojeol_at([(0, 2), (3, 5)], (2, 3), "▁")
    (1, 1)
    """
    begin, end = span
    for number, (start, stop) in enumerate(eojeols):
        if (begin < stop and end > start) or (is_space(name) and start >= end):
            return number
    return NO_EOJEOL


def trim_span(text: str, span: Span) -> Span:
    """A span without leading and trailing white space, unless it is only white space.

    >>> trim_span("겨울 은", (2, 4)), trim_span("겨울 은", (2, 3))
    ((3, 4), (2, 3))
    """
    begin, end = span
    inside = text[begin:end]
    if not inside.strip():
        return span
    return begin + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
