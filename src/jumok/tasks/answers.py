"""What a trained model says to a text."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol


class Answer(Protocol):
    """One answer to one text, a dataclass: its fields are what `--json` prints."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def text(self) -> str:
        """What was asked."""

    @property
    def shown(self) -> str:
        """The answer on one line."""


@dataclass(frozen=True)
class Prediction:
    """The likeliest label of a text, its probability, and those of all labels."""

    text: str
    label: str
    probability: float
    probabilities: dict[str, float]

    @property
    def shown(self) -> str:
        """The answer on one line."""
        return f"{self.label}\t{self.probability:.4f}"


@dataclass(frozen=True)
class Rewriting:
    """What was written for a text, and its log-probability (natural, summed over the tokens)."""

    text: str
    output: str
    score: float

    @property
    def shown(self) -> str:
        """The answer on one line."""
        return self.output
