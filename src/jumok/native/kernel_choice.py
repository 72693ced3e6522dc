"""What runs a model: the C++ kernel, PyTorch or numpy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jumok.native.instruction_sets import best_instruction_set

if TYPE_CHECKING:
    from jumok.native.packed_weights import DecoderPrecision


@dataclass(frozen=True)
class KernelChoice:
    """What runs a model, and why; `results.json` and `jumok predict --timing` contain it.

    >>> print(KernelChoice("torch", "float32", "the model is on cuda:0"))
    torch in float32: the model is on cuda:0
    """

    kernel: Literal["torch", "native", "numpy"]
    precision: "DecoderPrecision"
    reason: str

    @classmethod
    def of_engine(cls, precision: "DecoderPrecision") -> "KernelChoice":
        """The choice of `jumok.engine`, with the instructions of the kernel."""
        instructions = best_instruction_set().name
        return cls("native", precision, f"the engine for {instructions}, without PyTorch")

    def __str__(self) -> str:
        """One line."""
        return f"{self.kernel} in {self.precision}: {self.reason}"
