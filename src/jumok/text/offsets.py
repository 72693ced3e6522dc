"""The characters of a text that each of its pieces covers."""

from collections.abc import Sequence

from jumok.errors import TokenizerError
from jumok.unicode_forms import normalize

SPACE = "▁"  # a space in pieces of SentencePiece
WORD_STARTS = (SPACE, "Ġ")  # "Ġ": a space in pieces of byte-level BPE

Span = tuple[int, int]  # characters from the first index up to the second


def offsets(text: str, pieces: Sequence[str]) -> list[Span]:
    r"""The characters of `text` that each piece covers; none for a space inserted before the text.

    `pieces` are all pieces of the text in order, from `Tokenizer.pieces`. If the tokenizer has
    composed the text (NFC), the offsets are those of the original text. Raises InputError if the
    pieces spell another text.

    >>> offsets("서울 가자", ["▁", "서울", "▁가자"])
    [(0, 0), (0, 2), (2, 5)]
    >>> offsets("\u1109\u1165\u110b\u116e\u11af 가자", ["▁서울", "▁가자"])  # NFD, as in macOS
    [(0, 5), (5, 8)]
    """
    spelled = "".join(pieces).replace(SPACE, " ")
    characters = _align(text.replace(SPACE, " "), spelled)
    spans, start = [], 0
    for piece in pieces:
        covered = characters[start : start + len(piece)]
        start += len(piece)
        spans.append((covered[0][0], covered[-1][1]))
    return spans


def _align(text: str, spelled: str) -> list[Span]:
    """The characters of the text for each character that the pieces spell."""
    if spelled == text:
        return [(index, index + 1) for index in range(len(text))]
    if spelled == f" {text}":
        return [(0, 0), *((index, index + 1) for index in range(len(text)))]
    owners, spelled_owners = _owners(text), _owners(spelled)
    inserted = len(spelled_owners) - len(owners)  # the space before the text
    if inserted not in (0, 1) or _decomposed(spelled) != " " * inserted + _decomposed(text):
        raise TokenizerError(
            "text.no_offsets",
            "the tokenizer rewrites {text!r} to {spelled!r}, so its pieces have no offsets; use "
            'one with normalization "nfc" and without byte_fallback',
            text=text,
            spelled=spelled,
        )
    spans: list[Span] = [(0, 0)] * len(spelled)
    for index, spelled_index in zip(owners, spelled_owners[inserted:], strict=True):
        begin, end = spans[spelled_index]
        spans[spelled_index] = (begin if end else index, index + 1)
    return spans


def _owners(text: str) -> list[int]:
    """For each character of the decomposed text, the index of its character in the text."""
    return [index for index, character in enumerate(text) for _ in _decomposed(character)]


def _decomposed(text: str) -> str:
    return normalize("NFD", text)
