"""The characters of a text that each of its tokens covers, whatever the tokenizer rewrites."""

from collections.abc import Sequence

from jumok.text.offsets import WORD_STARTS, Span


def token_spans(text: str, pieces: Sequence[str]) -> list[Span]:
    """The characters that each piece covers, in order; empty where a piece covers none.

    Each piece is looked for after the one before it. Pieces that do not occur in the text, such as
    the unknown token and bytes, share the characters between their neighbours; special tokens after
    the last character cover none. `jumok.text.offsets` is exact, and refuses such texts.

    >>> token_spans("서울 가자!", ["▁서울", "▁", "가자", "<unk>", "</s>"])
    [(0, 2), (2, 2), (3, 5), (5, 6), (6, 6)]
    """
    spans: list[Span] = []
    missing: list[int] = []  # of the pieces since the last one that was found
    position = 0
    for number, piece in enumerate(pieces):
        letters = piece.lstrip("".join(WORD_STARTS))
        start = text.find(letters, position) if letters else -1
        spans.append((position, position))
        if start < 0:
            missing += [number] if letters else []
            continue
        if missing or not text[position:start].strip():
            _share(text, spans, missing, position, start)
            position = start + len(letters)
            spans[number] = (start, position)
        else:
            missing.append(
                number
            )  # a later occurrence: characters without a piece would be skipped
    _share(text, spans, missing, position, len(text))
    return spans


def _share(text: str, spans: list[Span], missing: list[int], start: int, end: int) -> None:
    """Give the first of the missing pieces the characters from `start` to `end`."""
    if missing:
        gap = text[start:end]
        first = start + len(gap) - len(gap.lstrip())
        last = max(first, start + len(gap.rstrip()))
        for number in missing:
            spans[number] = (first, last)
            first = last
    missing.clear()
