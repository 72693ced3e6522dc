"""Packed weights of the C++ kernel, uploaded under the names of kernel/transformer.h."""

import ctypes
from collections.abc import Sequence
from typing import Literal

import numpy as np

from jumok.config_io import check_choice
from jumok.errors import JumokError
from jumok.models.finite_weights import check_finite_array
from jumok.models.int8_weights import SUFFIX, dequantize_rows, quantize_rows
from jumok.native.gguf_quantize import BlockName, quantize, scales
from jumok.native.layout import Array, Arrays, Floats, to_bfloat16, to_float32
from jumok.native.library import OK, OUT_OF_MEMORY, TABLE_TYPES, ModelDims, library

WeightPrecision = Literal["float32", "bfloat16", "int8"]
DecoderPrecision = WeightPrecision | BlockName  # an encoder has no blocks

# In the order of c_api.cpp.
PRECISIONS: tuple[DecoderPrecision, ...] = ("float32", "bfloat16", "int8", "q8_0", "q4_0")

_HEAD = "head."  # linear maps of these names are float32 in every precision
_LARGEST = 128  # magnitude of int8
_ROWS_PER_UPLOAD = 256  # converted at a time, which avoids a second copy of a large matrix


class PackedWeights:
    """The kernel's own copy of weights. It is immutable, so deepcopy returns the same object.

    Raises KernelError if the kernel is not available.
    """

    def __init__(self, dims: ModelDims, precision: DecoderPrecision) -> None:
        check_choice("precision", precision, DecoderPrecision)
        self.dims, self.precision = dims, precision
        self.library = library()
        # The table of tokens and the scales of its rows: kept alive, since the kernel reads them.
        self._borrowed: tuple[Array, Floats | None] | None = None
        self.handle: int = self.library.jumok_create_model(
            ctypes.byref(dims), PRECISIONS.index(precision)
        )

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.library.jumok_free_model(self.handle)

    def __deepcopy__(self, memo: dict[int, object]) -> "PackedWeights":
        return self

    @property
    def bytes(self) -> int:
        """The memory of the packed weights."""
        return int(self.library.jumok_weight_bytes(self.handle))

    def upload_linear(self, name: str, arrays: Arrays, modules: Sequence[str]) -> None:
        """Pack the linear maps of these names, their outputs concatenated, or an embedding table.

        A matrix of int8 is multiplied by the scales of its rows (`jumok.models.int8_weights`).
        Raises JumokError when memory runs out.
        """
        weights = [arrays[f"{module}.weight"] for module in modules]  # (N, K) each
        row_scales = [arrays.get(f"{module}.weight{SUFFIX}") for module in modules]  # (N) each
        biases = [arrays.get(f"{module}.bias") for module in modules]
        outputs, inputs = sum(map(len, weights)), weights[0].shape[1]
        biased = any(bias is not None for bias in biases)
        status = self.library.jumok_allocate_linear(
            self.handle, name.encode(), outputs, inputs, biased
        )
        _check_status(status, name)
        first = 0
        for weight, scale, bias in zip(weights, row_scales, biases, strict=True):
            for start in range(0, len(weight), _ROWS_PER_UPLOAD):
                rows = slice(start, start + _ROWS_PER_UPLOAD)
                row_bias = None if bias is None else to_float32(bias[rows])
                part = weight[rows] if scale is None else dequantize_rows(weight[rows], scale[rows])
                self._upload_rows(name, first + start, part, row_bias)
            first += len(weight)

    def _upload_rows(self, name: str, first: int, weight: Array, bias: Floats | None) -> None:
        """Pack rows (n, K) of a linear map, starting at output `first`, with their biases (n)."""
        precision = "float32" if name.startswith(_HEAD) else self.precision
        packed, scale = pack_rows(name, weight, precision)
        if bias is not None:
            check_finite_array(f"{name}.bias", bias, "a packed model")
        status = self.library.jumok_set_rows(
            *(self.handle, name.encode(), first, len(packed)),
            *(address(packed), address(scale), address(bias)),
        )
        assert status == OK, name

    def set_decoder_layer(self, layer: int, window: int, rotary: int) -> None:
        """The window of a decoder layer (0: none); rotary is 0 none, 1 shared, 2 local."""
        self.library.jumok_set_decoder_layer(self.handle, layer, window, rotary)

    def upload_vector(self, name: str, vector: Array) -> None:
        """Copy a vector or a table that stays in float32."""
        values = np.ascontiguousarray(to_float32(vector))
        check_finite_array(name, values, "a packed model")
        status = self.library.jumok_set_vector(
            self.handle, name.encode(), values.size, address(values)
        )
        _check_status(status, name)

    def copy_tokens(self) -> None:
        """Copy the borrowed token vectors, so that their file may change."""
        if self._borrowed is not None:
            table, scale = self._borrowed
            self.borrow_tokens(table.copy(), None if scale is None else scale.copy())

    def borrow_tokens(self, table: Array, scale: Floats | None = None) -> None:
        """Read token vectors (V, E) where they are, such as in a mapped file; they stay there.

        Those of int8 have the scales (V) of their rows.
        """
        table = np.ascontiguousarray(table)
        check_finite_array("encoder.tokens", table, "a packed model")
        if scale is not None:
            check_finite_array("encoder.tokens", scale * np.float64(_LARGEST), "a packed model")
        self._borrowed = table, scale
        kind = "bfloat16" if table.dtype == np.uint16 else table.dtype.name
        self.library.jumok_set_tokens(
            *(self.handle, TABLE_TYPES.index(kind), *table.shape, address(table), address(scale))
        )


def pack_rows(name: str, weight: Array, precision: DecoderPrecision) -> tuple[Array, Floats | None]:
    """Rows of weights (n, K) as the kernel reads them, and the scale of each row in int8.

    Raises ConfigError, which names them, for weights that are not finite in the precision.
    """
    check_finite_array(name, weight, "a packed model")
    if precision == "int8":
        return quantize_rows(to_float32(weight))
    if precision in ("q8_0", "q4_0"):
        blocks = quantize(to_float32(weight), precision)
        halves = scales(blocks, precision)
        check_finite_array(name, halves, "a packed model")  # the scales of huge weights are not
        return np.ascontiguousarray(blocks), None
    packed: Array = to_bfloat16(weight) if precision == "bfloat16" else to_float32(weight)
    check_finite_array(name, packed, "a packed model")  # a huge float32 is not in bfloat16
    return np.ascontiguousarray(packed), None


def _check_status(status: int, name: str) -> None:
    if status == OUT_OF_MEMORY:
        raise JumokError(
            "kernel.out_of_memory_in_packing",
            "memory ran out while the weights of {name} were packed; free memory, or use a "
            "smaller precision",
            name=name,
        )
    assert status == OK, name


def address(array: Array | None) -> int | None:
    """The address of an array's data; null for None."""
    return None if array is None else array.ctypes.data
