"""Writing fast: the plain model's weights in a C++ kernel that is compiled at first use.

    native = NativeModel(model, "int8")                 # or float32, bfloat16
    writer = NativeWriter(native, source, real, room=100)

An encoder that only reads is a `NativeEncoder`; `jumok.inference` puts it in its place.

The plain model stays the truth, and every precision is tested against it. A kernel that cannot be
had, or a model it does not know, raises KernelError; then write with the plain model.
"""

from jumok.native.build import KernelError
from jumok.native.decoder import NativeDecoder
from jumok.native.encoder import NativeEncoder
from jumok.native.model import NativeModel, is_optimized, unsupported_reason
from jumok.native.packed_weights import WeightPrecision
from jumok.native.quantize import quantize_int8, quantize_rows, to_bfloat16

__all__ = [
    "KernelError",
    "NativeEncoder",
    "NativeModel",
    "NativeDecoder",
    "WeightPrecision",
    "to_bfloat16",
    "quantize_int8",
    "is_optimized",
    "unsupported_reason",
    "quantize_rows",
]
