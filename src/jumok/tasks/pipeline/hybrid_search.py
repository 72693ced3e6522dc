"""Search by words and by meaning: BM25 and the cosines of vectors, joined by their ranks.

Shapes: n lines, D model width, k results.
"""

from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jumok.config_io import check_choice
from jumok.tasks.pipeline.vector_index import Match, VectorIndex, Vectors, best_matches
from jumok.text.bm25 import BigramIndex

SearchMethod = Literal["hybrid", "vectors", "bm25"]
RANK_OFFSET = 5  # chosen on dev queries, among 5 lines to 20,000: docs/LOG.md, "few lines"


class HybridIndex:
    """The lines of a file, found by one of the search methods or by both.

    >>> index = VectorIndex(["강아지가 짖는다", "고양이가 운다"], np.eye(2, dtype=np.float32))
    >>> found = HybridIndex(index).search("강아지는 왜 짖나", np.array([0.8, 0.6], np.float32), 1)
    >>> found[0].line, round(found[0].score, 4)
    (1, 0.2)
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

        The score is the cosine, BM25, or for "hybrid" the sum of 1 / (5 + rank) by the cosine and
        of the same by BM25 times `BigramIndex.coverage`, at most 0.3333: reciprocal rank fusion
        (Cormack et al. 2009), where a rank by words counts as far as the words of the query are
        there. Lines of equal score come in the order of the file, and blank ones, or ones that
        share no bigram for "bm25", never. Raises InputError for another method.
        """
        check_choice("method", method, SearchMethod)
        if method == "vectors":
            return self._vectors.search(query, k)
        bm25 = np.where(scores := self._bigrams.scores(text), scores, -np.inf)
        if method == "bm25":
            return best_matches(self.texts, bm25, k)
        cosines = self._vectors.scores(query)
        return best_matches(self.texts, fused(cosines, bm25, self._bigrams.coverage(text)), k)


def fused(
    cosines: NDArray[np.float32], bm25: NDArray[np.float32], coverage: NDArray[np.float32]
) -> NDArray[np.float64]:
    """The reciprocal ranks of each line by its cosine, and by BM25 times the coverage: (n,).

    A BM25 of -inf has no rank.

    >>> bm25, coverage = np.array([-np.inf, 3.0]), np.array([0.0, 0.1])
    >>> fused(np.array([0.9, 0.5]), bm25, coverage).round(4).tolist()
    [0.1667, 0.1595]
    """
    return _reciprocal_ranks(cosines) + coverage * _reciprocal_ranks(bm25)


def _reciprocal_ranks(scores: NDArray[np.float32]) -> NDArray[np.float64]:
    found = np.empty(len(scores))
    found[np.argsort(-scores, kind="stable")] = 1 / (RANK_OFFSET + 1 + np.arange(len(scores)))
    found[np.isneginf(scores)] = 0
    return found
