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
from jumok.native.measured import FASTER, FASTER_ENCODERS, not_measured
from jumok.native.model import unsupported_reason
from jumok.native.packed_weights import DecoderPrecision

logger = logging.getLogger(__name__)

RequestedKernel = Literal["auto", "torch", "native"]

IN_TRAINING = "a training is evaluated with PyTorch, whatever kernels are compiled"


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
        reason = not_measured(instructions, precision)
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


def check_faster(precision: DecoderPrecision) -> None:
    """Raise KernelError where the kernel is not known to be faster for an encoder."""
    instructions = best_instruction_set().name
    if precision not in FASTER_ENCODERS[instructions]:
        raise KernelError(not_measured(instructions, precision))


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
