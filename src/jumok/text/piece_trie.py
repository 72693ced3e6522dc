"""Find all pieces of a vocabulary in a batch of words at once.

W: words, n: characters of all words, M: matches.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class WordBatch:
    """Concatenated words: `codes` (n,) are code points, `lengths` (W,) the characters of each word.

    >>> words = WordBatch.of(["가나", "다"])
    >>> words.codes.tolist(), words.lengths.tolist(), words.starts.tolist()
    ([44032, 45208, 45796], [2, 1], [0, 2])
    """

    codes: Ints
    lengths: Ints

    @classmethod
    def of(cls, words: Iterable[str]) -> "WordBatch":
        """The batch of these words, which may contain lone surrogates."""
        rows = list(words)
        text = "".join(rows).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(text, dtype="<u4").astype(np.int64)
        return cls(codes, np.array([len(row) for row in rows], dtype=np.int64))

    @property
    def starts(self) -> Ints:
        """The index of the first character of each word (W,)."""
        return np.cumsum(self.lengths) - self.lengths


@dataclass(frozen=True)
class Segmentations:
    """The pieces of W words: concatenated `ids` in order, and the number of each word, `counts`.

    A character that is in no piece has the negative id of `unknown_ids`.
    """

    ids: Ints
    counts: Ints

    @classmethod
    def from_backward_steps(
        cls, steps: Sequence[tuple[Ints, Ints]], n_words: int
    ) -> "Segmentations":
        """Reverse pieces that were sampled from the last to the first.

        Each step has the indices of the words that are not at their beginning yet, and the id of
        one piece for each.

        >>> steps = [(np.array([0, 1]), np.array([5, 7])), (np.array([0]), np.array([4]))]
        >>> Segmentations.from_backward_steps(steps, 2).ids.tolist()
        [4, 5, 7]
        """
        counts = np.zeros(n_words, dtype=np.int64)
        for words, _ in steps:
            counts[words] += 1
        ends = np.cumsum(counts)
        ids = np.empty(counts.sum(), dtype=np.int64)
        for step, (words, pieces) in enumerate(steps):
            ids[ends[words] - 1 - step] = pieces
        return cls(ids, counts)


def unknown_ids(codes: Ints) -> Ints:
    """The negative ids that represent unknown characters: -1 minus the code point."""
    return -1 - codes


class PieceTrie:
    """A trie of pieces, stored as a sorted table of (node, character) keys and their children."""

    def __init__(self, ids: Mapping[str, int]) -> None:
        """Build the trie of the pieces in `ids`."""
        characters = sorted({ord(character) for piece in ids for character in piece})
        self._character_index = np.zeros(0x110000, dtype=np.int64)  # 0: in no piece
        self._character_index[characters] = np.arange(1, len(characters) + 1)
        self._n_characters = len(characters) + 1
        self._max_length = max(map(len, ids), default=0)
        children: dict[int, int] = {}
        id_of_node = [-1]  # -1: no piece ends here
        for piece, piece_id in ids.items():
            node = 0
            for character in piece:
                key = node * self._n_characters + int(self._character_index[ord(character)])
                node = children.setdefault(key, len(id_of_node))
                if node == len(id_of_node):
                    id_of_node.append(-1)
            id_of_node[node] = piece_id
        self._keys = np.array(sorted(children), dtype=np.int64)
        self._children = np.array([children[key] for key in sorted(children)], dtype=np.int64)
        self._ids = np.array(id_of_node)

    def matches(self, codes: Ints, max_lengths: Ints) -> tuple[Ints, Ints, Ints]:
        """The start, the length and the id of every piece in the text `codes` (n,): (M,) each.

        A piece that starts at character i has at most `max_lengths[i]` characters. Matches are
        sorted by length, then by start.

        >>> trie = PieceTrie({"가": 3, "가나": 4})
        >>> [part.tolist() for part in trie.matches(WordBatch.of(["가나"]).codes, np.array([2, 1]))]
        [[0, 0], [1, 2], [3, 4]]
        """
        characters = self._character_index[codes]
        start, node = np.arange(len(codes)), np.zeros(len(codes), dtype=np.int64)
        found: list[tuple[Ints, Ints, Ints]] = []
        for depth in range(self._max_length):
            inside = max_lengths[start] > depth
            start, node = start[inside], node[inside]
            key = node * self._n_characters + characters[start + depth]
            row = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
            has_child = self._keys[row] == key
            start, node = start[has_child], self._children[row[has_child]]
            (hits,) = (self._ids[node] >= 0).nonzero()
            found.append((start[hits], np.full(len(hits), depth + 1), self._ids[node[hits]]))
        if not found:
            return start[:0], start[:0], start[:0]
        starts, lengths, ids = zip(*found, strict=True)
        return np.concatenate(starts), np.concatenate(lengths), np.concatenate(ids)
