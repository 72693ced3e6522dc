"""Writing fast: the plain model's weights in a C++ kernel that is compiled at first use.

    native = NativeModel(model, "int8")                 # or float32, bfloat16
    writer = NativeWriter(native, source, real, room=100)

An encoder that only reads is a `NativeEncoder`; `jumok.inference` puts it in its place.

The plain model stays the truth, and every precision is tested against it. A kernel that cannot be
had, or a model it does not know, raises KernelError; then write with the plain model.
"""

from jumok.native.build import KernelError
from jumok.native.decoder import NativeWriter
from jumok.native.encoder import NativeEncoder
from jumok.native.model import NativeModel, is_fast_copy, obstacle
from jumok.native.packed_weights import Precision
from jumok.native.quantize import in_bfloat16, in_int8, quantize_rows

__all__ = [
    "KernelError",
    "NativeEncoder",
    "NativeModel",
    "NativeWriter",
    "Precision",
    "in_bfloat16",
    "in_int8",
    "is_fast_copy",
    "obstacle",
    "quantize_rows",
]
