"""The eojeols (어절) of a text, what stands between white space, and which one a piece is of."""

import re
from collections.abc import Sequence

from jumok.text.offsets import Span

NO_EOJEOL = -1


def eojeol_spans(text: str) -> list[Span]:
    r"""The eojeols of a text: where each begins and ends.

    >>> eojeol_spans("겨울은  추워요.\t감기")
    [(0, 3), (5, 9), (10, 12)]
    """
    return [(match.start(), match.end()) for match in re.finditer(r"\S+", text)]


def is_space(name: str) -> bool:
    """Whether a piece is nothing but the space before a word, as SentencePiece or GPT-2 write it.

    >>> is_space("▁"), is_space("▁영화"), is_space("Ġ")
    (True, False, True)
    """
    return bool(name) and not name.strip("▁Ġ ")


def eojeol_at(eojeols: Sequence[Span], span: Span, name: str = "") -> int:
    """The number of the first eojeol that a piece touches; of a bare space, the one behind it.

    >>> eojeol_at([(0, 2), (3, 5)], (3, 4)), eojeol_at([(0, 2), (3, 5)], (2, 3), "▁")
    (1, 1)
    """
    begin, end = span
    for number, (start, stop) in enumerate(eojeols):
        if (begin < stop and end > start) or (is_space(name) and start >= end):
            return number
    return NO_EOJEOL


def trim_span(text: str, span: Span) -> Span:
    """A span without the white space around it, if anything is left.

    >>> trim_span("겨울 은", (2, 4)), trim_span("겨울 은", (2, 3))
    ((3, 4), (2, 3))
    """
    begin, end = span
    inside = text[begin:end]
    if not inside.strip():
        return span
    return begin + len(inside) - len(inside.lstrip()), end - len(inside) + len(inside.rstrip())
