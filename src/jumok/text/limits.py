"""The longest text that is tokenized, so that the memory of a request is bounded.

MAX_TEXT_BYTES is also the longest line of a file of rows: a book of 350,000 syllables.
SentencePiece needs about 30 times the bytes of a text, the tokenizers library 320 times (it keeps
every piece with its position and its word); texts of imported tokenizers are limited to an eighth.
"""

from jumok.errors import InputError

MAX_TEXT_BYTES = 2**20  # in UTF-8
MAX_PRETRAINED_TEXT_BYTES = 2**17  # for imported tokenizers


def check_text_length(text: str, max_bytes: int = MAX_TEXT_BYTES) -> None:
    """Raises InputError for a text of more than `max_bytes`.

    >>> check_text_length("가" * 349_525)
    >>> check_text_length("가" * 349_526)
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: a text must have at most 1,048,576 bytes, got 1,048,578; split it
    """
    if 4 * len(text) <= max_bytes:
        return
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise InputError(f"a text must have at most {max_bytes:,} bytes, got {size:,}; split it")
