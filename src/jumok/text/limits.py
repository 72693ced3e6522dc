"""The longest text that is tokenized, so that the memory of a request is bounded.

MAX_TEXT_BYTES is also the longest line of a file of rows: a book of 350,000 syllables.
SentencePiece needs about 30 times the bytes of a text, the tokenizers library 320 times (it keeps
every piece with its position and its word); texts of imported tokenizers are limited to an eighth.
"""

from collections.abc import Iterable

from jumok.errors import TokenizerError

MAX_TEXT_BYTES = 2**20  # in UTF-8
MAX_PRETRAINED_TEXT_BYTES = 2**17  # for imported tokenizers
MAX_PIECES = 2_000_000  # 901,629 in XLM-V, the largest known vocabulary
MAX_PIECE_CHARS = 1_000  # known vocabularies have pieces of up to 128 spaces


def check_text_length(text: str, max_bytes: int = MAX_TEXT_BYTES) -> None:
    """Raises InputError for a text of more than `max_bytes`.

    >>> check_text_length("가" * 349_525)
    >>> check_text_length("가" * 349_526)
    Traceback (most recent call last):
        ...
    jumok.errors.TokenizerError: a text must have at most 1,048,576 bytes, got 1,048,578; split it
    """
    if 4 * len(text) <= max_bytes:
        return
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise TokenizerError(
            "text.too_long",
            "a text must have at most {max_bytes:,} bytes, got {size:,}; split it",
            max_bytes=max_bytes,
            size=size,
        )


def check_pieces(pieces: Iterable[str]) -> None:
    """Raises InputError for too many pieces, or one that is too long.

    The time to encode a text, and the length of a decoded one, are proportional to the longest.

    >>> check_pieces(["이", " " * 128])
    """
    pieces = list(pieces)
    if len(pieces) > MAX_PIECES:
        raise TokenizerError(
            "text.too_many_pieces",
            "a vocabulary must have at most {max_pieces:,} pieces, got {n_pieces:,}; use another "
            "one",
            max_pieces=MAX_PIECES,
            n_pieces=len(pieces),
        )
    longest = max(pieces, key=len, default="")
    if len(longest) > MAX_PIECE_CHARS:
        raise TokenizerError(
            "text.piece_too_long",
            "a piece must have at most {max_piece_chars:,} characters, got {n_longest:,} in "
            "{longest!r}...; use another vocabulary",
            max_piece_chars=MAX_PIECE_CHARS,
            n_longest=len(longest),
            longest=longest[:20],
        )
