"""The weights of a layer with their labels, as figures draw them.

H heads; R rows and C columns. Padding is left out.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jumok.errors import TraceError
from jumok.interpret.aggregate import (
    DisplayOptions,
    Floats,
    aggregate,
    display_weights,
    token_groups,
)
from jumok.interpret.schema import Block, Tokens, check_index
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.viewer.figures.options import Head
from jumok.viewer.labels import Label, labels

NAMES = {"encoder": "encoder", "decoder": "decoder", "cross": "cross-attention"}


@dataclass(frozen=True)
class LayerRef:
    """A layer of a block, for one sequence of the batch."""

    block: Block
    layer: int
    sequence: int = 0

    def __str__(self) -> str:
        return translate("{} · layer {}", translate(NAMES[self.block.name]), self.layer)


@dataclass(frozen=True)
class LayerWeights:
    """The weights of a layer's heads, ready to draw."""

    weights: Floats  # (H, R, C)
    queries: tuple[Label, ...]
    keys: tuple[Label, ...]
    mask: NDArray[np.bool_]  # (R, C): True where attention is allowed
    display: DisplayOptions

    @property
    def measure(self) -> str:
        """The name of the numbers, for a legend."""
        return measure_label(self.display)


def measure_label(display: DisplayOptions) -> str:
    """The name of numbers with these display options, for a legend.

    >>> measure_label(DisplayOptions(unit="word", specials="renormalise"))
    'weight, in words, without special tokens'
    """
    caption = translate("weight × ‖v W_O‖" if display.measure == "values" else "weight")
    if display.unit != "piece":
        caption += translate(", in words" if display.unit == "word" else ", in syllables")
    if display.specials == "renormalise":
        caption += translate(", without special tokens")
    return caption


def find_layer(trace: Trace, block: str | None, layer: int, sequence: int) -> LayerRef:
    """Resolve a layer: negative ones count from the last; the default block is the first."""
    found = trace.info.block(block) if block else trace.info.blocks[0]
    if not -found.layers <= layer < found.layers:
        raise TraceError(
            "page.layer_range",
            "the layer of block {found} must be 0 to {layers}, or negative to count from the "
            "last, got {layer}",
            found=found.name,
            layers=found.layers - 1,
            layer=layer,
        )
    trace.info.tokens(found.queries, sequence)
    return LayerRef(found, layer % found.layers, sequence)


def load_weights(
    trace: Trace, layer_ref: LayerRef, display: DisplayOptions, *, predicted: bool = False
) -> LayerWeights:
    """The weights of a layer. With `predicted`, rows are labelled with the predicted tokens.

    Row t then belongs to token t + 1; the last row is left out, its prediction is not in the trace.
    Raises InputError for the measure values if the trace has no value norms.
    """
    block, layer, sequence = layer_ref.block.name, layer_ref.layer, layer_ref.sequence
    queries = trace.info.tokens(layer_ref.block.queries, sequence)
    keys = trace.info.tokens(layer_ref.block.keys, sequence)
    weights, mask = trace.weights(block, layer, sequence), trace.mask(block, sequence, layer)
    if predicted:
        queries = _without_first(queries)
        weights, mask = weights[:, :-1], mask[:-1]
    norms = trace.value_norms(block, layer, sequence) if display.measure == "values" else None
    rows, columns = labels(queries, display.unit), labels(keys, display.unit)
    if not rows or not columns:
        raise TraceError(
            "page.empty_sequence",
            "sequence {sequence} has no tokens to draw; choose another",
            sequence=sequence,
        )
    part = np.s_[..., : len(rows), : len(columns)]
    numbers = display_weights(weights, norms, queries, keys, display)
    seen = aggregate(
        mask.astype(np.float32),
        token_groups(queries, display.unit),
        token_groups(keys, display.unit),
    )
    return LayerWeights(numbers[part], rows, columns, seen[part] > 0, display)


def pool_heads(weights: Floats, head: Head) -> Floats:
    """One head, or the mean or maximum of all: (H, R, C) -> (R, C)."""
    if head == "mean":
        return np.asarray(weights.mean(0))
    if head == "max":
        return np.asarray(weights.max(0))
    check_index("head", head, len(weights))
    one: Floats = weights[head]
    return one


def caption(trace: Trace, layer_ref: LayerRef, head: Head) -> str:
    """The name of a head, for a title."""
    if isinstance(head, int):
        muted = (layer_ref.block.name, layer_ref.layer, head) in trace.info.muted
        return translate("{} · head {}", layer_ref, head) + translate(" (muted)") * muted
    n_heads = layer_ref.block.heads
    template = "{} · mean of {} heads" if head == "mean" else "{} · maximum of {} heads"
    return translate(template, layer_ref, n_heads)


def _without_first(tokens: Tokens) -> Tokens:
    """All tokens except the first."""
    names = ("pieces", "ids", "spans", "special", "real", "words", "segments")
    values = {name: getattr(tokens, name) for name in names}
    return replace(tokens, **{name: each and each[1:] for name, each in values.items()})
