"""Summaries of many heads: thumbnails of their weights, and mean entropies.

Shapes: B sequences, L layers, H heads, T queries, S keys, P side of a thumbnail.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

THUMBNAIL_SIDE = 64  # at most

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


def thumbnail(weights: Floats, side: int = THUMBNAIL_SIDE) -> Bytes:
    """round(255 √w) of the largest weight in each tile: (..., T, S) -> (..., P, P').

    Tile i of the queries goes from floor(i T / P) up to floor((i + 1) T / P). The root makes small
    weights visible; the maximum keeps single large weights of a long sequence visible.

    >>> thumbnail(np.array([[0.0, 0.25], [1.0, 0.0]], np.float32)).tolist()
    [[0, 128], [255, 0]]
    """
    if 0 in weights.shape:
        return np.zeros(
            (*weights.shape[:-2], *(min(n, side) for n in weights.shape[-2:])), np.uint8
        )
    roots = np.sqrt(np.clip(np.nan_to_num(max_pool_tiles(weights, side)), 0.0, 1.0))
    tiles: Bytes = np.rint(255 * roots).astype(np.uint8)
    return tiles


def max_pool_tiles(weights: Floats, side: int = THUMBNAIL_SIDE) -> Floats:
    """The largest weight of each tile: (..., T, S) -> (..., P, P')."""
    for axis in (-2, -1):
        n = weights.shape[axis]
        tiles = min(n, side)
        weights = np.maximum.reduceat(weights, np.arange(tiles) * n // tiles, axis=axis)
    return weights


def mean_entropy(weights: Floats, real: NDArray[np.bool_]) -> Floats:
    """The mean over the real queries of -Σ w log₂ w, in bits: (B, H, T, S), (B, T) -> (B, H).

    0: every query attends to one key; log₂ S: to all equally. A query without keys counts as 0, and
    so does a sequence without real queries.

    >>> even = np.full((1, 1, 1, 4), 0.25, np.float32)
    >>> mean_entropy(even, np.array([[True]])).tolist()
    [[2.0]]
    """
    logs = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    bits = -(weights * logs).sum(-1)  # (B, H, T)
    n_real = np.maximum(real.sum(-1), 1)[:, None]
    means: Floats = ((bits * real[:, None, :]).sum(-1) / n_real).astype(np.float32)
    return means


def summarize(layers: Sequence[Floats], real: NDArray[np.bool_]) -> tuple[Bytes, Floats]:
    """Thumbnails (B, L, H, P, P') and entropies (B, L, H) of all layers of a block.

    layers: the weights (B, H, T, S) of each; real (B, T): True at queries that are not padding.
    """
    return (
        np.stack([thumbnail(weights) for weights in layers], 1),
        np.stack([mean_entropy(weights, real) for weights in layers], 1),
    )
