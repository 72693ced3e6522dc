"""Alignments from the kernel while it writes: no second pass over the outputs.

A search reorders and drops rows, and returns hypotheses that ended at different steps. So the
weights are kept by what was written: a tree of tokens below each source, in which the path of a
hypothesis leads to the weights of its steps.

Shapes: B rows, N sources, S source tokens, T target tokens, V vocabulary.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from jumok.native.decoder import NativeDecoder

_Node = int  # a position in a target: what a row has written so far


class AligningDecoder:
    """A NativeDecoder of an encoder-decoder that keeps its cross-attention.

    The weights are the mean of all layers and heads, as in `jumok.decoding.align`.
    """

    def __init__(self, decoder: NativeDecoder, n_sources: int) -> None:
        weights = decoder.model.weights
        layers, heads = range(weights.n_layers), range(weights.n_heads)
        decoder.record_attention("cross", [(layer, head) for layer in layers for head in heads])
        self.vocabulary_size = decoder.vocabulary_size
        self._decoder = decoder
        self._nodes: list[_Node] = list(range(n_sources))  # of each row; first those of the sources
        self._n_nodes = n_sources
        self._children: dict[tuple[_Node, int], _Node] = {}
        self._parents: dict[_Node, _Node] = {}
        self._steps: list[NDArray[np.float32]] = []  # (B, S) of each step
        self._weights: dict[_Node, tuple[int, int]] = {}  # step and row

    @property
    def length(self) -> int:
        """Positions in the cache."""
        return self._decoder.length

    def step(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, V) float32."""
        logits = self._decoder.step(ids)
        self._keep(ids)
        return logits

    def step_all(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, V) float32."""
        logits = self._decoder.step_all(ids)
        self._keep(ids)
        return logits

    def top_k(self, ids: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k most likely tokens: log-probabilities and ids (B, k)."""
        found = self._decoder.top_k(ids, k)
        self._keep(ids)
        return found

    def reorder(self, rows: Tensor) -> None:
        """Keep these rows (B') int64, in this order."""
        self._decoder.reorder(rows)
        self._nodes = [self._nodes[row] for row in rows.tolist()]

    def rewind(self, tokens: int) -> None:
        """Remove the newest `tokens` positions of every row."""
        self._decoder.rewind(tokens)
        for _ in range(tokens):
            self._nodes = [self._parents[node] for node in self._nodes]

    def alignment(self, source: int, inputs: Sequence[int]) -> NDArray[np.float32] | None:
        """The weights (T, S) of the steps whose inputs were these tokens, [BOS] first.

        None if a step was computed together with others, so that its weights were not kept.
        """
        rows, node = [], source
        for token in inputs:
            child = self._children.get((node, token))
            if child is None or child not in self._weights:
                return None
            step, row = self._weights[child]
            rows.append(self._steps[step][row])
            node = child
        return np.stack(rows) if rows else None

    def _keep(self, ids: Tensor) -> None:
        """Keep the weights of the newest token of each row."""
        self._steps.append(self._decoder.mean_attention())
        for row, tokens in enumerate(ids.tolist()):
            for token in tokens:
                self._nodes[row] = self._child(self._nodes[row], token)
            self._weights[self._nodes[row]] = (len(self._steps) - 1, row)

    def _child(self, node: _Node, token: int) -> _Node:
        child = self._children.setdefault((node, token), self._n_nodes)
        if child == self._n_nodes:
            self._n_nodes += 1
            self._parents[child] = node
        return child
