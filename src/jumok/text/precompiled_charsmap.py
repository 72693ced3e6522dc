"""The precompiled charsmap of SentencePiece, checked before a library reads its lengths.

It is a length N (4 bytes, little-endian), N bytes of a trie of replaced characters, and the
replacements, NUL-terminated UTF-8. The tokenizers library allocates N bytes, up to 4 GB, and reads
a replacement up to the next NUL: without NULs every replaced character becomes as long as the
table, which takes minutes or ends in abort().
"""

from jumok.errors import TokenizerError
from jumok.text.byte_pieces import is_utf8

MAX_EXPANSION = 1_000  # bytes that one character may become; 33 in SentencePiece's own tables


def max_expansion(charsmap: bytes) -> int:
    """The length in bytes of the longest replacement in a table, at least 1.

    Raises InputError for an invalid table or one with a replacement that is too long.

    >>> max_expansion(bytes([4, 0, 0, 0]) + bytes(4) + "각".encode())
    3
    """
    size = int.from_bytes(charsmap[:4], "little")
    texts = charsmap[4 + size :]
    if not size or size % 4 or len(charsmap) < 4 + size or not is_utf8(texts):
        raise TokenizerError(
            "text.bad_replacement_table",
            "the table of character replacements ({n_charsmap:,} bytes) is invalid; download the "
            "file again",
            n_charsmap=len(charsmap),
        )
    longest = max(map(len, texts.split(b"\0")))
    check_expansion(longest)
    return max(longest, 1)


def check_expansion(n_bytes: int) -> None:
    """Raises InputError if normalization may replace one character by so many bytes."""
    if n_bytes > MAX_EXPANSION:
        raise TokenizerError(
            "text.character_growth",
            "one character must become at most {max_expansion:,} bytes in normalization, got "
            "{n_bytes:,} bytes; download the file again",
            max_expansion=MAX_EXPANSION,
            n_bytes=n_bytes,
        )
