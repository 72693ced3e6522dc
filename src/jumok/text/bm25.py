"""BM25 over character bigrams, which finds Korean words with any particle or ending.

The bigrams are those within the words of a text, in lower case, with the blanks before and after
each word: "비가" has " 비", "비가" and "가 ". As whole words 비가, 비는 and 비도 share nothing.

Shapes: n texts, C characters, E pairs of a text and one of its bigrams, V bigrams.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

K1, B = 1.2, 0.75  # Robertson and Zaragoza (2009), section 3.4
Ids = NDArray[np.int64]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class BigramIndex:
    """The weight of each bigram in each text, by bigrams.

    >>> index = BigramIndex.build(["비가 와요", "배가 고파요", "눈이 와요"])
    >>> index.scores("비는 안 와요").argmax()
    np.int64(0)
    """

    n_texts: int
    characters: NDArray[np.uint32]  # sorted
    bigrams: Ids  # (V), sorted
    starts: Ids  # (V + 1) of the bigrams' entries
    texts: NDArray[np.int32]  # (E)
    weights: Scores  # (E)

    @classmethod
    def build(cls, texts: Sequence[str]) -> "BigramIndex":
        """The index of texts, with time and memory in proportion to their characters."""
        written = [_written(text) for text in texts]
        codes = np.frombuffer("".join(written).encode("utf-32-le", "surrogatepass"), np.uint32)
        characters, ids = np.unique(codes, return_inverse=True)  # (C)
        lengths = np.array([len(text) for text in written], np.int64)
        owner = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)  # (C)
        found = _bigrams(ids, len(characters))
        within = owner[:-1] == owner[1:]
        found, owner = found[within], owner[:-1][within]
        n_bigrams = np.bincount(owner, minlength=len(texts))
        bigrams, ids = np.unique(found, return_inverse=True)
        entries, counts = np.unique(ids * max(len(texts), 1) + owner, return_counts=True)  # (E)
        of_bigram, of_text = np.divmod(entries, max(len(texts), 1))
        found_in = np.bincount(of_bigram, minlength=len(bigrams))
        idf = _idf(len(texts), found_in)
        mean = max(float(n_bigrams.mean()), 1.0) if len(texts) else 1.0
        saturation = K1 * (1 - B + B * n_bigrams[of_text] / mean)
        weights = idf[of_bigram] * counts * (K1 + 1) / (counts + saturation)
        starts = np.concatenate([[0], np.cumsum(found_in)])
        return cls(
            len(texts),
            characters,
            bigrams,
            starts,
            of_text.astype(np.int32),
            weights.astype(np.float32),
        )

    def scores(self, query: str) -> Scores:
        """The score of each text for a query, (n,); 0 for a text without any of its bigrams.

        Equation 3.15 of Robertson and Zaragoza (2009), with idf log(1 + (n - df + 0.5) / (df +
        0.5)). A bigram that is twice in the query counts twice.
        """
        total: Scores = np.zeros(self.n_texts, np.float32)
        found = self._found(query)
        for bigram, times in zip(*np.unique(found[found >= 0], return_counts=True), strict=True):
            entries = slice(self.starts[bigram], self.starts[bigram + 1])
            total[self.texts[entries]] += np.float32(times) * self.weights[entries]
        return total

    def coverage(self, query: str) -> Scores:
        """The scores relative to that of the query itself as a text of mean length: (n,), 0 to 1.

        >>> index = BigramIndex.build(["비가 와요", "배가 고파요"])
        >>> [f"{part:.2f}" for part in index.coverage("비가 와요")]
        ['1.00', '0.11']
        """
        found = self._found(query)
        df = np.append(np.diff(self.starts), 0)[found]  # the last: of a bigram that no text has
        idf = _idf(self.n_texts, df)
        _, first, times = np.unique(
            _bigrams_of(_written(query)), return_index=True, return_counts=True
        )
        highest = float((idf[first] * times**2 * (K1 + 1) / (times + K1)).sum())
        part: Scores = self.scores(query) / np.float32(max(highest, 1e-9))
        return np.minimum(part, np.float32(1))

    def _found(self, query: str) -> Ids:
        """The number of each bigram of a query, in order; -1 for one that no text has."""
        codes = np.frombuffer(_written(query).encode("utf-32-le", "surrogatepass"), np.uint32)
        ids = _positions(self.characters, codes)
        found = _positions(self.bigrams, _bigrams(ids, len(self.characters)))
        return np.where((ids[:-1] >= 0) & (ids[1:] >= 0), found, -1)


def _idf(n_texts: int, found_in: NDArray[Any]) -> NDArray[np.float64]:
    """The weight of bigrams by the number of texts that have them."""
    found: NDArray[np.float64] = np.log1p((n_texts - found_in + 0.5) / (found_in + 0.5))
    return found


def _bigrams_of(text: str) -> Ids:
    """A number for each pair of adjacent characters of any text."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return _bigrams(codes, sys.maxunicode + 1)


def _written(text: str) -> str:
    """The words of a text in lower case, with a blank before and after each."""
    return f" {' '.join(text.lower().split())} "


def _bigrams(ids: NDArray[Any], n_characters: int) -> Ids:
    """A number for each pair of adjacent characters."""
    found: Ids = ids[:-1].astype(np.int64) * n_characters + ids[1:]
    return found


def _positions(known: NDArray[Any], wanted: NDArray[Any]) -> Ids:
    """The index of each value in a sorted array, -1 for one that it lacks."""
    if not len(known):
        return np.full(len(wanted), -1)
    found = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[found] == wanted, found, -1)
