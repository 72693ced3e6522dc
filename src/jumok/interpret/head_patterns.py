"""What each attention head does: scores of the patterns that the literature names.

A is the weights of one head, (T, S): row i is query i, column j is key j; t the token ids. Every
score is the mean over the queries of all texts that can show the pattern, from 0 to 1; 0 if none
can. Special tokens and padding are not queries, except that `previous_token` counts every real one.

    previous_token   A[i, i - 1], i > 0. Elhage et al. 2021, "A Mathematical Framework for
                     Transformer Circuits"; Clark et al. 2019, section 3.1.
    duplicate_token  Σ_j A[i, j] over the other positions j with t_j = t_i (in a causal block those
                     before i), for tokens that have one. Wang et al. 2022, "Interpretability in
                     the Wild", section 3.
    induction        Σ_j A[i, j] over the positions j after those, t_(j-1) = t_i, for tokens that
                     have one: the "prefix matching" of Olsson et al. 2022, "In-context Learning
                     and Induction Heads".
    positional       the largest fraction of queries whose largest weight is at the same distance
                     j - i. Voita et al. 2019, "Analyzing Multi-Head Self-Attention", section 5.1,
                     calls a head positional from 0.9.
    separator        Σ_j A[i, j] over special tokens and the first token. Clark et al. 2019, "What
                     Does BERT Look At?", section 3.2; Xiao et al. 2023, "Efficient Streaming
                     Language Models with Attention Sinks", section 3.1.
    rare_word        the fraction of queries whose largest weight, special tokens left out, is at
                     the rarest token of the text. Voita et al. 2019, section 5.3. In a causal
                     block the queries before it are not counted. Assumed: the rarest is the one
                     with the largest id, as in vocabularies sorted by frequency (unigram pieces,
                     and nearly in those of BPE, which are in the order of merges). For other
                     vocabularies the score has no meaning.

The queries and keys of cross-attention are different sequences: the first three are 0 there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from jumok.interpret.schema import Block, BlockName, Tokens
from jumok.interpret.trace import Trace

Pattern = Literal[
    "previous_token", "duplicate_token", "induction", "positional", "separator", "rare_word"
]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class HeadScores:
    """The scores of one head, from 0 to 1, by pattern.

    >>> head = HeadScores("encoder", 0, 1, {"previous_token": 0.9, "separator": 0.05})
    >>> max(head.scores, key=head.scores.get)
    'previous_token'
    """

    block: BlockName
    layer: int
    head: int
    scores: Mapping[Pattern, float]


def score_heads(
    traces: Iterable[Trace], sequences: Sequence[int] | None = None
) -> list[HeadScores]:
    """The scores of every head over the traces of one model.

    `sequences` are those of each trace to read; None: all.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note"), "겨울은 추워요.")
    >>> [head] = [h for h in score_heads([trace]) if (h.block, h.layer, h.head) == ("cross", 0, 1)]
    >>> head.scores["induction"]
    0.0
    """
    sums: dict[tuple[BlockName, int, int], _Sums] = {}
    for trace in traces:
        for block in trace.info.blocks:
            for layer in range(block.layers):
                for sequence in range(trace.info.sequences) if sequences is None else sequences:
                    weights = trace.weights(block.name, layer, sequence)
                    queries = trace.info.sides[block.queries][sequence]
                    keys = trace.info.sides[block.keys][sequence]
                    for head in range(block.heads):
                        added = sums.setdefault((block.name, layer, head), _Sums())
                        added.add(weights[head], queries, keys, block)
    return [HeadScores(*head, found.scores()) for head, found in sums.items()]


def has_repeats(traces: Sequence[Trace]) -> bool:
    """Whether a text has a token twice, which duplicate_token and induction need."""
    for trace in traces:
        for block in trace.info.blocks:
            for row in trace.info.sides[block.queries]:
                ids = [i for i, ok in zip(row.ids, _is_query(row), strict=True) if ok]
                if block.queries == block.keys and len(set(ids)) < len(ids):
                    return True
    return False


class _Sums:
    """The sums over queries, and their numbers, of one head."""

    def __init__(self) -> None:
        self._sum = dict.fromkeys(PATTERNS, 0.0)
        self._count = dict.fromkeys(PATTERNS, 0)
        self._distances: dict[int, int] = {}  # of the largest weight of each query

    def add(self, weights: Floats, queries: Tokens, keys: Tokens, block: Block) -> None:
        """Add the rows of one head (T, S)."""
        real = np.array(queries.real, dtype=np.bool_)
        asked = _is_query(queries)  # (T,)
        plain = _is_query(keys)  # (S,)
        if block.queries == block.keys:
            rows = np.flatnonzero(real[1:] & real[:-1]) + 1
            self._mean("previous_token", weights[rows, rows - 1])
            earlier = _same_token(queries, asked, causal=block.causal)  # (T, S)
            after = np.zeros_like(earlier)
            after[:, 1:] = earlier[:, :-1]
            after &= np.tri(len(after), dtype=np.bool_) if block.causal else real
            self._mean("duplicate_token", (weights * earlier).sum(1)[earlier.any(1)])
            self._mean("induction", (weights * after).sum(1)[after.any(1)])
        rows = np.flatnonzero(asked)
        largest = weights[rows].argmax(1)
        for distance in (largest - rows).tolist():
            self._distances[distance] = self._distances.get(distance, 0) + 1
        sinks = np.array(keys.special, dtype=np.bool_)
        sinks[int(np.argmax(keys.real))] = True  # the first real token, after padding on the left
        self._mean("separator", weights[rows][:, sinks].sum(1))
        if plain.any():
            ids = np.where(plain, keys.ids, -1)
            can = rows >= ids.argmax() if block.causal else np.ones(len(rows), np.bool_)
            best = np.where(plain, weights[rows], -1.0).argmax(1)[can]
            self._mean("rare_word", (ids[best] == ids.max()).astype(np.float32))

    def _mean(self, pattern: Pattern, values: Floats) -> None:
        self._sum[pattern] += float(values.sum(dtype=np.float64))
        self._count[pattern] += len(values)

    def scores(self) -> dict[Pattern, float]:
        found = {
            pattern: min(self._sum[pattern] / max(self._count[pattern], 1), 1.0)
            for pattern in PATTERNS
        }
        n = sum(self._distances.values())
        found["positional"] = max(self._distances.values(), default=0) / max(n, 1)
        return found


def _is_query(tokens: Tokens) -> Bools:
    """The real tokens that are not special ones."""
    found: Bools = np.array(tokens.real, np.bool_) & ~np.array(tokens.special, np.bool_)
    return found


def _same_token(tokens: Tokens, asked: Bools, *, causal: bool) -> Bools:
    """True at [i, j] if j is another position with the token of i; before i if causal."""
    ids = np.array(tokens.ids)
    same = (ids[:, None] == ids) & asked[:, None] & asked
    np.fill_diagonal(same, val=False)
    found: Bools = np.tril(same) if causal else same
    return found
