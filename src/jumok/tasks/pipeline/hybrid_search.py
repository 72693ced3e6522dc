"""Search by words and by meaning: BM25 and the cosines of vectors, joined by their ranks.

Shapes: n lines, D model width, k results.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.tasks.pipeline.vector_index import Match, VectorIndex, Vectors, best_matches
from jumok.text.bm25 import BigramIndex

SearchMethod = Literal["hybrid", "vectors", "bm25"]
RANK_OFFSET = 10  # chosen on the dev queries of benchmarks/search.py, among 10 and 60


class HybridIndex:
    """The lines of a file, found by one of the search methods or by both.

    >>> index = VectorIndex(["강아지가 짖는다", "고양이가 운다"], np.eye(2, dtype=np.float32))
    >>> found = HybridIndex(index).search("강아지는 왜 짖나", np.array([0.8, 0.6], np.float32), 1)
    >>> found[0].line, round(found[0].score, 4)
    (1, 0.1818)
    """

    def __init__(self, vectors: VectorIndex) -> None:
        self.texts, self._vectors = vectors.texts, vectors

    @cached_property
    def _bigrams(self) -> BigramIndex:
        return BigramIndex.build(self.texts)

    def search(
        self, text: str, query: Vectors, k: int = 10, method: SearchMethod = "hybrid"
    ) -> list[Match]:
        """The k best lines for a text whose vector is `query`, (D,), best first.

        The score is the cosine, BM25, or for "hybrid" the sum over both of 1 / (10 + rank)
        (reciprocal rank fusion, Cormack et al. 2009), at most 0.1818. Lines of equal score come in
        the order of the file, and blank ones, or ones that share no bigram for "bm25", never.
        Raises InputError for another method.
        """
        if method not in get_args(SearchMethod):
            raise InputError(
                "search.unknown_method",
                "method must be one of {known}, got {method!r:.40}",
                known=", ".join(get_args(SearchMethod)),
                method=method,
            )
        if method == "vectors":
            return self._vectors.search(query, k)
        bm25 = np.where(scores := self._bigrams.scores(text), scores, -np.inf)
        if method == "bm25":
            return best_matches(self.texts, bm25, k)
        return best_matches(self.texts, fused([self._vectors.scores(query), bm25]), k)


def fused(scores: Iterable[NDArray[np.float32]]) -> NDArray[np.float64]:
    """The sum of the reciprocal ranks of each line, (n,); -inf has no rank.

    >>> fused([np.array([0.9, 0.5]), np.array([-np.inf, 3.0])]).round(4).tolist()
    [0.0909, 0.1742]
    """
    total: NDArray[np.float64] = np.sum([_reciprocal_ranks(each) for each in scores], axis=0)
    return total


def _reciprocal_ranks(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    found = np.empty(len(scores))
    found[np.argsort(-scores, kind="stable")] = 1 / (RANK_OFFSET + 1 + np.arange(len(scores)))
    found[np.isneginf(scores)] = 0
    return found
