"""The packed file of a model: one safetensors file under the names of the C++ kernel.

A tensor of two dimensions is a linear map, with NAME.scale in int8 and NAME.bias; "tokens" is the
table of token vectors, and every other tensor is a vector of the kernel. The metadata "jumok" is
JSON: the dimensions, the head or the settings of decoding, the task, the tokenizers and a few texts
with their outputs. The page (web/src/model) and `upload` loop over the tensors and name no layer.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save

from jumok.errors import JumokError
from jumok.models.config import TransformerConfig
from jumok.native.layout import (
    Array,
    Arrays,
    GeneratorKind,
    decoder_layer_rotations,
    decoder_layers,
    encoder_dims,
    generator_dims,
    generator_tables,
    layer_linears,
    layer_norms,
    norm_vectors,
    position_tables,
    to_float32,
    token_tables,
)
from jumok.native.library import OK, TABLE_TYPES, ModelDims
from jumok.native.packed_weights import PRECISIONS, PackedWeights, pack_rows
from jumok.native.session import EncoderSession, Head

FORMAT = 2
METADATA = "jumok"
TOKENS = "tokens"
TOKENIZER = "tokenizer."  # the beginning of the names of its tensors

WebPrecision = Literal["float32", "int8"]


def packed_arrays(
    config: TransformerConfig, head: Head, arrays: Arrays, precision: WebPrecision
) -> dict[str, Array]:
    """The tensors of the file, of an encoder's weights by their names; heads stay float32."""
    packer, embedding = _Packer(arrays, precision), "encoder.embedding."
    packer.add_linear(TOKENS, f"{embedding}tokens")
    packer.add_layers("encoder", config.n_layers)
    if f"{embedding}projection.weight" in arrays:
        packer.add_linear("encoder.projection", f"{embedding}projection")
    for name in filter(None, (head.pooler, head.output)):
        packer.add_linear(f"head.{name}", name)
    packer.add_vectors(position_tables(config, arrays))
    return packer.found


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
        own = "float32" if name.startswith("head.") else self.precision
        self.found[name], scale = pack_rows(name, np.concatenate(weights), own)
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


def packed_settings(
    config: TransformerConfig, head: Head, precision: WebPrecision
) -> dict[str, Any]:
    """The dimensions and the head of an encoder, as JSON."""
    return _dims(encoder_dims(config), precision) | {"head": asdict(head)}


def packed_generator_settings(
    config: TransformerConfig, kind: GeneratorKind, precision: WebPrecision
) -> dict[str, Any]:
    """The dimensions of a model that generates text, and the windows of its layers, as JSON."""
    settings = _dims(generator_dims(config, kind), precision)
    return settings | {"layers": decoder_layer_rotations(config)}


def _dims(dims: ModelDims, precision: WebPrecision) -> dict[str, Any]:
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
        head = Head(**settings["head"])
        output = f"head.{head.output}"
        self.set_head(head, len(arrays[output]) if output in arrays else self.width)


def upload(weights: PackedWeights, arrays: Arrays) -> None:
    """Copy the tensors of a packed file to the kernel; the vectors of "tokens" are only read."""
    kernel, handle = weights.library, weights.handle
    for name, array in arrays.items():
        if name.startswith(TOKENIZER) or name.rpartition(".")[0] in arrays:
            continue  # of the tokenizer, or the scales and the bias of a linear map
        scale, bias = (arrays.get(f"{name}.{part}") for part in ("scale", "bias"))
        if name == TOKENS:
            kind = TABLE_TYPES.index(array.dtype.name)
            kernel.jumok_set_tokens(handle, kind, *array.shape, *map(_address, (array, scale)))
        elif array.ndim == 2:
            sizes = (*array.shape, bias is not None)
            _check(kernel.jumok_allocate_linear(handle, name.encode(), *sizes), name)
            addresses = map(_address, (array, scale, bias))
            _check(kernel.jumok_set_rows(handle, name.encode(), 0, len(array), *addresses), name)
        else:
            status = kernel.jumok_set_vector(handle, name.encode(), array.size, _address(array))
            _check(status, name)


def _address(array: Array | None) -> int | None:
    return None if array is None else array.ctypes.data


def _check(status: int, name: str) -> None:
    if status != OK:
        raise JumokError(
            "web.tensor_refused",
            "the kernel must accept every tensor of a packed file, got status {status} for "
            "{name}; export the run again",
            status=status,
            name=name,
        )
