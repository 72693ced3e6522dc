"""Write trace files: which tensors are kept, in which dtype, and the bytes of the file.

Shapes: B sequences, L layers, H heads, T queries, S keys.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jumok.interpret.schema import FORMAT, TraceInfo
from jumok.interpret.thumbnails import summarize

MAX_FLOAT32_BYTES = 8 * 2**20  # up to here every tensor is float32

Array = NDArray[np.generic]
Arrays = Mapping[str, Array]

_HALF_MAX = 65504.0  # the maximum of float16
_DTYPES = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.uint8): "U8"}


@dataclass(frozen=True)
class _OptionalPart:
    """Tensors that large traces leave out, and the note about it."""

    names: re.Pattern[str]
    note: str


NO_PARAMETERS = (
    "The parameters are left out, because the model is too large: layer outputs cannot be "
    "recomputed here."
)

ROUNDED = (
    "The numbers are rounded to float16, because the trace would be too large: weights of at most "
    "2^-25 became 0. jumok.trace(..., whole=True) keeps everything in float32."
)

_PARTS = (  # left out in this order until the rest is small
    _OptionalPart(re.compile(r"parameters\..*"), NO_PARAMETERS),
    _OptionalPart(
        re.compile(r".*\.steps\..*|.*\.mixed|(source|target)\.embedding"),
        "The steps inside the layers are left out, because the trace would be too large.",
    ),
    _OptionalPart(
        re.compile(r".*\.scores"),
        "The scores are left out and computed from q and k, because the trace would be too large.",
    ),
)


def finalize(
    tensors: Arrays, info: TraceInfo, *, whole: bool = False
) -> tuple[dict[str, Array], TraceInfo]:
    """The tensors of a trace file, with thumbnails and entropies, and the header.

    All in float32 if that takes at most 8 MB, or if `whole`; otherwise parameters, then steps, then
    scores are left out, with a note, until it does. If it never does, the rest is in float16, with
    a note, except tensors with numbers outside the range of float16.
    """
    kept = {name: _as_float32_or_uint8(tensor) for name, tensor in tensors.items()}
    kept |= dict(_summaries(kept, info))
    if whole:
        return kept, info
    notes = list(info.notes)
    for part in _PARTS:
        if _float_bytes(kept) <= MAX_FLOAT32_BYTES:
            break
        others = {name: kept[name] for name in kept if not part.names.fullmatch(name)}
        if len(others) < len(kept):
            kept = others
            notes += [] if part.note in notes else [part.note]
    if _float_bytes(kept) > MAX_FLOAT32_BYTES:
        kept = {name: half(name, tensor) for name, tensor in kept.items()}
        notes.append(ROUNDED)
    return kept, replace(info, notes=tuple(notes))


def essential_bytes(tensors: Arrays) -> int:
    """The bytes in float32 of what a trace of any size keeps."""
    optional = [part.names for part in _PARTS]
    kept = {n: x for n, x in tensors.items() if not any(p.fullmatch(n) for p in optional)}
    return _float_bytes(kept)


def serialize(tensors: Arrays, info: TraceInfo) -> bytes:
    """The safetensors file of a trace."""
    return b"".join(chunks(tensors, info))


def chunks(tensors: Arrays, info: TraceInfo, within: float | None = None) -> Iterator[bytes]:
    """The safetensors file of a trace, chunk by chunk; the same trace gives the same bytes.

    `within`: the maximal error of weights read off the thumbnails, where it is more than 1/255.

    The safetensors library would write the two metadata strings in random order.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # aligned
    texts = {"format": FORMAT, "trace": info.to_json()}
    if within is not None:
        texts["within"] = f"{within:.3f}"
    header: dict[str, object] = {"__metadata__": texts}
    end = 0
    for name in order:
        start, end = end, end + tensors[name].nbytes
        header[name] = {
            "dtype": _DTYPES[tensors[name].dtype],
            "shape": tensors[name].shape,
            "data_offsets": (start, end),
        }
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    yield len(encoded).to_bytes(8, "little") + encoded
    for name in order:
        yield tensors[name].astype(tensors[name].dtype.newbyteorder("<"), copy=False).tobytes()


def _as_float32_or_uint8(tensor: Array) -> Array:
    """Floats in float32, all others in uint8."""
    dtype = np.float32 if np.issubdtype(tensor.dtype, np.floating) else np.uint8
    return tensor.astype(dtype, copy=False)


def _summaries(tensors: Arrays, info: TraceInfo) -> Iterator[tuple[str, Array]]:
    for block in info.blocks:
        layers = [
            tensors[f"{block.name}.{layer}.weights"].astype(np.float32, copy=False)
            for layer in range(block.layers)
        ]
        real = np.array([tokens.real for tokens in info.sides[block.queries]], dtype=np.bool_)
        yield from zip(
            (f"{block.name}.thumbnails", f"{block.name}.entropy"),
            summarize(layers, real),
            strict=True,
        )


def _float_bytes(tensors: Arrays) -> int:
    return sum(tensor.nbytes for tensor in tensors.values() if tensor.dtype != np.uint8)


def half(name: str, tensor: Array) -> Array:
    """A tensor in float16, unless it must be exact or has numbers outside of its range."""
    if tensor.dtype != np.float32 or name.endswith((".entropy", "rotary")):
        return tensor
    finite = np.abs(tensor[np.isfinite(tensor)])
    if finite.size and finite.max() > _HALF_MAX:
        return tensor
    return tensor.astype(np.float16)
