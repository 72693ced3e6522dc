"""The packed file of a model: one safetensors file under the names of the C++ kernel.

A tensor of two dimensions is a linear map, with NAME.scale in int8 and NAME.bias; "tokens" is the
table of token vectors, and every other tensor is a vector of the kernel. The metadata "jumok" is
JSON: the dimensions, the head or the settings of decoding, the task, the tokenizers and a few texts
with their outputs. The page (web/src/model) and `upload` loop over the tensors and name no layer;
tensors whose names begin with "host." are not the kernel's but read by the page itself.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save

from jumok.errors import JumokError
from jumok.models.config import TransformerConfig
from jumok.native.layout import (
    Array,
    Arrays,
    Floats,
    GeneratorKind,
    decoder_layers,
    generator_tables,
    layer_linears,
    layer_norms,
    norm_vectors,
    position_tables,
    to_float32,
    token_tables,
)
from jumok.native.library import OK, TABLE_TYPES, ModelDims
from jumok.native.packed_weights import PRECISIONS, PackedWeights, address, pack_rows
from jumok.native.session import EncoderSession, Head, Ids
from jumok.text.ragged import Ragged

FORMAT = 3
METADATA = "jumok"
TOKENS = "tokens"
TOKENIZER = "tokenizer."  # the beginning of the names of its tensors
HOST = "host."  # of tensors that the kernel does not get: norms of heads, the bias of a tied output

WebPrecision = Literal["float32", "int8"]


def packed_arrays(
    config: TransformerConfig, arrays: Arrays, precision: WebPrecision
) -> dict[str, Array]:
    """The tensors of the file, of an encoder's weights by their names, without a head."""
    packer, embedding = _Packer(arrays, precision), "encoder.embedding."
    packer.add_linear(TOKENS, f"{embedding}tokens")
    packer.add_layers("encoder", config.n_layers)
    if f"{embedding}projection.weight" in arrays:
        packer.add_linear("encoder.projection", f"{embedding}projection")
    packer.add_vectors(position_tables(config, arrays))
    return packer.found


def add_head(
    found: dict[str, Array], head: Head, arrays: Arrays, *, by_table: bool = False
) -> None:
    """Add what follows the last layer, in float32.

    `by_table`: the outputs are the products with the token vectors, which are there already.
    """
    packer = _Packer(arrays, "float32", found)
    names = [head.pooler, "" if by_table else head.output]
    for name in filter(None, [*names, "similarity" if head.pooling == "compare" else ""]):
        packer.add_linear(f"head.{name}", name)
    if by_table and f"{head.output}.bias" in arrays:
        packer.add_vectors([(f"{HOST}bias", to_float32(arrays[f"{head.output}.bias"]))])
    if head.norm:
        packer.add_vectors(norm_vectors(f"{HOST}norm", arrays, head.norm))


def packed_generator_arrays(
    config: TransformerConfig, kind: GeneratorKind, arrays: Arrays, precision: WebPrecision
) -> dict[str, Array]:
    """The same of an encoder-decoder or of a language model."""
    packer = _Packer(arrays, precision)
    for name, module in token_tables(config, kind):
        packer.add_linear(name, module)
    sides = {"encoder": config.n_layers, "decoder": decoder_layers(config)}
    for side in ("encoder", "decoder") if kind == "encoder_decoder" else ("decoder",):
        packer.add_layers(side, sides[side], offset_norms=config.norm == "rms_offset")
        packer.add_vectors(generator_tables(config, side, arrays))
    return packer.found


@dataclass(frozen=True)
class _Packer:
    """Collects the tensors of a file."""

    arrays: Arrays
    precision: WebPrecision
    found: dict[str, Array] = field(default_factory=dict)

    def add_linear(self, name: str, *modules: str) -> None:
        """Add linear maps, their outputs concatenated."""
        arrays = self.arrays
        weights = [to_float32(arrays[f"{module}.weight"]) for module in modules]  # (N, K) each
        self.found[name], scale = pack_rows(name, np.concatenate(weights), self.precision)
        if scale is not None:
            self.found[f"{name}.scale"] = scale
        biases = [arrays.get(f"{module}.bias") for module in modules]
        if any(bias is not None for bias in biases):
            parts = zip(weights, biases, strict=True)
            self.found[f"{name}.bias"] = np.concatenate(
                [np.zeros(len(w), np.float32) if b is None else to_float32(b) for w, b in parts]
            )

    def add_layers(self, side: str, n_layers: int, *, offset_norms: bool = False) -> None:
        """Add the layers and the norms of one side."""
        arrays, stack = self.arrays, f"{side}.stack."
        for name, modules in layer_linears(side, arrays, stack, n_layers):
            self.add_linear(name, *modules)
        self.add_vectors(layer_norms(side, arrays, stack, n_layers, offset=offset_norms))
        norm = f"{side}.embedding.norm"
        self.add_vectors(norm_vectors(f"{side}.embedding_norm", arrays, norm, offset=offset_norms))

    def add_vectors(self, vectors: Iterable[tuple[str, Array]]) -> None:
        """Add vectors and tables, which stay float32."""
        for name, vector in vectors:
            self.found[name] = np.ascontiguousarray(vector).reshape(-1)


