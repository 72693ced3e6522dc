"""The tokens of a word: every way a vocabulary can spell it, inside a text."""

from collections.abc import Iterator

from jumok.decoding.constraints.token_bytes import TokenBytes
from jumok.errors import InputError

MAX_SPELLINGS = 10_000  # spellings of one word
MAX_WORD_BYTES = 300  # bytes of one, a hundred syllables


def all_spellings(word: str, spelling: TokenBytes) -> list[tuple[int, ...]]:
    """Every sequence of tokens that writes `word`, with and without the space before it.

    A single token that writes more than the word ("영화관" for "영화") is another word. Raises
    InputError for a word without a spelling, with more than 10,000, or of more than 300 bytes.

    >>> abc = TokenBytes(first=(b"a", b"b", b"ab", b"ab"), later=(b"a", b"b", b"ab", b" ab"))
    >>> spellings("ab", abc)
    [(0, 1), (2,), (3,)]
    """
    if len(word.encode()) > MAX_WORD_BYTES:
        raise InputError(
            f"a word of {len(word.encode())} bytes came ({word[:20]!r}...); give {MAX_WORD_BYTES} or less"
        )
    tokens: dict[bytes, list[int]] = {}
    for id, written in enumerate(spelling.medial):  # noqa: A001  the field's word
        if written:
            tokens.setdefault(written, []).append(id)

    def ways(rest: bytes) -> Iterator[tuple[int, ...]]:
        if not rest:
            yield ()
        for end in range(1, len(rest) + 1):
            for id in tokens.get(rest[:end], ()):  # noqa: A001
                for way in ways(rest[end:]):
                    yield (id, *way)

    found: list[tuple[int, ...]] = []
    behind = spelling.after_text()
    for text in (word, f" {word}"):
        for way in ways(text.encode()) if behind.can_spell(text) else ():
            found.append(way)
            if len(found) > MAX_SPELLINGS:
                raise InputError(
                    f"{word!r} can be spelled in more than {MAX_SPELLINGS:,} ways; shorten it"
                )
    if not word or not found:
        raise InputError(f"the vocabulary cannot spell {word!r}; leave it out")
    return sorted(set(found))
