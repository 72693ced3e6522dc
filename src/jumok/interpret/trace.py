"""A trace: the recorded tensors of a forward pass, in memory or in a file, read head by head.

Shapes: B sequences, H heads, G key heads, T queries, S keys, K width of a head, D width of the
model, L layers, P side of a thumbnail. docs/trace.md describes the file.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import safetensors
from numpy.typing import NDArray

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import TraceError, located
from jumok.extras import import_attribute
from jumok.interpret.rounding import SCALE_SUFFIX, dequantize
from jumok.interpret.schema import Block, TraceInfo, check_index
from jumok.interpret.trace_file import check_tensors, read_info
from jumok.interpret.trace_writer import Array, Arrays, chunks, finalize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jumok.tasks.pipeline.pipeline import Pipeline


Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


class TensorStore(Protocol):
    """The storage of the tensors of a trace."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor by its name."""

    def read(self, name: str, *index: int) -> Array:
        """A tensor, or its part at the first indices."""

    def chunks(self, info: TraceInfo) -> Iterable[bytes]:
        """The bytes of the trace file, chunk by chunk."""


class Trace:
    """The recorded tensors of every head in a forward pass; `jumok.trace` makes one.

    `info` is the header: tokens, blocks, predictions. Numbers are float32 whatever the dtype in the
    file, and are read on access.

        trace = Trace.open("review.safetensors")
        trace.weights("encoder", layer=0)[2]  # (T, S) of head 2

    Raises InputError for a layer, head or sequence that it has not.

    >>> import jumok
    >>> seen = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> seen.info.tokens("source").pieces
    ('▁겨울', '은', '▁추', '워', '요', '.', '[EOS]')
    >>> seen.weights("encoder", layer=0).shape  # (H, T, S)
    (2, 7, 7)
    """

    def __init__(
        self, info: TraceInfo, store: TensorStore, model: "Pipeline | None" = None
    ) -> None:
        """`model` is what computed the trace, None for one from a file: a live page runs it."""
        self.info, self.model = info, model
        self._store = store
        self._shapes = store.shapes()
        check_tensors(info, self._shapes)

    @classmethod
    def from_tensors(cls, tensors: Arrays, info: TraceInfo, *, whole: bool = False) -> "Trace":
        """A trace of these tensors after `finalize`: dtypes, thumbnails, entropies, limits."""
        kept, finalized = finalize(tensors, info, whole=whole)
        return cls(finalized, _InMemory(kept))

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Trace":
        """The trace in a file, with memory-mapped tensors.

        Raises StorageError if it cannot be read, InputError if it is not a valid trace; both name
        the file.
        """
        path = Path(path)
        info = read_info(path)
        with located(path), storage_errors(f"{path}: cannot be read"):
            return cls(info, _InFile(path, tensorfile.read_header(path)))

    def with_info(self, info: TraceInfo) -> "Trace":
        """A trace of these tensors with another header."""
        return Trace(info, self._store, self.model)

    def of_model(self, model: "Pipeline") -> "Trace":
        """The trace with the model that computed it."""
        return Trace(self.info, self._store, model)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Save the trace to a file atomically; return its path."""
        path = Path(path)
        write_atomically(path, lambda file: file.writelines(self._store.chunks(self.info)))
        return path

    def to_bytes(self) -> bytes:
        """The bytes of the trace file."""
        return b"".join(self._store.chunks(self.info))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tensors, sorted; the scales of rounded ones are not among them."""
        return tuple(sorted(name for name in self._shapes if not name.endswith(SCALE_SUFFIX)))

    @property
    def rounded(self) -> frozenset[str]:
        """The names of the tensors that were rounded to 8 bits for a small page."""
        scales = (name for name in self._shapes if name.endswith(SCALE_SUFFIX))
        return frozenset(name.removesuffix(SCALE_SUFFIX) for name in scales)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor. Raises InputError if the trace does not have it."""
        if name not in self._shapes:
            raise TraceError(
                "trace.unknown_tensor",
                "the tensor must be one of {some}, got {name!r}",
                some=_some(self._shapes),
                name=name,
            )
        return self._shapes[name]

    def tensor(self, name: str) -> Array:
        """A whole tensor: float32, or uint8 for masks and thumbnails."""
        self.shape(name)
        return _to_float32(self._read(name))

    def weights(self, block: str, layer: int, sequence: int = 0) -> Floats:
        """Equation (1) after the softmax: (H, T, S)."""
        return self._part(block, layer, "weights", sequence)

    def scores(self, block: str, layer: int, sequence: int = 0) -> Floats:
        """q·k·scale + bias before the mask, (H, T, S): as recorded, or computed from q and k."""
        if f"{block}.{layer}.scores" in self._shapes:
            return self._part(block, layer, "scores", sequence)
        described = self._block(block, layer)
        q, k = self.q(block, layer, sequence), self.k(block, layer, sequence)
        k = np.repeat(k, described.heads // described.key_heads, axis=0)  # (H, S, K)
        scores = (q @ k.swapaxes(-1, -2)) * np.float32(described.scale)
        if described.softcap is not None:
            scores = described.softcap * np.tanh(scores / described.softcap)
        bias = self.bias(block, layer, sequence)
        return scores if bias is None else scores + bias

    def q(self, block: str, layer: int, sequence: int = 0) -> Floats:
        """The queries, rotated where positions are rotary, (H, T, K)."""
        return self._part(block, layer, "q", sequence)

    def k(self, block: str, layer: int, sequence: int = 0) -> Floats:
        """The keys, (G, S, K): head h uses key head h·G/H."""
        return self._part(block, layer, "k", sequence)

    def v(self, block: str, layer: int, sequence: int = 0) -> Floats:
        """The values, (G, S, K)."""
        return self._part(block, layer, "v", sequence)

    def bias(self, block: str, layer: int, sequence: int = 0) -> Floats | None:
        """What relative positions add to the scores, (H, T, S); None if there is nothing.

        In T5 it is the same for all sequences, in DeBERTa it depends on the content.
        """
        shape = self._shapes.get(f"{block}.{layer}.bias")
        if shape is None:
            return None
        return self._part(block, layer, "bias", sequence if shape[0] > 1 else 0)

    def value_norms(self, block: str, layer: int, sequence: int = 0) -> Floats:
        """‖v_j W_O‖ of each head and key, (H, S): the norm that a weight multiplies."""
        return self._part(block, layer, "value_norms", sequence)

    def mask(self, block: str, sequence: int = 0, layer: int = 0) -> NDArray[np.bool_]:
        """True where a query of a layer may attend to a key, (T, S)."""
        self._block(block, layer)
        own = f"{layer}.mask"  # of a layer whose mask is not that of layer 0
        part = own if f"{block}.{own}" in self._shapes else "mask"
        return self._of_block(block, part, sequence).astype(np.bool_)

    def thumbnails(self, block: str, sequence: int = 0) -> Bytes:
        """Thumbnails of all heads, (L, H, P, P'): 255 √ of the largest weight in a tile."""
        return self._of_block(block, "thumbnails", sequence).astype(np.uint8)

    def entropy(self, block: str, sequence: int = 0) -> Floats:
        """The mean entropy of the rows of each head in bits, (L, H)."""
        return _floats(self._of_block(block, "entropy", sequence))

    def hidden(self, side: str, layer: int, sequence: int = 0) -> Floats:
        """The input of a layer, (T, D); layer L is the output of the last one."""
        name = f"{side}.hidden.{layer}"
        self.shape(name)
        return _floats(self._read(name, self._sequence(sequence)))

    def figure(self, kind: str = "attention", **options: Any) -> "Figure":
        """A figure for a paper or a slide; save it as .pdf, .svg or .png.

            trace.figure(layer=2, head=0, width=3.3).savefig("head.pdf")

        kind: attention, heads, lines, model, alignment, neuron, positions or explanation. options:
        block, layer, head, sequence, query, unit, width, title ..., the fields of
        `jumok.viewer.figures.options.FigureOptions`. Raises InputError for unknown options and for
        options that the trace does not support.
        """
        parse = _viewer("figures.options", "FigureOptions").from_keywords
        figure: Figure = _viewer("figures.figure", "draw_figure")(self, parse(kind, options))
        return figure

    def show(self, state: str = "", full: bool = False, *, live: bool = False) -> object:
        """Display the page of this trace in a notebook, anywhere in a cell; else return a hint.

        `state` is the initial view, as in the URL of the page: "v=matrix&L=2&H=0". A large trace is
        embedded in part unless `full` is True. `live` as in `html`.
        """
        page: object = _viewer("notebook", "show")(self, state, full, live)
        return page

    def html(
        self,
        path: str | os.PathLike[str],
        state: str = "",
        full: bool = False,
        *,
        live: bool = False,
    ) -> Path:
        """Save the page of this trace as one self-contained file.

        `state` and `full` as in `show`. A `live` page contains the weights and runs the model for
        other texts, without a server. Raises InputError for a trace from a file, whose model is not
        known, and for a model that the page does not compute.
        """
        path = Path(path)
        content: bytes = _viewer("page", "render_page")(self, state, full, live)
        write_atomically(path, content)
        return path

    def __repr__(self) -> str:
        blocks = ", ".join(f"{b.name} {b.layers}x{b.heads}" for b in self.info.blocks)
        return f"Trace({self.info.title!r}: {blocks}, {self.info.sequences} sequences)"

    def _block(self, name: str, layer: int) -> Block:
        block = self.info.block(name)
        if not 0 <= layer < block.layers:
            raise TraceError(
                "trace.layer_range",
                "the layer of block {name} must be 0 to {layers}, got {layer}",
                name=name,
                layers=block.layers - 1,
                layer=layer,
            )
        return block

    def _sequence(self, number: int) -> int:
        check_index("sequence", number, self.info.sequences)
        return number

    def _part(self, block: str, layer: int, name: str, sequence: int) -> Floats:
        self._block(block, layer)
        full = f"{block}.{layer}.{name}"
        self.shape(full)
        return _floats(self._read(full, self._sequence(sequence)))

    def _read(self, name: str, *index: int) -> Array:
        part, scale = self._store.read(name, *index), f"{name}{SCALE_SUFFIX}"
        if scale not in self._shapes:
            return part
        return dequantize(part, self._store.read(scale, *index))

    def _of_block(self, block: str, name: str, sequence: int) -> Array:
        self.info.block(block)
        self.shape(f"{block}.{name}")
        return self._store.read(f"{block}.{name}", self._sequence(sequence))


class _InMemory:
    """Tensors in memory."""

    def __init__(self, tensors: Arrays) -> None:
        self._tensors = tensors

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tensor.shape for name, tensor in self._tensors.items()}

    def read(self, name: str, *index: int) -> Array:
        return np.asarray(self._tensors[name][index])

    def chunks(self, info: TraceInfo) -> Iterable[bytes]:
        return chunks(self._tensors, info)


