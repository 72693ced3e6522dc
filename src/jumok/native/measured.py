"""Where the C++ kernel was measured to be faster than PyTorch, and whether it is compiled."""

from typing import TYPE_CHECKING

from jumok.errors import Message
from jumok.native.build import compiled_kernel
from jumok.native.instruction_sets import best_instruction_set

if TYPE_CHECKING:
    from jumok.native.packed_weights import DecoderPrecision

# The precisions in which the kernel decodes faster than PyTorch in the same precision, for each
# instruction set: measured on Zen 4 for avx512_bf16 (benchmarks/results/decoding_speed_avx512.txt)
# and capped at avx2 (decoding_speed_avx2.txt). The sets between them were compared by their
# products only, and neon ran in an emulator, so its speed is not known. amx_int8 differs from
# avx512_bf16 in int8 only; decoding with it was not compared with PyTorch, which has AMX as well.
# Without instructions for bfloat16 the kernel reads half the memory of float32, and PyTorch
# emulates them.
FASTER: dict[str, "tuple[DecoderPrecision, ...]"] = {
    **dict.fromkeys(("generic", "neon"), ()),
    **dict.fromkeys(
        ("avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx_int8"),
        ("float32", "bfloat16", "int8", "q8_0", "q4_0"),
    ),
}

# For encoders the same, and int8 with pairs of int16: 0.45 to 0.67 of PyTorch's time in float32
# and 0.26 to 0.41 of that in int8, both capped below AVX (docs/LOG.md, 2026-11-28).
FASTER_ENCODERS = FASTER | {
    "generic": ("int8",),
    "amx_int8": ("float32", "int8"),  # bfloat16: PyTorch has AMX there
}


def is_compiled(precision: "DecoderPrecision") -> bool:
    """Whether a kernel is compiled that is known to be faster than PyTorch in this precision."""
    return precision in FASTER[best_instruction_set().name] and compiled_kernel() is not None


def is_usable(precision: "DecoderPrecision", *, requested: bool = False) -> bool:
    """Whether decoding uses the kernel by itself, or where it is requested and is not slower.

    In float32 it must be compiled already: another precision is a choice for speed, and compiles.
    """
    fast = precision in FASTER[best_instruction_set().name]
    return fast and (requested or precision != "float32" or compiled_kernel() is not None)


def is_compiled_encoder(precision: "DecoderPrecision") -> bool:
    """The same for an encoder."""
    fast = precision in FASTER_ENCODERS[best_instruction_set().name]
    return fast and compiled_kernel() is not None


def not_measured(instructions: str, precision: "DecoderPrecision") -> Message:
    """The reason against a kernel that was not measured to be faster."""
    return Message(
        "kernel.not_measured",
        "the kernel for {instructions} has not been measured to be faster than PyTorch in "
        "{precision}",
        instructions=instructions,
        precision=precision,
    )
