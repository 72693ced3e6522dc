"""How long a text may be that a model or a vocabulary is asked about.

As long as a line of a file of rows: a book of 350,000 syllables. What is read of it takes some 30
times its bytes in memory for a moment, and so the memory of an answer has a bound that can be told.
"""

from jumok.errors import InputError

MOST_BYTES = 2**20  # in UTF-8


def refuse_longer(text: str) -> None:
    """Raises InputError for a text of more than 1 MiB.

    >>> refuse_longer("가" * 349_525)
    >>> refuse_longer("가" * 349_526)
    Traceback (most recent call last):
        ...
    jumok.errors.InputError: a text of 1,048,578 bytes came, 1,048,576 are read; cut it into parts
    """
    if 4 * len(text) <= MOST_BYTES:
        return
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > MOST_BYTES:
        raise InputError(
            f"a text of {size:,} bytes came, {MOST_BYTES:,} are read; cut it into parts"
        )
