"""Sample segmentations of a unigram language model (Kudo 2018, "Subword Regularization").

A segmentation x of a word is drawn with probability P(x)^alpha / sum of P(x')^alpha over all
segmentations x' (equation 9 with l = infinity), by forward filtering and backward sampling on the
lattice of the word:

    forward[v]   = logsumexp over edges (u, v) of forward[u] + alpha * score(u, v)
    p(u | v)     = exp(forward[u] + alpha * score(u, v) - forward[v])

The forward pass runs once for each distinct word, the backward sampling once for each occurrence.

W: distinct words, O: occurrences of them, n: characters of all words, N = n + W: nodes, E: edges,
G: nodes with incoming edges.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.errors import TokenizerError
from jumok.text.piece_trie import Ints, PieceTrie, Segmentations, WordBatch, unknown_ids
from jumok.text.sentencepiece_proto import ModelFile, PieceType

Floats = NDArray[np.float64]

_MAX_ALPHA = 100
_UNKNOWN_PENALTY = 10.0  # of an unknown character, below the lowest score: as in SentencePiece


class UnigramSampler:
    """Samples from all segmentations of a word by their probability to the power alpha."""

    def __init__(self, model: ModelFile, ids: Mapping[str, int]) -> None:
        """Use the scores of `model` for the pieces in `ids`."""
        self._trie = PieceTrie(ids)
        self._scores = np.array(model.scores)  # (V,) log-probabilities
        by_type = list(zip(model.scores, model.types, strict=True))
        self._scores[[t is PieceType.USER_DEFINED for _, t in by_type]] = 0.0
        lowest = min((score for score, t in by_type if t is PieceType.NORMAL), default=0.0)
        self._unknown_score = lowest - _UNKNOWN_PENALTY

    def check_alpha(self, alpha: float) -> None:
        """Raise InputError unless alpha is a possible exponent."""
        if not 0 <= alpha <= _MAX_ALPHA:
            raise TokenizerError(
                "text.unigram_alpha",
                "alpha must be from 0 (uniform) to {max_alpha} (the best segmentation) for a "
                "unigram vocabulary, got {alpha}; 0.1 is usual",
                max_alpha=_MAX_ALPHA,
                alpha=alpha,
            )

    def sample(
        self, words: WordBatch, occurrences: Ints, alpha: float, generator: np.random.Generator
    ) -> Segmentations:
        """Sample one segmentation for each occurrence (O,), an index of a word."""
        lattice = _build_lattice(words, self._trie)
        known = self._scores[np.maximum(lattice.ids, 0)]
        scores = np.where(lattice.ids < 0, self._unknown_score, known) * alpha  # (E,)
        cdf = _incoming_cdf(lattice, scores, _forward_filter(lattice, scores))
        return _sample_backward(lattice, cdf, occurrences, generator)


@dataclass(frozen=True)
class _Lattice:
    """The lattices of a batch of words: nodes are boundaries of characters, edges are pieces.

    A word of k characters has k + 1 nodes. Edges are sorted by depth, then by end: the edges into
    one node are a group, and all edges into a node precede those that start from it.
    """

    first_nodes: Ints  # (W,)
    last_nodes: Ints  # (W,)
    starts: Ints  # (E,) nodes
    ends: Ints  # (E,) nodes
    depths: Ints  # (E,) characters from the beginning of the word to the end of the edge
    ids: Ints  # (E,) of the pieces; negative for unknown characters

    @property
    def first_edges(self) -> Ints:
        """The first edge of each group (G,)."""
        return np.flatnonzero(np.diff(self.ends, prepend=-1))


def _build_lattice(words: WordBatch, trie: PieceTrie) -> _Lattice:
    """An edge for every piece at every position, and for characters that are no pieces."""
    word = np.repeat(np.arange(len(words.lengths)), words.lengths)  # (n,)
    offset = np.arange(len(words.codes)) - words.starts[word]  # (n,) within the word
    position, length, ids = trie.matches(words.codes, words.lengths[word] - offset)
    is_unknown = np.ones(len(words.codes), dtype=bool)
    is_unknown[position[length == 1]] = False
    (unknown,) = is_unknown.nonzero()
    position = np.concatenate((position, unknown))  # (E,)
    length = np.concatenate((length, np.ones_like(unknown)))  # (E,)
    ids = np.concatenate((ids, unknown_ids(words.codes[unknown])))  # (E,)
    depth = offset[position] + length  # (E,)
    start = position + word[position]  # (E,) each earlier word has one node more than characters
    n_nodes = len(words.codes) + len(words.lengths)
    order = np.argsort(depth * n_nodes + start + length)
    first_nodes = words.starts + np.arange(len(words.lengths))  # (W,)
    return _Lattice(
        first_nodes,
        first_nodes + words.lengths,
        start[order],
        (start + length)[order],
        depth[order],
        ids[order],
    )


def _forward_filter(lattice: _Lattice, scores: Floats) -> Floats:
    """The log of the summed weights of all paths from the first node of a word to each node (N,).

    `scores` (E,) are multiplied by alpha. All nodes of one depth are computed at once.
    """
    first_edges, n_edges = lattice.first_edges, len(lattice.ends)
    forward = np.full(lattice.last_nodes[-1] + 1, -np.inf)
    forward[lattice.first_nodes] = 0.0
    depths = lattice.depths[first_edges]  # (G,)
    borders = np.searchsorted(depths, np.arange(1, depths[-1] + 2))  # groups of each depth
    for low, high in itertools.pairwise(borders):
        begin, end = first_edges[low], first_edges[high] if high < len(first_edges) else n_edges
        weights = forward[lattice.starts[begin:end]] + scores[begin:end]
        nodes = lattice.ends[first_edges[low:high]]
        forward[nodes] = np.logaddexp.reduceat(weights, first_edges[low:high] - begin)
    return forward


def _incoming_cdf(lattice: _Lattice, scores: Floats, forward: Floats) -> Floats:
    """The cumulative distribution of p(u | v) over the edges into each node, plus its group (E,).

    The values of group g are from g to g + 1, so that they increase over all edges, and one binary
    search draws an edge for many nodes at once.
    """
    first_edges, n_edges = lattice.first_edges, len(lattice.ends)
    group = np.repeat(np.arange(len(first_edges)), np.diff(first_edges, append=n_edges))  # (E,)
    cumulative = np.cumsum(np.exp(forward[lattice.starts] + scores - forward[lattice.ends]))
    before = np.concatenate(([0.0], cumulative))[first_edges]  # (G,)
    last_edges = np.append(first_edges[1:], n_edges) - 1  # (G,)
    total = cumulative[last_edges] - before  # (G,) 1 but for rounding
    return np.asarray(group + (cumulative - before[group]) / total[group])


def _sample_backward(
    lattice: _Lattice, cdf: Floats, occurrences: Ints, generator: np.random.Generator
) -> Segmentations:
    """Draw edges from the last node of each occurrence (O,) back to the first one."""
    first_edges = lattice.first_edges
    last_edges = np.append(first_edges[1:], len(lattice.ends)) - 1  # (G,)
    group_of_node = np.zeros(lattice.last_nodes[-1] + 1, dtype=np.int64)
    group_of_node[lattice.ends[first_edges]] = np.arange(len(first_edges))
    unfinished = np.arange(len(occurrences))
    node = lattice.last_nodes[occurrences]
    steps: list[tuple[Ints, Ints]] = []
    while len(unfinished):
        group = group_of_node[node]
        edge = np.searchsorted(cdf, group + generator.random(len(group)), side="right")
        edge = np.clip(edge, first_edges[group], last_edges[group])  # against rounding
        steps.append((unfinished, lattice.ids[edge]))
        node = lattice.starts[edge]
        continues = node != lattice.first_nodes[occurrences[unfinished]]
        unfinished, node = unfinished[continues], node[continues]
    return Segmentations.from_backward_steps(steps, len(occurrences))
