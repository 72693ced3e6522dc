"""The packed file of an encoder: one safetensors file under the names of the C++ kernel.

A tensor of two dimensions is a linear map, with NAME.scale in int8 and NAME.bias; "tokens" is the
table of token vectors, and every other tensor is a vector of the kernel. The metadata "jumok" is
JSON: the dimensions, the head, the task, the tokenizer and a few texts with their outputs. The page
(web/src/model) and `PackedEncoder` loop over the tensors and know no layer.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal

import numpy as np
from safetensors.numpy import save

from jumok.errors import JumokError
from jumok.models.config import TransformerConfig
from jumok.native.layout import (
    Array,
    Arrays,
    encoder_dims,
    layer_linears,
    layer_norms,
    norm_vectors,
    position_tables,
    to_float32,
)
from jumok.native.library import OK, TABLE_TYPES, ModelDims
from jumok.native.packed_weights import PRECISIONS, pack_rows
from jumok.native.session import EncoderSession, Head

FORMAT = 1
METADATA = "jumok"
TOKENS = "tokens"
TOKENIZER = "tokenizer."  # the beginning of the names of its tensors

WebPrecision = Literal["float32", "int8"]


def packed_arrays(
    config: TransformerConfig, head: Head, arrays: Arrays, precision: WebPrecision
) -> dict[str, Array]:
    """The tensors of the file, of an encoder's weights by their names; heads stay float32."""
    found: dict[str, Array] = {}

    def add_linear(name: str, *modules: str) -> None:
        weights = [to_float32(arrays[f"{module}.weight"]) for module in modules]  # (N, K) each
        own = "float32" if name.startswith("head.") else precision
        found[name], scale = pack_rows(name, np.concatenate(weights), own)
        if scale is not None:
            found[f"{name}.scale"] = scale
        biases = [arrays.get(f"{module}.bias") for module in modules]
        if any(bias is not None for bias in biases):
            parts = zip(weights, biases, strict=True)
            found[f"{name}.bias"] = np.concatenate(
                [np.zeros(len(w), np.float32) if b is None else to_float32(b) for w, b in parts]
            )

    stack, embedding = "encoder.stack.", "encoder.embedding."
    add_linear(TOKENS, f"{embedding}tokens")
    for name, modules in layer_linears("encoder", arrays, stack, config.n_layers):
        add_linear(name, *modules)
    if f"{embedding}projection.weight" in arrays:
        add_linear("encoder.projection", f"{embedding}projection")
    for name in filter(None, (head.pooler, head.output)):
        add_linear(f"head.{name}", name)
    vectors = [
        *layer_norms("encoder", arrays, stack, config.n_layers),
        *norm_vectors("encoder.embedding_norm", arrays, f"{embedding}norm"),
        *position_tables(config, arrays),
    ]
    found |= {name: np.ascontiguousarray(vector).reshape(-1) for name, vector in vectors}
    return found


def packed_settings(
    config: TransformerConfig, head: Head, precision: WebPrecision
) -> dict[str, Any]:
    """The dimensions and the head of a model, as JSON."""
    dims = encoder_dims(config)
    values = [getattr(dims, field[0]) for field in ModelDims._fields_]
    return {
        "format": FORMAT,
        "precision": PRECISIONS.index(precision),
        "dims": {
            "integers": [value for value in values if isinstance(value, int)],
            "floats": [value for value in values if isinstance(value, float)],
        },
        "d_model": dims.d_model,
        "head": asdict(head),
    }


def pack(arrays: Arrays, settings: Mapping[str, Any]) -> bytes:
    """The bytes of the file; equal inputs give equal bytes."""
    return save(dict(arrays), {METADATA: json.dumps(settings, ensure_ascii=False)})


class PackedEncoder(EncoderSession):
    """The packed file in the C++ kernel of this processor: what the page computes, natively.

    Raises KernelError if the kernel is not available.
    """

    def __init__(self, arrays: Arrays, settings: Mapping[str, Any]) -> None:
        dims = ModelDims(*settings["dims"]["integers"], *settings["dims"]["floats"])
        super().__init__(dims, PRECISIONS[settings["precision"]])
        self._arrays = arrays  # the kernel does not copy the token vectors
        for name, array in arrays.items():
            if not name.startswith(TOKENIZER):
                self._upload(name, array)
        head = Head(**settings["head"])
        output = f"head.{head.output}"
        self.set_head(head, len(arrays[output]) if output in arrays else self.width)

    def _upload(self, name: str, array: Array) -> None:
        scale, bias = (self._arrays.get(f"{name}.{part}") for part in ("scale", "bias"))
        kernel, handle = self.weights.library, self.weights.handle
        if name == TOKENS:
            kind = TABLE_TYPES.index(array.dtype.name)
            kernel.jumok_set_tokens(handle, kind, *array.shape, *map(_address, (array, scale)))
        elif array.ndim == 2:
            sizes = (*array.shape, bias is not None)
            _check(kernel.jumok_allocate_linear(handle, name.encode(), *sizes), name)
            addresses = map(_address, (array, scale, bias))
            _check(kernel.jumok_set_rows(handle, name.encode(), 0, len(array), *addresses), name)
        elif not self._belongs_to_linear(name):
            status = kernel.jumok_set_vector(handle, name.encode(), array.size, _address(array))
            _check(status, name)

    def _belongs_to_linear(self, name: str) -> bool:
        owner = self._arrays.get(name.rpartition(".")[0])
        return owner is not None and owner.ndim == 2


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
