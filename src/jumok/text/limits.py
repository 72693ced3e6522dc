"""How long a text may be that a model or a vocabulary is asked about.

As long as a line of a file of rows: a book of 350,000 syllables. To cut it takes some 30 times its
bytes in memory for a moment, with the tokenisers of others 320 times (they remember every piece,
its place and its word), and so theirs are given an eighth: an answer's memory has a bound.
"""

from jumok.errors import InputError

MAX_TEXT_BYTES = 2**20  # in UTF-8
MAX_PRETRAINED_TEXT_BYTES = 2**17  # for an imported tokeniser


def check_text_length(text: str, max_bytes: int = MAX_TEXT_BYTES) -> None:
    """Raises InputError for a text of more than so many bytes.

    >>> check_length("가" * 349_525)
    >>> check_length("가" * 349_526)
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: a text of 1,048,578 bytes came, 1,048,576 are read; cut it into parts
    """
    if 4 * len(text) <= max_bytes:
        return
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise InputError(
            f"a text of {size:,} bytes came, {max_bytes:,} are read; cut it into parts"
        )
