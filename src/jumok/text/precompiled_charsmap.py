"""SentencePiece's table of replaced characters, looked at before a library trusts its lengths.

The table is a length N (4 bytes, little-endian), N bytes of a trie that knows what is replaced, and
the replacements, texts of UTF-8 with a NUL after each. The tokenizers library sets aside whatever
memory N asks for, up to 4 GB, and takes everything up to the next NUL for one replacement: a table
without NULs makes a text as much longer as the table is, which ends in minutes or in abort().
"""

from jumok.errors import InputError

MAX_EXPANSION = 1_000  # bytes one character may become; SentencePiece's own tables make 33 at most


def max_expansion(charsmap: bytes) -> int:
    """The length in bytes of the longest replacement in a table, 1 at least.

    Raises InputError for what is no such table, or replaces a character by too long a text.

    >>> max_expansion(bytes([4, 0, 0, 0]) + bytes(4) + "각".encode())
    3
    """
    size = int.from_bytes(charsmap[:4], "little")
    texts = charsmap[4 + size :]
    if not size or size % 4 or len(charsmap) < 4 + size or not _is_utf8(texts):
        raise InputError(
            f"the table of character replacements ({len(charsmap):,} bytes) is none; "
            "get the file again from its source"
        )
    longest = max(map(len, texts.split(b"\0")))
    check_expansion(longest)
    return max(longest, 1)


def check_expansion(growth: int) -> None:
    """Raises InputError when a character may become so many bytes before a text is cut."""
    if growth > MAX_EXPANSION:
        raise InputError(
            f"one character may become {growth:,} bytes before a text is cut, at most "
            f"{MAX_EXPANSION:,} are allowed; get the file again from its source"
        )


def _is_utf8(texts: bytes) -> bool:
    try:
        texts.decode()
    except UnicodeDecodeError:
        return False
    return True
