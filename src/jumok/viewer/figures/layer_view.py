"""What a figure draws, taken from a trace: weights as they are to be shown, and their labels.

H heads; R rows and C columns as shown. Padding is left out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.interpret.aggregate import Floats, Showing, groups, merged, shown
from jumok.interpret.schema import Block, Tokens
from jumok.interpret.trace import Trace
from jumok.viewer.figures.options import Head
from jumok.viewer.labels import Label, labels

NAMES = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}


@dataclass(frozen=True)
class Place:
    """One layer of a block, for one sequence of the batch."""

    block: Block
    layer: int
    sequence: int = 0

    def __str__(self) -> str:
        return f"{NAMES[self.block.name]} · layer {self.layer}"


@dataclass(frozen=True)
class Shown:
    """The heads of a layer as they are to be drawn."""

    weights: Floats  # (H, R, C)
    queries: tuple[Label, ...]
    keys: tuple[Label, ...]
    allowed: NDArray[np.bool_]  # (R, C): some piece may attend to some piece
    how: Showing

    @property
    def measure(self) -> str:
        """What the numbers are, for a legend."""
        return measure_of(self.how)


def measure_of(how: Showing) -> str:
    """What numbers that are shown so are, for a legend.

    >>> measure_of(Showing(unit="word", specials="renormalise"))
    'weight, in words, without special tokens'
    """
    said = "weight × ‖v W_O‖" if how.measure == "values" else "weight"
    if how.unit != "piece":
        said += f", in {how.unit}s"
    if how.specials == "renormalise":
        said += ", without special tokens"
    return said


def place_in(trace: Trace, block: str | None, layer: int, sequence: int) -> Place:
    """A place that is there: `layer` may count back from -1, without a block the first is taken."""
    found = trace.info.block(block) if block else trace.info.blocks[0]
    if not -found.layers <= layer < found.layers:
        raise InputError(
            f"layer {layer} of block {found.name}, which has {found.layers}; layers count from 0"
        )
    trace.info.tokens(found.queries, sequence)
    return Place(found, layer % found.layers, sequence)


def read(trace: Trace, place: Place, how: Showing, *, predicted: bool = False) -> Shown:
    """The weights of a layer. With `predicted`, rows stand under the tokens they predict.

    Row t then belongs to token t + 1; what the last row predicts is not in the trace, it is left
    out. Raises InputError for the measure values where the trace has no value norms.
    """
    block, layer, sequence = place.block.name, place.layer, place.sequence
    queries = trace.info.tokens(place.block.queries, sequence)
    keys = trace.info.tokens(place.block.keys, sequence)
    weights, allowed = trace.weights(block, layer, sequence), trace.mask(block, sequence)
    if predicted:
        queries = _without_first(queries)
        weights, allowed = weights[:, :-1], allowed[:-1]
    norms = trace.value_norms(block, layer, sequence) if how.measure == "values" else None
    rows, columns = labels(queries, how.unit), labels(keys, how.unit)
    if not rows or not columns:
        raise InputError(f"sequence {sequence} has no tokens to draw; choose another")
    part = np.s_[..., : len(rows), : len(columns)]
    numbers = shown(weights, norms, queries, keys, how)
    seen = merged(allowed.astype(np.float32), groups(queries, how.unit), groups(keys, how.unit))
    return Shown(numbers[part], rows, columns, seen[part] > 0, how)


def pooled(weights: Floats, head: Head) -> Floats:
    """One head, or all of them as one: (H, R, C) -> (R, C)."""
    if head == "mean":
        return np.asarray(weights.mean(0))
    if head == "max":
        return np.asarray(weights.max(0))
    if not 0 <= head < len(weights):
        raise InputError(f"head {head} of {len(weights)}; heads count from 0")
    one: Floats = weights[head]
    return one


def said(trace: Trace, place: Place, head: Head) -> str:
    """Which head it is, for a title."""
    if isinstance(head, int):
        muted = (place.block.name, place.layer, head) in trace.info.muted
        return f"{place} · head {head}" + " (muted)" * muted
    n_heads = place.block.heads
    return f"{place} · {'mean' if head == 'mean' else 'maximum'} of {n_heads} heads"


def _without_first(tokens: Tokens) -> Tokens:
    """All tokens but the first."""
    return Tokens(
        text=tokens.text,
        pieces=tokens.pieces[1:],
        ids=tokens.ids[1:],
        spans=tokens.spans[1:],
        special=tokens.special[1:],
        real=tokens.real[1:],
        words=tokens.words[1:],
        segments=None if tokens.segments is None else tokens.segments[1:],
    )
