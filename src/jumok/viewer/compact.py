"""A compact copy of a trace for a page of limited size: the most important tensors first.

A page needs the tokens, the masks, a thumbnail of every head and the exact weights of the layers
in focus. If a thumbnail has a tile for each weight (up to 64 tokens), the page reads the weights of
other layers from it, with an error of at most 0.004, or more if the thumbnails are quantized to
fewer levels. More weights and then other tensors follow as long as they fit: what a row of weights
is computed from in float16, hidden states and steps rounded to 8 bits. Notes in the trace list what
is rounded and what is missing.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from jumok.interpret.rounding import SCALE_SUFFIX, quantize
from jumok.interpret.schema import TraceInfo
from jumok.interpret.thumbnails import THUMBNAIL_SIDE
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import Array, Arrays, chunks, half

CHARS_PER_BYTE = 4 / 3  # base64 characters per byte
QUANT_LEVELS = (255, 127, 63, 47, 31, 23, 15, 11, 7)  # of thumbnails, without zero
MIN_CHARS_PER_NUMBER = 0.5  # a lower bound
FLOW_STEPS = "((self|cross)_attention|feed_forward)(_normed)?|after_(self|cross)_attention"

Encode: TypeAlias = Callable[[Trace, str], dict[str, Array]]  # a tensor as it is stored


def compact_trace(
    trace: Trace, layers: Iterable[tuple[str, int]], limit: float, more: bool = True
) -> bytes | None:
    """The file of a compact trace that takes at most `limit` characters in a page.

    layers: blocks and layers whose weights must be exact. more=False keeps only what a page needs.
    None if what a page needs does not fit.
    """
    exact = [f"{block}.{layer}.weights" for block, layer in layers]
    required = re.compile(r".*\.(mask|thumbnails|entropy)")
    kept = {n: half(n, trace.tensor(n)) for n in trace.names if required.fullmatch(n) or n in exact}
    limit -= CHARS_PER_BYTE * len(zlib.compress(trace.info.to_json().encode()))
    levels = _fit_levels(kept, limit)
    if levels is None:
        return None
    kept = _quantize_thumbnails(kept, levels)
    spent = sum(map(_compressed_size, kept.values()))
    for group, encode in _groups(trace, exact) if more else ():
        n_numbers = sum(_count(trace, name) for name in group)
        if spent + MIN_CHARS_PER_NUMBER * n_numbers > limit:
            continue
        tensors = {part: array for name in group for part, array in encode(trace, name).items()}
        size = sum(map(_compressed_size, tensors.values()))
        if spent + size <= limit:
            kept |= tensors
            spent += size
    rounding = 0 if levels == QUANT_LEVELS[0] else 2 / QUANT_LEVELS[0]  # rounded three times
    tolerance = 1 / levels + rounding
    notes = (*trace.info.notes, *_notes(trace, kept, tolerance))
    return b"".join(chunks(kept, replace(trace.info, notes=notes), tolerance))


def _fit_levels(tensors: Arrays, limit: float) -> int | None:
    """The most levels with which the tensors fit the limit; None if they do not fit."""
    for levels in QUANT_LEVELS:
        if sum(map(_compressed_size, _quantize_thumbnails(tensors, levels).values())) <= limit:
            return levels
    return None


def _quantize_thumbnails(tensors: Arrays, levels: int) -> dict[str, Array]:
    """The tensors with thumbnails quantized to this many levels, still from 0 to 255.

    >>> thumbnails = np.array([0, 3, 100, 255], np.uint8)
    >>> _quantize_thumbnails({"encoder.thumbnails": thumbnails}, 15)["encoder.thumbnails"].tolist()
    [0, 0, 102, 255]
    """
    coarse = np.rint(np.rint(np.arange(256) * levels / 255) * 255 / levels).astype(np.uint8)
    return {
        name: coarse[tensor] if name.endswith(".thumbnails") else tensor
        for name, tensor in tensors.items()
    }


def _groups(trace: Trace, exact: list[str]) -> Iterator[tuple[list[str], Encode]]:
    """Names of tensors that are kept or dropped together and their coding, most important first.

    Weights and what they are computed from are float16. Rounded to 8 bits: the hidden states, what
    each sublayer adds and the sums (the flow draws their norms), then values, then the other steps,
    first those of the layers in `exact`.
    """
    for block in trace.info.blocks:
        for layer in range(block.layers):
            if (name := f"{block.name}.{layer}.weights") not in exact:
                yield [name], _half
    blocks = "|".join(block.name for block in trace.info.blocks)
    shown = "|".join(re.escape(name.split(".")[1]) for name in exact)
    parts = [
        (rf"({blocks})\.\d+\.value_norms", _half),
        (rf"({blocks})\.\d+\.(q|k|bias)", _half),
        (r"(.*\.)?rotary|(source|target)\.positions", _half),
        (r"(source|target)\.hidden\.\d+", _rounded),
        (rf"(source|target)\.steps\.\d+\.({FLOW_STEPS})", _rounded),
        (rf"({blocks})\.\d+\.v", _rounded),
        (r"(source|target)\.(segments|embedding)", _rounded),
        (rf"({blocks})\.({shown})\.mixed|(source|target)\.steps\.({shown})\.\w+", _rounded),
        (rf"({blocks})\.\d+\.mixed|(source|target)\.steps\.\d+\.\w+", _rounded),
    ]
    taken: set[str] = set()
    for pattern, encode in parts:
        if group := [n for n in trace.names if n not in taken and re.fullmatch(pattern, n)]:
            yield group, encode
            taken |= {*group}


def _notes(trace: Trace, kept: Arrays, tolerance: float) -> Iterator[str]:
    if any(name.endswith(SCALE_SUFFIX) for name in kept):
        yield (
            "To keep the page small, hidden states, values and steps are rounded to 8 bits: each "
            "number within 1/254 of the largest of its row; a page exported in full has them all."
        )
    absent = [name for name in trace.names if name not in kept]
    if any(name.endswith(".weights") for name in absent):
        yield (
            f"To keep the page small, weights of some layers are read from thumbnails, within "
            f"{tolerance:.3f}; a page exported in full has them all."
            if _fits_thumbnails(trace.info)
            else "To keep the page small, some layers are shown as thumbnails only; a page "
            "exported in full has all weights."
        )
    if any(not name.endswith(".weights") for name in absent):
        yield (
            "To keep the page small, vectors or steps inside the layers are left out; a page "
            "exported in full has them."
        )


def _fits_thumbnails(info: TraceInfo) -> bool:
    return all(len(sequences[0]) <= THUMBNAIL_SIDE for sequences in info.sides.values())


def _count(trace: Trace, name: str) -> int:
    return int(np.prod(trace.shape(name)))


def _half(trace: Trace, name: str) -> dict[str, Array]:
    return {name: half(name, trace.tensor(name))}


def _rounded(trace: Trace, name: str) -> dict[str, Array]:
    """A tensor as bytes with a scale for each row."""
    numbers, scale = quantize(trace.tensor(name).astype(np.float32))
    return {name: numbers, f"{name}{SCALE_SUFFIX}": scale}


def _compressed_size(tensor: Array) -> float:
    """The approximate number of characters of a tensor in a page."""
    return CHARS_PER_BYTE * len(zlib.compress(tensor.tobytes(), 6))
