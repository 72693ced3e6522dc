"""Labels of tokens in figures: words, with bytes decoded to characters.

The same rules as in the page (web/src/draw/text.ts).
"""

import unicodedata
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from jumok.interpret.aggregate import token_groups
from jumok.interpret.options import Unit
from jumok.interpret.schema import Tokens
from jumok.text.byte_pieces import byte_piece_value, is_utf8_fragment, piece_bytes

MAX_LABEL_CHARS = 64

_UNSEEN = ("Cc", "Cf", "Zl", "Zp", "Cs")  # invisible, or change the direction of text
_BLANKS = "\u00a0\u115f\u1160\u3164\uffa0\ufffd"


@dataclass(frozen=True)
class Label:
    """The label of a row or column, and the pieces it covers."""

    text: str
    pieces: range
    special: bool


def labels(tokens: Tokens, unit: Unit) -> tuple[Label, ...]:
    """The labels of a sequence's tokens, merged by unit, without padding.

    The label of a piece is the piece; of a syllable or a word its characters in the text.
    """
    read = display_pieces(tokens)
    result = []
    for pieces in token_groups(tokens, unit):
        if not tokens.real[pieces[0]]:
            continue
        special = bool(tokens.special[pieces[0]])
        begin, end = tokens.spans[pieces[0]][0], tokens.spans[pieces[-1]][1]
        text = "" if unit == "piece" or special else tokens.text[begin:end]
        text = text or "".join(read[i] for i in pieces)
        result.append(Label(visible_text(text), pieces, special))
    return tuple(result)


def visible_text(text: str) -> str:
    r"""A text on one line with invisible characters escaped, truncated to 64 characters.

    The spaces of pieces, ▁ and Ġ, become ␣.

    >>> visible_text("▁춥\u202e다\n"), visible_text("▁"), visible_text("")
    ('␣춥[U+202E]다\\n', '␣', '∅')
    """
    shown = "".join(map(_badge, text[:MAX_LABEL_CHARS]))
    shown += "…" * (len(text) > MAX_LABEL_CHARS)
    return shown or "∅"


def display_pieces(tokens: Tokens) -> tuple[str, ...]:
    """The pieces of a sequence in readable form.

    Bytes, in GPT-2's alphabet or as <0xEC>, are decoded; pieces of one character show it with
    their number.

    >>> row = Tokens(text="안", pieces=("<0xEC>", "<0x95>", "<0x88>"), ids=(9, 8, 7),
    ...     spans=((0, 1),) * 3, special=(0,) * 3, real=(1,) * 3, words=(0,) * 3)
    >>> display_pieces(row)
    ('안1/3', '안2/3', '안3/3')
    """
    encoded = _bytes_of(tokens)
    texts = [None if data is None else _decoded(data) for data in encoded]
    sharing: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, (begin, end) in enumerate(tokens.spans):
        if end > begin and encoded[i] is not None and texts[i] is None:
            sharing[begin, end].append(i)
    result = []
    for i, piece in enumerate(tokens.pieces):
        data, text = encoded[i], texts[i]
        begin, end = tokens.spans[i]
        if data is None:
            result.append(piece)
        elif text is not None:
            result.append("▁" + text[1:] if text[:1] == " " else text)
        elif end > begin and "\ufffd" not in tokens.text[begin:end]:
            among = sharing[begin, end]
            part = f"{among.index(i) + 1}/{len(among)}" if len(among) > 1 else "…"
            result.append(tokens.text[begin:end] + part)
        else:
            result.append(_partly_decoded(data))  # no character of the text has these bytes
    return tuple(result)


def _badge(character: str) -> str:
    """A character, or the code point of an invisible one."""
    if character in "▁Ġ":
        return "␣"
    if character in "\n\t":
        return {"\n": "\\n", "\t": "\\t"}[character]
    if unicodedata.category(character) in _UNSEEN or character in _BLANKS:
        return f"[U+{ord(character):04X}]"
    return character


def _bytes_of(tokens: Tokens) -> list[bytes | None]:
    """The bytes of each piece, or None if it does not encode bytes."""
    alphabet = _is_spelled_in_bytes(tokens)
    result: list[bytes | None] = []
    for piece, special in zip(tokens.pieces, tokens.special, strict=True):
        byte = byte_piece_value(piece)
        result.append(piece_bytes(piece) if byte is None and alphabet and not special else byte)
    return result


def _is_spelled_in_bytes(tokens: Tokens) -> bool:
    """Whether the pieces are in GPT-2's byte alphabet.

    Signs are its characters for blanks and line ends, and pieces that do not occur in the text.
    Joined, the pieces must be UTF-8 (the ##üße of a WordPiece is not), unless a model generated
    invalid bytes; the first and last character may be incomplete in a truncated text.
    """
    pairs = zip(tokens.pieces, tokens.special, strict=True)
    real = [piece for piece, special in pairs if not special]
    data = [piece_bytes(piece) for piece in real]
    if any(one is None for one in data):
        return False
    if not is_utf8_fragment(b"".join(filter(None, data))) and "\ufffd" not in tokens.text:
        return False
    if any(piece.startswith("##") for piece in real) and "##" not in tokens.text:
        return False  # ##é could be an incomplete character
    return any(
        set(piece) & set("ĠĊĉ") or (not piece.isascii() and piece not in tokens.text)
        for piece in real
    )


def _decoded(data: bytes) -> str | None:
    """The text of the bytes; None for an incomplete character."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _partly_decoded(data: bytes) -> str:
    r"""The complete characters of the bytes, and the other bytes in hexadecimal.

    >>> _partly_decoded(b" a\xec")
    '▁a<EC>'
    """
    text = data.decode(errors="surrogateescape")
    read = (f"<{ord(c) - 0xDC00:02X}>" if "\udc80" <= c <= "\udcff" else c for c in text)
    return "".join(read).replace(" ", "▁", data.startswith(b" "))


def row_index(shown: Sequence[Label], piece: int) -> int | None:
    """The row or column of a piece; None if it is not shown."""
    return next((row for row, label in enumerate(shown) if piece in label.pieces), None)
