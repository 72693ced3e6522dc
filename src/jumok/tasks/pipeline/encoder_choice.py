"""What reads texts with an encoder, and why."""

from torch import nn

from jumok.native.kernel_choice import KernelChoice

PLAIN_ENCODER = (
    "an encoder runs in float32 with PyTorch: packing its weights takes longer than reading a text"
)


def encoder_choice(model: nn.Module) -> KernelChoice:
    """What reads texts with an encoder: PyTorch, or what `--precision` has replaced it with."""
    for module in model.modules():
        choice = getattr(module, "kernel_choice", None)  # of an `UnpaddedStack`
        if isinstance(choice, KernelChoice):
            return choice
    return KernelChoice("torch", "float32", PLAIN_ENCODER)
