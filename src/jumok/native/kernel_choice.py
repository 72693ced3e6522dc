"""What runs a model: the C++ kernel or PyTorch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from jumok.native.packed_weights import DecoderPrecision


@dataclass(frozen=True)
class KernelChoice:
    """What runs a model, and why; `results.json` and `jumok predict --timing` contain it.

    >>> print(KernelChoice("torch", "float32", "the model is on cuda:0"))
    torch in float32: the model is on cuda:0
    """

    kernel: Literal["torch", "native"]
    precision: "DecoderPrecision"
    reason: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kernel} in {self.precision}: {self.reason}"