class _InFile:
    """Tensors in a memory-mapped safetensors file."""

    def __init__(self, path: Path, entries: dict[str, tensorfile.TensorEntry]) -> None:
        self._path, self._entries = path, entries
        try:
            self._file: Any = safetensors.safe_open(path, framework="numpy")
        except safetensors.SafetensorError as error:
            raise TraceError(
                "trace.unusable_file",
                "not a usable safetensors file: {error}; save the trace again",
                error=error,
            ) from error

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: entry.shape for name, entry in self._entries.items()}

    def read(self, name: str, *index: int) -> Array:
        found: Array = self._file.get_slice(name)[index or ...]
        return found

    def chunks(self, info: TraceInfo) -> Iterable[bytes]:
        return chunks({name: self.read(name) for name in self._entries}, info)


def _viewer(module: str, name: str) -> Any:
    """An attribute of the viewer, a higher layer, which is imported on use."""
    return import_attribute("jumok.Trace", f"jumok.viewer.{module}", name)


def _to_float32(array: Array) -> Array:
    return array if array.dtype == np.uint8 else array.astype(np.float32)


def _floats(array: Array) -> Floats:
    return array.astype(np.float32)


def _some(shapes: dict[str, tuple[int, ...]]) -> str:
    names = sorted(shapes)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
