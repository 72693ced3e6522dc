"""Which characters of a text each of its pieces stands for."""

import unicodedata
from collections.abc import Sequence

from jumok.errors import InputError

SPACE = "▁"  # how SentencePiece writes a space

Span = tuple[int, int]  # the characters from the first number up to the second


def offsets(text: str, pieces: Sequence[str]) -> list[Span]:
    r"""The characters of `text` that each piece stands for; of the space put before a text, none.

    `pieces` are all pieces of the text in order, as `Tokenizer.pieces` gives them. A vocabulary
    may have composed the text (NFC): the characters are those of the text as it came. Raises
    InputError when the pieces spell another text.

    >>> offsets("서울 가자", ["▁", "서울", "▁가자"])
    [(0, 0), (0, 2), (2, 5)]
    >>> offsets("\u1109\u1165\u110b\u116e\u11af 가자", ["▁서울", "▁가자"])  # in parts, as of macOS
    [(0, 5), (5, 8)]
    """
    spelled = "".join(pieces).replace(SPACE, " ")
    places = _places(text.replace(SPACE, " "), spelled)
    spans, at = [], 0
    for piece in pieces:
        own = places[at : at + len(piece)]
        at += len(piece)
        spans.append((own[0][0], own[-1][1]))
    return spans


def _places(text: str, spelled: str) -> list[Span]:
    """The characters of the text behind each character that was spelled."""
    if spelled == text:
        return [(place, place + 1) for place in range(len(text))]
    if spelled == f" {text}":
        return [(0, 0), *((place, place + 1) for place in range(len(text)))]
    parts, spelled_parts = _parts(text), _parts(spelled)
    before = len(spelled_parts) - len(parts)  # the space put before it
    if before not in (0, 1) or _decomposed(spelled) != " " * before + _decomposed(text):
        raise InputError(
            f"the vocabulary rewrites {text!r} to {spelled!r}, so its pieces cannot be laid on "
            'the text; use one with normalization "nfc" and without byte_fallback'
        )
    places: list[Span] = [(0, 0)] * len(spelled)
    for place, spelled_place in zip(parts, spelled_parts[before:], strict=True):
        begin, end = places[spelled_place]
        places[spelled_place] = (begin if end else place, place + 1)
    return places


def _parts(text: str) -> list[int]:
    """For each character of the decomposed text, which character of the text it is a part of."""
    return [place for place, character in enumerate(text) for _ in _decomposed(character)]


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)
