"""The bytes that each token decodes to, at the start of a text and after other tokens.

A SentencePiece vocabulary drops the space before the first word, so a token may have fewer bytes at
the start. A token may also be a part of a character: one of its UTF-8 bytes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jumok.decoding.constraints.automaton import DEAD, Automaton
from jumok.errors import DecodingError
from jumok.text.byte_pieces import piece_bytes
from jumok.text.tokenizer import Tokenizer, piece_or_empty

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_REPLACEMENT = "\ufffd"  # the decoding of bytes that are not a whole character
MAX_SPELLINGS = 10_000  # of one word
MAX_WORD_BYTES = 300  # a hundred syllables

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TokenBytes:
    """The bytes of each token; b"" for one without text, such as [PAD].

    With `strips_space` a token after spaces only is still at the start of the text.
    """

    initial: tuple[bytes, ...]  # (V,): at the start of a text
    medial: tuple[bytes, ...]  # (V,): after other tokens
    strips_space: bool = False

    def __len__(self) -> int:
        return len(self.medial)

    def after_text(self) -> "TokenBytes":
        """These tokens after a prompt: none is at the start of the text."""
        return TokenBytes(self.medial, self.medial)

    @cached_property
    def spaces(self) -> tuple[int, ...]:
        """The tokens that have no bytes at the start of a text only: spaces."""
        both = enumerate(zip(self.initial, self.medial, strict=True))
        return tuple(token for token, (initial, medial) in both if medial and not initial)

    @cached_property
    def initial_trie(self) -> "TokenTrie":
        """The tokens at the start of a text."""
        return TokenTrie(self.initial)

    @cached_property
    def medial_trie(self) -> "TokenTrie":
        """The tokens after other tokens."""
        return self.initial_trie if self.initial == self.medial else TokenTrie(self.medial)

    def shortest_tokens(self, data: bytes) -> list[int] | None:
        """The smallest number of tokens with these bytes, after a text; None if there are none.

        >>> token_bytes = TokenBytes((), (b"a", b"b", b"ab", b" ab"))
        >>> token_bytes.shortest_tokens(b"abab ab"), token_bytes.shortest_tokens(b"abab b")
        ([2, 2, 3], None)
        """
        tokens = {data: id for id, data in enumerate(self.medial) if data}  # noqa: A001
        longest = max(map(len, tokens), default=0)
        shortest: list[list[int] | None] = [[], *[None] * len(data)]  # of the last n bytes
        for n in range(1, len(data) + 1):
            start = len(data) - n
            for size in range(1, min(longest, n) + 1):
                token, rest = tokens.get(data[start : start + size]), shortest[n - size]
                best = shortest[n]
                if (
                    token is not None
                    and rest is not None
                    and (best is None or len(rest) < len(best))
                ):
                    shortest[n] = [token, *rest]
        return shortest[-1]

    def can_spell(self, text: str) -> bool:
        """Whether a sequence of tokens decodes to exactly this text.

        >>> token_bytes = TokenBytes((b"a", b"bc"), (b"a", b"bc"))
        >>> token_bytes.can_spell("abca"), token_bytes.can_spell("ab")
        (True, False)
        """
        data = text.encode()
        initial, medial = set(self.initial), set(self.medial)
        if self.spaces and not self.strips_space:
            initial |= medial
        longest = max(map(len, initial | medial), default=0)
        reached = {0}
        for start in range(len(data)):
            if start in reached:
                pieces = medial if start else initial
                ends = range(start + 1, min(start + longest, len(data)) + 1)
                reached.update(end for end in ends if data[start:end] in pieces)
        return len(data) in reached


def read_token_bytes(tokenizer: Tokenizer) -> TokenBytes:
    """The bytes of every token, from decoding it alone and after another token.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> tokenizer = SentencePieceTokenizer.train(["가 나 가"], VocabularyConfig(size=18))
    >>> token_bytes, space = read_token_bytes(tokenizer), tokenizer.id("▁")
    >>> token_bytes.initial[space], token_bytes.medial[space]
    (b'', b' ')

    Raises InputError for a vocabulary of which no piece decodes to text.
    """
    tokens = range(len(tokenizer))
    initial = tokenizer.decode_batch([[token] for token in tokens])
    raw = {
        token: data
        for token in tokens
        if (data := _raw_bytes(piece_or_empty(tokenizer, token), initial[token])) is not None
    }
    anchors = [token for token in tokens if initial[token].strip() and token not in raw]
    if not anchors:
        raise DecodingError(
            "constraint.no_text_pieces",
            "the vocabulary must have a piece that decodes to text, got none",
        )
    both = tokenizer.decode_batch([[anchors[0], token] for token in tokens])
    medial = [text.removeprefix(initial[anchors[0]]) for text in both]
    found = TokenBytes(
        initial=tuple(raw.get(token, initial[token].encode()) for token in tokens),
        medial=tuple(raw.get(token, medial[token].encode()) for token in tokens),
    )
    space = found.spaces[:1]
    strips_space = bool(space) and not tokenizer.decode(space * 2)
    return TokenBytes(found.initial, found.medial, strips_space)


def all_spellings(word: str, token_bytes: TokenBytes) -> list[tuple[int, ...]]:
    """Every token sequence that decodes to `word`, with and without the space before it.

    A single token with more text than the word ("영화관" for "영화") is another word. Raises
    InputError for a word without a spelling, with more than 10,000, or of more than 300 bytes.

    >>> abc = TokenBytes(initial=(b"a", b"b", b"ab", b"ab"), medial=(b"a", b"b", b"ab", b" ab"))
    >>> all_spellings("ab", abc)
    [(0, 1), (2,), (3,)]
    """
    n_bytes = len(word.encode())
    if n_bytes > MAX_WORD_BYTES:
        raise DecodingError(
            "constraint.word_too_long",
            "a word must have at most {max_word_bytes} bytes, got {n_bytes} ({word!r}...)",
            max_word_bytes=MAX_WORD_BYTES,
            n_bytes=n_bytes,
            word=word[:20],
        )
    tokens: dict[bytes, list[int]] = {}
    for id, data in enumerate(token_bytes.medial):  # noqa: A001  the field's word
        if data:
            tokens.setdefault(data, []).append(id)

    def split(rest: bytes) -> Iterator[tuple[int, ...]]:
        if not rest:
            yield ()
        for end in range(1, len(rest) + 1):
            for id in tokens.get(rest[:end], ()):  # noqa: A001
                for following in split(rest[end:]):
                    yield (id, *following)

    found: list[tuple[int, ...]] = []
    after_text = token_bytes.after_text()
    for text in (word, f" {word}"):
        for spelling in split(text.encode()) if after_text.can_spell(text) else ():
            found.append(spelling)
            if len(found) > MAX_SPELLINGS:
                raise DecodingError(
                    "constraint.too_many_tokenizations",
                    "{word!r} must have at most {max_spellings:,} tokenizations, got more; try a "
                    "shorter word",
                    word=word,
                    max_spellings=MAX_SPELLINGS,
                )
    if not word or not found:
        raise DecodingError(
            "constraint.vocabulary_cannot_spell",
            "the vocabulary cannot spell {word!r}; leave it out",
            word=word,
        )
    return sorted(set(found))


def _raw_bytes(piece: str, decoded: str) -> bytes | None:
    r"""The bytes of a piece that may be a part of a character; None for one that is text.

    "<0x41>" is one byte, unless the vocabulary decodes it to "<0x41>". The pieces of byte-level BPE
    (Radford et al. 2019) have a letter for each byte.

    >>> _raw_bytes("<0xEA>", "\ufffd"), _raw_bytes("Ġê°", " \ufffd"), _raw_bytes("가", "가")
    (b'\xea', b' \xea\xb0', None)
    """
    if (found := _BYTE.fullmatch(piece)) and decoded != piece:
        return bytes.fromhex(found[1])
    return piece_bytes(piece) if _REPLACEMENT in decoded and _REPLACEMENT not in piece else None


class TokenTrie:
    """A trie of the bytes of all tokens, to be traversed together with an automaton.

    Nodes are numbered level by level, so that the children of a node are adjacent, and all branches
    of all traversals go down one level in a few array operations.
    """

    def __init__(self, spellings: Sequence[bytes]) -> None:
        prefixes = sorted(
            {spelling[:n] for spelling in spellings for n in range(len(spelling) + 1)} | {b""},
            key=lambda prefix: (len(prefix), prefix),
        )
        numbers = {prefix: number for number, prefix in enumerate(prefixes)}
        self._bytes = np.array([0, *(prefix[-1] for prefix in prefixes[1:])], dtype=np.int32)
        parents = np.array([numbers[prefix[:-1]] for prefix in prefixes[1:]], dtype=np.int64)
        self._children = np.bincount(parents, minlength=len(prefixes))
        self._first_child = 1 + self._children.cumsum() - self._children
        ends = np.array([numbers[spelling] for spelling in spellings], dtype=np.int64)
        order = ends.argsort(kind="stable")
        self._tokens = order[ends[order] > 0]  # without those of no bytes
        self._ending = np.bincount(ends[ends > 0], minlength=len(prefixes))
        self._first_ending = self._ending.cumsum() - self._ending

    def walk(
        self, automaton: Automaton, states: NDArray[np.int32]
    ) -> tuple[Integers, Integers, NDArray[np.int32]]:
        """Every token that has a transition from one of the states (n,), and where it leads.

        Three arrays (transitions,): the index in `states`, the token, the state after it.

        >>> from jumok.decoding.constraints.automaton import START, compile_automaton, literal
        >>> automaton = compile_automaton(literal("ab"))
        >>> trie = TokenTrie([b"a", b"b", b"ab", b"abc"])
        >>> trie.walk(automaton, np.array([START], dtype=np.int32))[1]
        array([0, 2])
        """
        origins, nodes = np.arange(len(states)), np.zeros(len(states), dtype=np.int64)
        moves = []
        while len(nodes):
            ending = self._ending[nodes]
            tokens = self._tokens[_runs(self._first_ending[nodes], ending)]
            moves.append((origins.repeat(ending), tokens, states.repeat(ending)))
            children = self._children[nodes]
            nodes = _runs(self._first_child[nodes], children)
            states = automaton.step(states.repeat(children), self._bytes[nodes])
            alive = states != DEAD
            origins, nodes, states = origins.repeat(children)[alive], nodes[alive], states[alive]
        return (
            np.concatenate([origin for origin, _, _ in moves]),
            np.concatenate([token for _, token, _ in moves]),
            np.concatenate([after for _, _, after in moves]),
        )


def _runs(starts: Integers, lengths: Integers) -> Integers:
    """Consecutive numbers from each start: [5, 9], [2, 3] -> [5, 6, 9, 10, 11]."""
    within = np.arange(lengths.sum()) - (lengths.cumsum() - lengths).repeat(lengths)
    return starts.repeat(lengths) + within
