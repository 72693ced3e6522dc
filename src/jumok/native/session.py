"""An encoder in the C++ kernel, from ids to the outputs of its head, with numpy alone.

    session = EncoderSession(encoder_dims(config), "float32")
    session.add_encoder(config, arrays)
    session.add_head(Head("mean", output="output"), arrays)
    logits = session.outputs(rows)

Texts are rows of ids without padding; what a text gets does not depend on the others. Shapes: N
texts, n tokens of all texts, D d_model, L outputs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jumok.errors import InputError, JumokError
from jumok.models.config import TransformerConfig
from jumok.models.int8_weights import SUFFIX
from jumok.native.layout import (
    Arrays,
    Floats,
    apply_norm,
    layer_linears,
    layer_norms,
    norm_vectors,
    position_tables,
)
from jumok.native.library import (
    HEAD_ACTIVATIONS,
    OUT_OF_MEMORY,
    OUT_OF_VOCABULARY,
    POOLINGS,
    TEXT_TOO_LONG,
    ModelDims,
)
from jumok.native.packed_weights import PackedWeights, WeightPrecision
from jumok.native.threads import kernel_threads
from jumok.text.ragged import Ragged

BATCH_TOKENS = 512  # of a call: many rows for each loaded weight, and hidden states in the caches

Ids = NDArray[np.int32]
HeadPooling = Literal["first", "mean", "max", "last", "compare"]


@dataclass(frozen=True)
class Head:
    """What follows the last layer of a model of texts.

    `output` is the name of the last linear map, "" for none; `pooler` that of the map in front of
    it with its activation, and `norm` that of the norm behind the activation. Pooling "compare" is
    that of a `PairClassifier`.
    """

    pooling: HeadPooling
    output: str = ""
    pooler: str = ""
    activation: str = "none"  # of the pooler
    normalize: bool = False  # divide the result by its length
    norm: str = ""  # of the layers' kind, behind the pooler


class EncoderSession:
    """Packed layers of an encoder and, if they are added, its embedding and a head.

    Raises KernelError if the kernel is not available. Later changes of the arrays do not change
    the session, except for the token vectors, which are read where they are.
    """

    def __init__(self, dims: ModelDims, precision: WeightPrecision) -> None:
        self.weights = PackedWeights(dims, precision)
        self.max_length: int = dims.max_length
        self.width: int = dims.d_model
        self.head: Head | None = None
        self._head_norm: dict[str, Floats] = {}
        self._n_outputs = 0  # of the head

    def __deepcopy__(self, memo: dict[int, object]) -> "EncoderSession":
        return self

    def add_layers(self, arrays: Arrays, prefix: str, *, offset_norms: bool = False) -> None:
        """Pack the layers whose weights begin with `prefix`, such as "encoder.stack."."""
        n_layers = self.weights.dims.encoder_layers
        for name, modules in layer_linears("encoder", arrays, prefix, n_layers):
            self.weights.upload_linear(name, arrays, modules)
        for name, vector in layer_norms("encoder", arrays, prefix, n_layers, offset=offset_norms):
            self.weights.upload_vector(name, vector)

    def add_table(self, name: str, table: Floats) -> None:
        """Copy a table of positions or segments under its name in the kernel."""
        self.weights.upload_vector(name, table)

    def add_embedding(self, arrays: Arrays, prefix: str) -> None:
        """Add the embedding whose weights begin with `prefix`, such as "encoder.embedding."."""
        tokens = f"{prefix}tokens.weight"
        self.weights.borrow_tokens(arrays[tokens], arrays.get(tokens + SUFFIX))
        for name, vector in norm_vectors("encoder.embedding_norm", arrays, f"{prefix}norm"):
            self.weights.upload_vector(name, vector)
        if f"{prefix}projection.weight" in arrays:
            self.weights.upload_linear("encoder.projection", arrays, [f"{prefix}projection"])

    def add_encoder(
        self,
        config: TransformerConfig,
        arrays: Arrays,
        on_packed: Callable[[], None] = lambda: None,
    ) -> None:
        """Add all of an encoder: layers, tables and embedding.

        `on_packed` is called after the layers and at the end, for example to release the memory of
        what was packed.
        """
        self.add_layers(arrays, "encoder.stack.")
        for name, table in position_tables(config, arrays):
            self.add_table(name, table)
        on_packed()
        self.add_embedding(arrays, "encoder.embedding.")
        on_packed()

    def add_head(self, head: Head, arrays: Arrays) -> None:
        """Add what follows the last layer; its linear maps are float32 in every precision."""
        for name in filter(None, (head.pooler, head.output)):
            self.weights.upload_linear(f"head.{name}", arrays, [name])
        if head.pooling == "compare":
            self.weights.upload_linear("head.similarity", arrays, ["similarity"])
        self._head_norm = dict(norm_vectors("norm", arrays, head.norm))
        self.set_head(head, len(arrays[f"{head.output}.weight"]) if head.output else self.width)

    def set_head(self, head: Head, n_outputs: int) -> None:
        """Use a head whose maps are uploaded, with so many outputs: the kernel writes as many."""
        self.head, self._n_outputs = head, n_outputs

    @property
    def weight_bytes(self) -> int:
        """The memory of the packed weights, position tables included, token vectors excluded."""
        return self.weights.bytes

    def detach(self) -> None:
        """Copy what is read from the file of the weights."""
        self.weights.copy_tokens()

    def encode_embedded(self, x: Floats, offsets: Ids, index: Ids) -> None:
        """Replace embedded tokens (n, D) of texts at offsets (N + 1) by their hidden states.

        `index` (n) are the positions for rotary and the columns for relative positions.
        """
        if len(index) and not 0 <= int(index.min()) <= int(index.max()) < self.max_length:
            raise InputError(
                "kernel.positions_range",
                "positions must be from 0 to {max_length}, got {min} to {max}; shorten the text, "
                "or use the PyTorch model",
                max_length=self.max_length - 1,
                min=int(index.min()),
                max=int(index.max()),
            )
        status = self.weights.library.jumok_encode(
            *(self.weights.handle, x.ctypes.data, offsets.ctypes.data, len(offsets) - 1),
            *(index.ctypes.data, kernel_threads()),
        )
        self._check(status, len(offsets) - 1, len(x))

    def hidden_states(self, rows: Ragged, segments: Ids | None = None) -> Floats:
        """The last layer (n, D) of the tokens of all texts; segments (n) or None: all 0.

        Raises InputError for ids outside the vocabulary and for texts longer than the model.
        """
        parts = [hidden for _, _, hidden in self._encode(rows, segments)]
        return np.concatenate(parts) if parts else np.empty((0, self.width), np.float32)

    def vectors(
        self, rows: Ragged, pooling: HeadPooling, *, normalize: bool, segments: Ids | None = None
    ) -> Floats:
        """One vector per text, (N, D), perhaps divided by its length; raises as `hidden_states`."""
        found = np.empty((len(rows), self.width), np.float32)
        for texts, offsets, hidden in self._encode(rows, segments):
            self._pool(hidden, offsets, pooling, None, found[texts])
        if normalize:
            self._normalize(found)
        return found

    def outputs(self, rows: Ragged, segments: Ids | None = None) -> Floats:
        """The outputs of the head, (N, L); raises as `hidden_states`."""
        assert self.head is not None
        found = np.empty((len(rows), self._n_outputs), np.float32)
        for texts, offsets, hidden in self._encode(rows, segments):
            part = slice(int(rows.offsets[texts.start]), int(rows.offsets[texts.stop]))
            found[texts] = self._apply_head(
                hidden, offsets, None if segments is None else segments[part]
            )
        return found

    def _encode(self, rows: Ragged, segments: Ids | None) -> Iterator[tuple[slice, Ids, Floats]]:
        """The texts of each call of the kernel, their offsets and their hidden states."""
        ids = np.ascontiguousarray(rows.ids, np.int32)
        first = 0
        while first < len(rows):
            start = rows.offsets[first]
            last = int(np.searchsorted(rows.offsets, start + BATCH_TOKENS, "right")) - 1
            texts = slice(first, max(last, first + 1))
            offsets = (rows.offsets[texts.start : texts.stop + 1] - start).astype(np.int32)
            part = slice(int(start), int(start + offsets[-1]))
            own = None if segments is None else np.ascontiguousarray(segments[part], np.int32)
            yield texts, offsets, self._encode_ids(ids[part], own, offsets)
            first = texts.stop

    def _encode_ids(self, ids: Ids, segments: Ids | None, offsets: Ids) -> Floats:
        hidden = np.empty((len(ids), self.width), np.float32)
        status = self.weights.library.jumok_encode_ids(
            *(self.weights.handle, ids.ctypes.data),
            *(None if segments is None else segments.ctypes.data, offsets.ctypes.data),
            *(len(offsets) - 1, hidden.ctypes.data, kernel_threads()),
        )
        self._check(status, len(offsets) - 1, len(ids))
        return hidden

    def _pool(
        self,
        hidden: Floats,
        offsets: Ids,
        pooling: HeadPooling,
        segments: Ids | None,
        to: Floats,
    ) -> None:
        N, lib = len(offsets) - 1, self.weights.library
        if pooling != "compare":
            lib.jumok_pool(
                *(hidden.ctypes.data, self.width, offsets.ctypes.data, N),
                *(POOLINGS.index(pooling), to.ctypes.data),
            )
            return
        own = np.zeros(len(hidden), np.int32) if segments is None else segments
        own = np.ascontiguousarray(own, np.int32)
        status = lib.jumok_compare_pairs(
            *(hidden.ctypes.data, self.width, own.ctypes.data),
            *(offsets.ctypes.data, N, to.ctypes.data),
        )
        self._check(status, N, len(hidden))

    def _apply_head(self, hidden: Floats, offsets: Ids, segments: Ids | None) -> Floats:
        assert self.head is not None
        head, N, D = self.head, len(offsets) - 1, self.width
        compares = head.pooling == "compare"
        pooled = np.empty((N, 4 * D + 3 if compares else D), np.float32)
        self._pool(hidden, offsets, head.pooling, segments, pooled)
        x = np.ascontiguousarray(pooled[:, : 4 * D]) if compares else pooled
        if head.pooler:
            x = self._apply(head.pooler, x, x.shape[1], head.activation)
        if head.norm:
            dims = self.weights.dims
            x = apply_norm(self._head_norm, x, dims.norm_eps, rms=bool(dims.rms))
        if head.output:
            x = self._apply(head.output, x, self._n_outputs, "none")
        if compares:
            similarities = np.ascontiguousarray(pooled[:, 4 * D :])
            x = x + self._apply("similarity", similarities, self._n_outputs, "none")
        if head.normalize:
            self._normalize(x)
        return x

    def _apply(self, name: str, x: Floats, outputs: int, activation: str) -> Floats:
        y = np.empty((len(x), outputs), np.float32)
        status = self.weights.library.jumok_apply_head(
            *(self.weights.handle, f"head.{name}".encode(), x.ctypes.data, len(x)),
            *(HEAD_ACTIVATIONS.index(activation), y.ctypes.data, kernel_threads()),
        )
        self._check(status, len(x), len(x))
        return y

    def _normalize(self, x: Floats) -> None:
        self.weights.library.jumok_normalize(x.ctypes.data, *x.shape)

    def _check(self, status: int, n_texts: int, n_tokens: int) -> None:
        if status == OUT_OF_VOCABULARY:
            raise InputError(
                "kernel.token_id_range",
                "token ids must be from 0 to {size}, got one outside this range; use ids of the "
                "model's own vocabulary",
                size=self.weights.dims.vocabulary - 1,
            )
        if status == TEXT_TOO_LONG:
            raise InputError(
                "kernel.text_too_long",
                "a text must have at most {max_length} tokens, got more; shorten the text, or "
                "use the PyTorch model",
                max_length=self.max_length,
            )
        if status == OUT_OF_MEMORY:
            raise JumokError(
                "kernel.out_of_memory_in_encoding",
                "memory ran out while {n_lengths} texts of {n_x} tokens were encoded; use a "
                "smaller batch",
                n_lengths=n_texts,
                n_x=n_tokens,
            )
        assert not status
