"""As much of a trace as a page of limited size holds, most wanted first; what is missing is told.

A page must have the tokens, the masks, a thumbnail of every head and the exact weights of the
layers in focus. Where a thumbnail has a tile for each weight (up to 64 tokens) the page reads the
weights of other layers off it: right within 0.004, or less exactly where thumbnails, too, have to
be kept in fewer shades. Then more weights follow, and more of what else there is, while there is
room. All numbers are float16.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from jumok.interpret.schema import TraceInfo
from jumok.interpret.thumbnails import THUMBNAIL_SIDE
from jumok.interpret.trace import Trace
from jumok.interpret.trace_writer import Array, Arrays, chunks

TEXT = 4 / 3  # characters of base64 a byte
QUANT_LEVELS = (255, 127, 63, 47, 31, 23, 15, 11, 7)  # of a thumbnail, without white
MIN_COMPRESSION_RATIO = 0.2  # numbers of attention zip to no less


def compact_trace(
    trace: Trace, layers: Iterable[tuple[str, int]], most: float, more: bool = True
) -> bytes | None:
    """The file of a trace for a page in which it may take `most` characters.

    `layers`: blocks and layers whose weights must be exact. None when that takes more. Without
    `more`, nothing follows what a page must have, however much room there is.
    """
    exact = [f"{block}.{layer}.weights" for block, layer in layers]
    needed = re.compile(r".*\.(mask|thumbnails|entropy)")
    kept = {n: _half(trace, n) for n in trace.names if needed.fullmatch(n) or n in exact}
    most -= TEXT * len(zlib.compress(trace.info.to_json().encode()))
    shades = _shades(kept, most)
    if shades is None:
        return None
    kept = _in_shades(kept, shades)
    spent = sum(map(_zipped, kept.values()))
    for group in _groups(trace, exact) if more else ():
        if (
            spent + MIN_COMPRESSION_RATIO * TEXT * sum(2 * _count(trace, name) for name in group)
            > most
        ):
            continue
        tensors = {name: _half(trace, name) for name in group}
        size = sum(map(_zipped, tensors.values()))
        if spent + size <= most:
            kept |= tensors
            spent += size
    within = 1 / shades + (
        0 if shades == QUANT_LEVELS[0] else 2 / QUANT_LEVELS[0]
    )  # rounded three times
    notes = (*trace.info.notes, *_notes(trace, kept, within))
    return b"".join(chunks(kept, replace(trace.info, notes=notes), within))


def _shades(tensors: Arrays, most: float) -> int | None:
    """The finest shades with which these tensors take `most` characters; None: there are none."""
    for shades in QUANT_LEVELS:
        if sum(map(_zipped, _in_shades(tensors, shades).values())) <= most:
            return shades
    return None


def _in_shades(tensors: Arrays, shades: int) -> dict[str, Array]:
    """The same tensors; thumbnails, still from 0 to 255, in so many steps.

    >>> thumbnails = np.array([0, 3, 100, 255], np.uint8)
    >>> _in_shades({"encoder.thumbnails": thumbnails}, 15)["encoder.thumbnails"].tolist()
    [0, 0, 102, 255]
    """
    coarse = np.rint(np.rint(np.arange(256) * shades / 255) * 255 / shades).astype(np.uint8)
    return {
        name: coarse[tensor] if name.endswith(".thumbnails") else tensor
        for name, tensor in tensors.items()
    }


def _groups(trace: Trace, exact: list[str]) -> Iterator[list[str]]:
    """Names of tensors that are kept or left out together, the most wanted first."""
    for block in trace.info.blocks:
        for layer in range(block.layers):
            if (name := f"{block.name}.{layer}.weights") not in exact:
                yield [name]
    blocks = [block.name for block in trace.info.blocks]
    rest = [rf"{block}\.\d+\.value_norms" for block in blocks]
    rest += [rf"{block}\.\d+\.(q|k|bias)" for block in blocks]
    rest += [r"(source|target)\.positions", r"rotary"]
    for part in map(re.compile, rest):
        if group := [name for name in trace.names if part.fullmatch(name)]:
            yield group


def _notes(trace: Trace, kept: Arrays, within: float) -> Iterator[str]:
    absent = [name for name in trace.names if name not in kept]
    if any(name.endswith(".weights") for name in absent):
        yield (
            f"To keep the page small, weights of some layers are read off thumbnails, within "
            f"{within:.3f}; a page exported in full has them all."
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


def _half(trace: Trace, name: str) -> Array:
    """A tensor with its floats in float16, where they fit."""
    tensor = trace.tensor(name)
    if tensor.dtype != np.float32 or name.endswith(".entropy") or name == "rotary":
        return tensor
    if np.abs(tensor).max(initial=0.0) > np.finfo(np.float16).max:
        return tensor
    return tensor.astype(np.float16)


def _zipped(tensor: Array) -> float:
    """About how many characters a tensor takes in a page."""
    return TEXT * len(zlib.compress(tensor.tobytes(), 6))
