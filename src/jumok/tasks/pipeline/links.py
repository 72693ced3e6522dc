"""Links between the characters of an output and those of its text, from cross-attention.

Shapes: S source tokens, T target tokens.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jumok.tasks.pipeline.outputs import Link
from jumok.text.offsets import Span
from jumok.text.token_spans import token_spans


def attention_links(
    text: str,
    source_pieces: Sequence[str],
    output: str,
    target_pieces: Sequence[str],
    weights: NDArray[np.float32],
    least: float,
) -> tuple[Link, ...]:
    """The links of each target token with the source tokens that have at least this weight.

    weights (T, S) are attention weights, those of the end tokens included. A source token that
    covers no characters, as [EOS], attracts much attention and has no meaning: the weights are
    divided by the sum over the others.

    >>> weights = np.array([[0.1, 0.3, 0.6], [0.5, 0.1, 0.4]], np.float32)
    >>> attention_links("비가 옵니다", ["▁비가", "▁옵니다", "</s>"], "rain falls",
    ...                 ["▁rain", "▁falls"], weights, 0.1)
    ((0, 4, 0, 2, 0.25), (0, 4, 3, 6, 0.75), (5, 10, 0, 2, 0.833), (5, 10, 3, 6, 0.167))
    """
    sources, targets = token_spans(text, source_pieces), token_spans(output, target_pieces)
    covered = np.array([start < end for start, end in sources])
    kept = np.where(covered, weights[:, : len(sources)], 0.0)
    shares = kept / np.maximum(kept.sum(-1, keepdims=True), 1e-9)
    return tuple(
        (*target, *sources[s], round(float(shares[t, s]), 3))
        for t, target in enumerate(targets[: len(weights)])
        for s in np.flatnonzero(shares[t] >= least).tolist()
        if _covers(target)
    )


def _covers(span: Span) -> bool:
    return span[0] < span[1]
