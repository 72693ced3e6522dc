"""What each token writes, in bytes: the first of a text, or a later one.

A vocabulary of pieces drops the space before the first word, so that a token may write less when
it comes first. And a token may write a part of a character: one byte of it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jumok.decoding.constraints.automaton import DEAD, Automaton
from jumok.errors import InputError
from jumok.text.byte_pieces import piece_bytes
from jumok.text.tokenizer import Tokenizer, piece_or_empty

_BYTE = re.compile("<0x([0-9A-F]{2})>")
_HALF = "\ufffd"  # what bytes are decoded to that are no whole character

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TokenBytes:
    """The bytes that each token writes; b"" for one that writes nothing, such as [PAD].

    With `strips` a token is still the first when those before it wrote nothing.
    """

    initial: tuple[bytes, ...]  # (V,): at the beginning of a text
    medial: tuple[bytes, ...]  # (V,): behind other tokens
    strips_space: bool = False

    def __len__(self) -> int:
        return len(self.medial)

    def after_text(self) -> "TokenBytes":
        """The same tokens when there is always text before them, a prompt: none comes first."""
        return TokenBytes(self.medial, self.medial)

    @cached_property
    def spaces(self) -> tuple[int, ...]:
        """The tokens that write something, but nothing when they come first: spaces."""
        both = enumerate(zip(self.initial, self.medial, strict=True))
        return tuple(token for token, (first, later) in both if later and not first)

    @cached_property
    def initial_trie(self) -> "TokenTrie":
        """The tokens that may come first."""
        return TokenTrie(self.initial)

    @cached_property
    def medial_trie(self) -> "TokenTrie":
        """The tokens that may come later."""
        return self.initial_trie if self.initial == self.medial else TokenTrie(self.medial)

    def shortest_tokens(self, data: bytes) -> list[int] | None:
        """As few tokens as write these bytes behind a text; None: nothing writes them.

        >>> spelling = TokenBytes((), (b"a", b"b", b"ab", b" ab"))
        >>> spelling.fewest(b"abab ab"), spelling.fewest(b"abab b")
        ([2, 2, 3], None)
        """
        tokens = {written: id for id, written in enumerate(self.medial) if written}  # noqa: A001
        longest = max(map(len, tokens), default=0)
        ways: list[list[int] | None] = [[], *[None] * len(data)]  # of the last n bytes
        for n in range(1, len(data) + 1):
            begin = len(data) - n
            for size in range(1, min(longest, n) + 1):
                token, rest = tokens.get(data[begin : begin + size]), ways[n - size]
                best = ways[n]
                if (
                    token is not None
                    and rest is not None
                    and (best is None or len(rest) < len(best))
                ):
                    ways[n] = [token, *rest]
        return ways[-1]

    def can_spell(self, text: str) -> bool:
        """Whether some tokens write this very text.

        >>> spelling = TokenBytes((b"a", b"bc"), (b"a", b"bc"))
        >>> spelling.writes("abca"), spelling.writes("ab")
        (True, False)
        """
        data = text.encode()
        heads, tails = set(self.initial), set(self.medial)
        if self.spaces and not self.strips_space:
            heads |= tails
        longest = max(map(len, heads | tails), default=0)
        reached = {0}
        for start in range(len(data)):
            if start in reached:
                pieces = tails if start else heads
                ends = range(start + 1, min(start + longest, len(data)) + 1)
                reached.update(end for end in ends if data[start:end] in pieces)
        return len(data) in reached


def read_token_bytes(vocabulary: Tokenizer) -> TokenBytes:
    """Ask a vocabulary what each of its tokens writes, alone and behind another.

    >>> from jumok.text import SentencePieceTokenizer, VocabularyConfig
    >>> vocabulary = SentencePieceTokenizer.train(["가 나 가"], VocabularyConfig(size=18))
    >>> spelling, space = read_token_bytes(vocabulary), vocabulary.id("▁")
    >>> spelling.first[space], spelling.later[space]
    (b'', b' ')
    """
    tokens = range(len(vocabulary))
    alone = vocabulary.decode_batch([[token] for token in tokens])
    bytes_ = {
        token: written
        for token in tokens
        if (written := _bytes_of(piece_or_empty(vocabulary, token), alone[token])) is not None
    }
    anchors = [token for token in tokens if alone[token].strip() and token not in bytes_]
    if not anchors:
        raise InputError("no piece of the vocabulary is a text; give one that holds characters")
    both = vocabulary.decode_batch([[anchors[0], token] for token in tokens])
    behind = [text.removeprefix(alone[anchors[0]]) for text in both]
    spelling = TokenBytes(
        initial=tuple(bytes_.get(token, alone[token].encode()) for token in tokens),
        medial=tuple(bytes_.get(token, behind[token].encode()) for token in tokens),
    )
    space = spelling.spaces[:1]
    strips = bool(space) and not vocabulary.decode(space * 2)
    return TokenBytes(spelling.initial, spelling.medial, strips)


def _bytes_of(piece: str, alone: str) -> bytes | None:
    r"""What a piece writes that may be a part of a character; None for one that is a text.

    "<0x41>" is one byte, unless the vocabulary shows it as it stands: then it is a text. The pieces
    of byte-level BPE (Radford et al. 2019) have a letter for each byte.

    >>> _bytes_of("<0xEA>", "\ufffd"), _bytes_of("Ġê°", " \ufffd"), _bytes_of("가", "가")
    (b'\xea', b' \xea\xb0', None)
    """
    if (found := _BYTE.fullmatch(piece)) and alone != piece:
        return bytes.fromhex(found[1])
    return piece_bytes(piece) if _HALF in alone and _HALF not in piece else None


class TokenTrie:
    """The tokens by what they write, byte after byte, to be walked beside an automaton.

    Nodes are numbered level by level, so that the children of a node stand side by side, and all
    branches of all walks go down one level in a few operations on arrays.
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
        self._tokens = order[ends[order] > 0]  # without those that write nothing
        self._ending = np.bincount(ends[ends > 0], minlength=len(prefixes))
        self._first_ending = self._ending.cumsum() - self._ending

    def walk(
        self, machine: Automaton, states: NDArray[np.int32]
    ) -> tuple[Integers, Integers, NDArray[np.int32]]:
        """Every token that can be written from each of the states (n,), and where it leads.

        Three arrays (moves,): the place in `states` one comes from, the token, the state after it.

        >>> from jumok.decoding.constraints.automaton import START, automaton, literal
        >>> machine = automaton(literal("ab"))
        >>> trie = TokenTrie([b"a", b"b", b"ab", b"abc"])
        >>> trie.walk(machine, np.array([START], dtype=np.int32))[1]
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
            states = machine.step(states.repeat(children), self._bytes[nodes])
            alive = states != DEAD
            origins, nodes, states = origins.repeat(children)[alive], nodes[alive], states[alive]
        return (
            np.concatenate([origin for origin, _, _ in moves]),
            np.concatenate([token for _, token, _ in moves]),
            np.concatenate([after for _, _, after in moves]),
        )


def _runs(starts: Integers, lengths: Integers) -> Integers:
    """Numbers in a row from each start on: [5, 9], [2, 3] -> [5, 6, 9, 10, 11]."""
    within = np.arange(lengths.sum()) - (lengths.cumsum() - lengths).repeat(lengths)
    return starts.repeat(lengths) + within
