"""What reads texts with an encoder, and why."""

from typing import Literal

from torch import nn

from jumok.inference.unpadded_stack import UnpaddedStack
from jumok.native.choice import KernelChoice

PLAIN_ENCODER = (
    "an encoder runs in float32 with PyTorch: packing its weights takes longer than reading a text"
)


def encoder_choice(model: nn.Module) -> KernelChoice:
    """What reads texts with an encoder: PyTorch, or what `--precision` has replaced it with."""
    for module in model.modules():
        if isinstance(module, UnpaddedStack):
            kernel: Literal["torch", "native"] = "native" if module.is_native else "torch"
            return KernelChoice(kernel, module.precision, "an encoder without padding")
    return KernelChoice("torch", "float32", PLAIN_ENCODER)
