"""Exported: the model written as another library's folder, opened there and asked there."""

from dataclasses import dataclass

from jumok.checks.invariance import Measured, NotApplicable, Outcome, outcome_of
from jumok.checks.target import Subject
from jumok.errors import InputError
from jumok.export import ctranslate2, exported_difference, huggingface, onnx


@dataclass(frozen=True)
class Exported:
    """A row of the table: the difference is measured where the export is made."""

    to: str
    tolerance: float

    @property
    def name(self) -> str:
        """With the target behind it: there is a row for each."""
        return f"exported = ours ({self.to})"

    @property
    def compared(self) -> str:
        """In a sentence."""
        return f"the model exported to {self.to} and opened there, and the model itself"

    def measure(self, subject: Subject) -> Outcome:
        """Not applicable when the target cannot express the model, or is not installed."""
        return outcome_of(self, lambda: self._measured(subject))

    def _measured(self, subject: Subject) -> Measured:
        if subject.loaded.device.type != "cpu":
            raise NotApplicable("exports are compared on the CPU, and the model is elsewhere")
        try:
            return Measured(exported_difference(subject.loaded, self.to), self.tolerance)
        except InputError as reason:  # it is not refused for its numbers
            raise NotApplicable(str(reason)) from None


EXPORTED = (
    Exported("hf", huggingface.TOLERANCE),
    Exported("onnx", onnx.TOLERANCE),
    Exported("ctranslate2", ctranslate2.TOLERANCE),
)
