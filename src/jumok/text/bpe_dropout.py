"""BPE-dropout (Provilkov et al. 2020, algorithm 1): random segmentations of a BPE vocabulary.

At every step each possible merge of a word is dropped with probability alpha, and the best of the
others is applied; a word without a merge that was not dropped is finished. All words take a step
at the same time.

W: distinct words, O: occurrences of them, n: symbols of all unfinished occurrences.
"""

from collections.abc import Mapping

import numpy as np

from jumok.errors import TokenizerError
from jumok.text.piece_trie import Ints, PieceTrie, Segmentations, WordBatch, unknown_ids
from jumok.text.sentencepiece_proto import ModelFile

_NO_MERGE = np.int64(-1)


class BPEDropout:
    """Merges the best pair of adjacent symbols repeatedly and drops some merges at every step."""

    def __init__(self, model: ModelFile, ids: Mapping[str, int]) -> None:
        """Build the table of merges: every piece that two pieces in `ids` make together."""
        self._vocabulary_size = len(model.pieces)
        merges = {
            ids[piece[:cut]] * self._vocabulary_size + ids[piece[cut:]]: merged
            for piece, merged in ids.items()
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        }
        self._pairs = np.array(sorted(merges), dtype=np.int64)  # left * vocabulary size + right
        self._merged = np.array([merges[pair] for pair in sorted(merges)], dtype=np.int64)
        self._scores = np.array(model.scores)  # (V,) minus the rank of the merge
        self._trie = PieceTrie({piece: i for piece, i in ids.items() if len(piece) == 1})

    def check_alpha(self, alpha: float) -> None:
        """Raise InputError unless alpha is a probability."""
        if not 0 <= alpha <= 1:
            raise TokenizerError(
                "text.bpe_alpha",
                "alpha must be from 0 (every merge) to 1 (characters) for a BPE vocabulary, got "
                "{alpha}; 0.1 is usual",
                alpha=alpha,
            )

    def sample(
        self, words: WordBatch, occurrences: Ints, alpha: float, generator: np.random.Generator
    ) -> Segmentations:
        """Sample one segmentation for each occurrence (O,), an index of a word."""
        symbols, word = self._initial_symbols(words, occurrences)  # (n,), (n,)
        merges = self._merges(symbols, word)  # (n,) of each symbol with the next one
        finished: list[tuple[Ints, Ints]] = []
        while len(word):
            kept = np.flatnonzero((merges >= 0) & (generator.random(len(word)) >= alpha))
            best = self._best_merges(kept, word, merges)  # (words that merge,)
            has_merge = np.zeros(word[-1] + 1, dtype=bool)
            has_merge[word[best]] = True
            remaining = has_merge[word]  # (n,)
            finished.append((word[~remaining], symbols[~remaining]))

            symbols[best] = merges[best]
            remaining[best + 1] = False  # the right symbol of each pair
            changed = np.zeros(len(word), dtype=bool)
            changed[best] = True
            changed[best[best > 0] - 1] = True  # whose right neighbour is another symbol now
            symbols, word, merges, changed = (
                each[remaining] for each in (symbols, word, merges, changed)
            )
            (positions,) = changed.nonzero()
            merges[positions] = self._merges(symbols, word, positions)
        owner = np.concatenate([words_ for words_, _ in finished])
        ids = np.concatenate([symbols_ for _, symbols_ in finished])
        return Segmentations(ids[np.argsort(owner, kind="stable")], np.bincount(owner))

    def _initial_symbols(self, words: WordBatch, occurrences: Ints) -> tuple[Ints, Ints]:
        """The ids of the characters of all occurrences (n,), and the occurrence of each (n,)."""
        characters = unknown_ids(words.codes)
        position, _, ids = self._trie.matches(words.codes, np.ones_like(words.codes))
        characters[position] = ids
        lengths = words.lengths[occurrences]  # (O,)
        offset = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        symbols = characters[np.repeat(words.starts[occurrences], lengths) + offset]
        return symbols, np.repeat(np.arange(len(occurrences)), lengths)

    def _merges(self, symbols: Ints, word: Ints, positions: Ints | None = None) -> Ints:
        """The piece that the symbol at each position makes with the next one of its word, or -1.

        `symbols` and `word` are (n,); None: all positions.
        """
        left = np.arange(len(symbols)) if positions is None else positions
        if not len(self._pairs):
            return np.full(len(left), _NO_MERGE)
        right = np.minimum(left + 1, len(symbols) - 1)
        possible = (left != right) & (word[left] == word[right])
        possible &= (symbols[left] >= 0) & (symbols[right] >= 0)
        pair = symbols[left] * self._vocabulary_size + symbols[right]
        row = np.minimum(np.searchsorted(self._pairs, pair), len(self._pairs) - 1)
        possible &= self._pairs[row] == pair
        return np.where(possible, self._merged[row], _NO_MERGE)

    def _best_merges(self, kept: Ints, word: Ints, merges: Ints) -> Ints:
        """The position of the merge with the highest score in each word, of equal ones the first.

        `kept` are the positions of the merges that were not dropped; a word without any has none.
        """
        if not len(kept):
            return kept
        score, owner = self._scores[merges[kept]], word[kept]
        first = np.flatnonzero(np.diff(owner, prepend=-1))  # of each word
        best = np.repeat(np.maximum.reduceat(score, first), np.diff(first, append=len(owner)))
        equal: Ints = kept[score == best]
        leftmost: Ints = equal[np.diff(word[equal], prepend=-1) != 0]
        return leftmost
