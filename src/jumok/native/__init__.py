"""Fast decoding on the CPU: a PyTorch model's weights in a C++ kernel, chosen for the processor.

    native = NativeModel(model, "int8")                 # or float32, bfloat16, q8_0, q4_0
    decoder = NativeDecoder(native, source, source_mask, capacity=100)

`NativeEncoder` runs the layers of an encoder; `jumok.inference` replaces them by it.

The PyTorch model is the reference: every precision is tested against it. If the kernel is not
available or does not support a model, KernelError is raised; use the PyTorch model then.
"""

from typing import TYPE_CHECKING

from jumok.lazy import lazy_names

if TYPE_CHECKING:
    from jumok.native.build import KernelError
    from jumok.native.decoder import NativeDecoder
    from jumok.native.encoder import NativeEncoder
    from jumok.native.model import NativeModel, is_optimized, unsupported_reason
    from jumok.native.packed_weights import DecoderPrecision, WeightPrecision
    from jumok.native.quantize import quantize_int8, quantize_rows, round_to_blocks, to_bfloat16

__all__ = [
    "DecoderPrecision",
    "KernelError",
    "NativeDecoder",
    "NativeEncoder",
    "NativeModel",
    "WeightPrecision",
    "is_optimized",
    "quantize_int8",
    "quantize_rows",
    "round_to_blocks",
    "to_bfloat16",
    "unsupported_reason",
]

# Imported on first access: `jumok.native.build` compiles the kernel without torch.
__getattr__, __dir__ = lazy_names(__name__)
