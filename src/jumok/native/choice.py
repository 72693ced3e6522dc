"""The choice between the C++ kernel and PyTorch: once for a model, never by batch.

It depends on the processor, the model, the precision and whether a compiled kernel is there, so an
answer depends neither on its batch nor on the load of the machine. In float32, the default, `auto`
takes a compiled kernel or none: half a minute of compilation would surprise in a short prediction.
A user who chooses another precision asks for speed, and int8 without the kernel is slower than
float32 with PyTorch, so that compiles, once, with a message.
"""

import logging
from typing import Literal

import torch
from torch import nn

from jumok.device import has_fast_bfloat16
from jumok.errors import Message
from jumok.native.build import KernelError, compiled_kernel, kernel_path
from jumok.native.instruction_sets import best_instruction_set
from jumok.native.kernel_choice import KernelChoice
from jumok.native.model import unsupported_reason
from jumok.native.packed_weights import DecoderPrecision

logger = logging.getLogger(__name__)

RequestedKernel = Literal["auto", "torch", "native"]

IN_TRAINING = "a training is evaluated with PyTorch, whatever kernels are compiled"

# The precisions in which the kernel decodes faster than PyTorch in the same precision, for each
# instruction set: measured on Zen 4 for avx512_bf16 (benchmarks/results/decoding_speed_avx512.txt)
# and capped at avx2 (decoding_speed_avx2.txt). The sets between them were compared by their
# products only, and neon ran in an emulator, so its speed is not known. amx_int8 differs from
# avx512_bf16 in int8 only; decoding with it was not compared with PyTorch, which has AMX as well.
# Without instructions for bfloat16 the kernel reads half the memory of float32, and PyTorch
# emulates them.
FASTER: dict[str, tuple[DecoderPrecision, ...]] = {
    "generic": (),
    "neon": (),
    "avx2": ("float32", "bfloat16", "int8", "q8_0", "q4_0"),
    "avx_vnni": ("float32", "bfloat16", "int8", "q8_0", "q4_0"),
    "avx512": ("float32", "bfloat16", "int8", "q8_0", "q4_0"),
    "avx512_vnni": ("float32", "bfloat16", "int8", "q8_0", "q4_0"),
    "avx512_bf16": ("float32", "bfloat16", "int8", "q8_0", "q4_0"),
    "amx_int8": ("float32", "bfloat16", "int8", "q8_0", "q4_0"),
}

# For encoders the same, and int8 with pairs of int16: 0.45 to 0.67 of PyTorch's time in float32
# and 0.26 to 0.41 of that in int8, both capped below AVX (benchmarks/int8_without_avx2.py).
FASTER_ENCODERS = FASTER | {"generic": ("int8",)}


def choose_kernel(
    model: nn.Module,
    requested: RequestedKernel = "auto",
    precision: DecoderPrecision = "float32",
    *,
    coverage: bool = False,
) -> KernelChoice:
    """The kernel for decoding with a model; warns once about a request that is slower.

    Raises KernelError when "native" is requested and is not available.
    """
    if requested == "torch":
        return _torch(precision, 'decoding.kernel is "torch"')
    instructions = best_instruction_set().name
    faster = precision in FASTER[instructions]
    if requested == "native":
        kernel_path()
        if not faster:
            warn_once(
                Message(
                    "kernel.native_slower",
                    'decoding.kernel="native" is slower than PyTorch in {precision} on '
                    '{instructions}; leave it at "auto"',
                    precision=precision,
                    instructions=instructions,
                )
            )
        return KernelChoice("native", precision, f'decoding.kernel is "native"; {instructions}')
    reason: Message | str | None = _reason_against(model, coverage)
    if reason is None and not faster:
        reason = _not_measured(instructions, precision)
    if reason is None:
        try:
            found = kernel_path() if precision != "float32" else compiled_kernel()
        except KernelError as error:
            reason = error.message
        else:
            if found is not None:
                return KernelChoice("native", precision, f"the fastest on {instructions}")
            reason = (
                f"no kernel for {instructions} is compiled; compile it with "
                "python -m jumok.native.build"
            )
    return _torch(precision, reason)


def is_compiled(precision: DecoderPrecision) -> bool:
    """Whether a kernel is compiled that is known to be faster than PyTorch in this precision."""
    return precision in FASTER[best_instruction_set().name] and compiled_kernel() is not None


def check_faster(precision: DecoderPrecision) -> None:
    """Raise KernelError where the kernel is not known to be faster for an encoder."""
    instructions = best_instruction_set().name
    if precision not in FASTER_ENCODERS[instructions]:
        raise KernelError(_not_measured(instructions, precision))


def _not_measured(instructions: str, precision: DecoderPrecision) -> Message:
    return Message(
        "kernel.not_measured",
        "the kernel for {instructions} has not been measured to be faster than PyTorch in "
        "{precision}",
        instructions=instructions,
        precision=precision,
    )


def _torch(precision: DecoderPrecision, reason: Message | str) -> KernelChoice:
    if precision == "int8":
        warn_once(
            Message(
                "kernel.slow_int8",
                "decoding.precision=int8 is slower than float32 in PyTorch ({reason}); leave it "
                "out, or make the C++ kernel available",
                reason=reason,
            )
        )
    elif precision in ("q8_0", "q4_0"):
        warn_once(
            Message(
                "kernel.slow_precision",
                "decoding.precision={precision} is not faster than float32 in PyTorch "
                "({reason}); leave it out, or make the C++ kernel available",
                precision=precision,
                reason=reason,
            )
        )
    if precision == "bfloat16" and not has_fast_bfloat16(torch.device("cpu")):
        warn_once(
            Message(
                "kernel.slow_bfloat16",
                "decoding.precision=bfloat16 is slower than float32 on this processor, which has "
                "no instructions for it; leave it out",
            )
        )
    return KernelChoice("torch", precision, str(reason))


def _reason_against(model: nn.Module, coverage: bool) -> Message | None:
    """Why the kernel cannot decode with the model, whatever the processor; None if it can."""
    device = next(model.parameters()).device
    if device.type != "cpu":
        return Message(
            "kernel.model_not_on_cpu",
            "the model is on {device}, and the kernel runs on the CPU",
            device=str(device),
        )
    if coverage:
        return Message(
            "kernel.no_attention_weights",
            "decoding.coverage reads attention weights, which the kernel does not return",
        )
    return unsupported_reason(model)


warned: set[str] = set()  # the warnings of this process


def warn_once(message: Message) -> None:
    """Log a warning, once in a process."""
    if str(message) not in warned:
        warned.add(str(message))
        logger.warning(message)
