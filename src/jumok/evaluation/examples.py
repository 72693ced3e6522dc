"""Examples for a report: outputs with their references, and confident mistakes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """A text with a wrong predicted label and the probability of that label."""

    text: str
    truth: str
    predicted: str
    probability: float  # of `predicted`, 0 to 1


@dataclass(frozen=True)
class Example:
    """A source, its reference target and the output of the model."""

    source: str
    target: str
    output: str