def packed_dims(dims: ModelDims, precision: WebPrecision) -> dict[str, Any]:
    """The dimensions of a model, as JSON."""
    values = [getattr(dims, field[0]) for field in ModelDims._fields_]
    return {
        "format": FORMAT,
        "precision": PRECISIONS.index(precision),
        "dims": {
            "integers": [value for value in values if isinstance(value, int)],
            "floats": [value for value in values if isinstance(value, float)],
        },
        "d_model": dims.d_model,
    }


def read_dims(settings: Mapping[str, Any]) -> ModelDims:
    """The dimensions in the settings of a file."""
    return ModelDims(*settings["dims"]["integers"], *settings["dims"]["floats"])


def pack(arrays: Arrays, settings: Mapping[str, Any]) -> bytes:
    """The bytes of the file; equal inputs give equal bytes."""
    return save(dict(arrays), {METADATA: json.dumps(settings, ensure_ascii=False)})


class PackedEncoder(EncoderSession):
    """The packed file in the C++ kernel of this processor: what the page computes, natively.

    Raises KernelError if the kernel is not available.
    """

    def __init__(self, arrays: Arrays, settings: Mapping[str, Any]) -> None:
        super().__init__(read_dims(settings), PRECISIONS[settings["precision"]])
        self._arrays = arrays  # the kernel does not copy the token vectors
        upload(self.weights, arrays)
        self._settings = settings["head"]
        own = {each.name: self._settings[each.name] for each in fields(Head)}
        head = replace(Head(**own), output="" if self._settings["by_table"] else own["output"])
        output = f"head.{head.output}"
        n_outputs = len(arrays[output]) if output in arrays else self.width
        self._head_norm = {
            name.removeprefix(HOST): array for name, array in arrays.items() if HOST in name
        }
        self.set_head(head, n_outputs)

    def outputs(self, rows: Ragged, segments: Ids | None = None) -> Floats:
        """The outputs of the head (N, L); of a head of tokens those of all tokens (n, L)."""
        if not self._settings["of_tokens"]:
            return self._dense(super().outputs(rows, segments))
        hidden = self.hidden_states(rows, segments)  # (n, D)
        x = self._apply_head(hidden, np.arange(len(hidden) + 1, dtype=np.int32), None)
        if not self._settings["by_table"]:
            return x
        table = self._arrays[TOKENS].astype(np.float32)  # (V, E)
        y: Floats = x @ table.T  # (n, V)
        if f"{TOKENS}.scale" in self._arrays:
            y *= self._arrays[f"{TOKENS}.scale"]
        return y + self._arrays[f"{HOST}bias"] if f"{HOST}bias" in self._arrays else y

    def _apply(self, name: str, x: Floats, outputs: int, activation: str) -> Floats:
        return super()._apply(name, x, len(self._arrays[f"head.{name}"]), activation)

    def _dense(self, x: Floats) -> Floats:
        """The dense layers of sentence-transformers, and divisions by the length."""
        for step in self._settings["dense"]:
            if step["linear"]:
                x = self._apply(step["linear"], x, 0, step["activation"])
            else:
                self._normalize(x)
        return x


def upload(weights: PackedWeights, arrays: Arrays) -> None:
    """Copy the tensors of a packed file to the kernel; the vectors of "tokens" are only read."""
    kernel, handle = weights.library, weights.handle
    for name, array in arrays.items():
        if name.startswith((TOKENIZER, HOST)) or name.rpartition(".")[0] in arrays:
            continue  # of the tokenizer, or the scales and the bias of a linear map
        scale, bias = (arrays.get(f"{name}.{part}") for part in ("scale", "bias"))
        if name == TOKENS:
            kind = TABLE_TYPES.index(array.dtype.name)
            kernel.jumok_set_tokens(handle, kind, *array.shape, *map(address, (array, scale)))
        elif array.ndim == 2:
            sizes = (*array.shape, bias is not None)
            _check(kernel.jumok_allocate_linear(handle, name.encode(), *sizes), name)
            addresses = map(address, (array, scale, bias))
            _check(kernel.jumok_set_rows(handle, name.encode(), 0, len(array), *addresses), name)
        else:
            status = kernel.jumok_set_vector(handle, name.encode(), array.size, address(array))
            _check(status, name)


def _check(status: int, name: str) -> None:
    if status != OK:
        raise JumokError(
            "web.tensor_refused",
            "the kernel must accept every tensor of a packed file, got status {status} for "
            "{name}; export the run again",
            status=status,
            name=name,
        )
