"""From what was seen to the numbers of a trace: what is kept, in which dtype, and the file.

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

MAX_FLOAT32_BYTES = 8 * 2**20  # bytes: up to here everything stays float32

Array = NDArray[np.generic]
Arrays = Mapping[str, Array]

_HALF_MAX = 65504.0  # the largest float16
_DTYPES = {np.dtype(np.float32): "F32", np.dtype(np.float16): "F16", np.dtype(np.uint8): "U8"}


@dataclass(frozen=True)
class _Part:
    """Tensors that a trace can do without, and what is said where they are left out."""

    names: re.Pattern[str]
    note: str


NO_PARAMETERS = (
    "The parameters are left out, the model is too large: its sums cannot be made again here."
)

_PARTS = (  # in this order they are given up until the rest is small
    _Part(
        re.compile(r"parameters\..*"),
        NO_PARAMETERS,
    ),
    _Part(
        re.compile(r".*\.steps\..*|.*\.mixed|(source|target)\.embedding"),
        "The steps inside the layers are left out, the trace would be too large.",
    ),
    _Part(
        re.compile(r".*\.scores"),
        "The scores are left out and made again of q and k, the trace would be too large.",
    ),
)


def finalize(tensors: Arrays, info: TraceInfo) -> tuple[dict[str, Array], TraceInfo]:
    """The tensors as a trace keeps them, thumbnails and entropies among them, and its header.

    Everything in float32 where that takes 8 MB at most; otherwise parameters, then steps, then
    scores are left out, with a note, until it does; the rest in float16 when it never does.
    Tensors with numbers that float16 cannot hold stay float32.
    """
    kept = {name: _plain(tensor) for name, tensor in tensors.items()}
    kept |= dict(_summaries(kept, info))
    notes = list(info.notes)
    for part in _PARTS:
        if _float_bytes(kept) <= MAX_FLOAT32_BYTES:
            break
        others = {name: kept[name] for name in kept if not part.names.fullmatch(name)}
        if len(others) < len(kept):
            kept = others
            notes += [] if part.note in notes else [part.note]
    if _float_bytes(kept) > MAX_FLOAT32_BYTES:
        kept = {name: _half(name, tensor) for name, tensor in kept.items()}
    return kept, replace(info, notes=tuple(notes))


def serialize(tensors: Arrays, info: TraceInfo) -> bytes:
    """The safetensors file of a trace."""
    return b"".join(chunks(tensors, info))


def chunks(tensors: Arrays, info: TraceInfo, within: float | None = None) -> Iterator[bytes]:
    """The safetensors file of a trace, part by part; the same trace gives the same bytes.

    `within`: how far weights read off its thumbnails may be out, where that is more than 1/255.

    The library would write the two strings of the metadata in an order drawn by lot.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # all stand aligned
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
    said = json.dumps(header, separators=(",", ":")).encode()
    said += b" " * (-len(said) % 8)
    yield len(said).to_bytes(8, "little") + said
    for name in order:
        yield tensors[name].astype(tensors[name].dtype.newbyteorder("<"), copy=False).tobytes()


def _plain(tensor: Array) -> Array:
    """Floats in float32, all else in bytes."""
    wanted = np.float32 if np.issubdtype(tensor.dtype, np.floating) else np.uint8
    return tensor.astype(wanted, copy=False)


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


def _half(name: str, tensor: Array) -> Array:
    if tensor.dtype != np.float32 or name.endswith(".entropy") or name == "rotary":
        return tensor
    finite = np.abs(tensor[np.isfinite(tensor)])
    if finite.size and finite.max() > _HALF_MAX:
        return tensor
    return tensor.astype(np.float16)
