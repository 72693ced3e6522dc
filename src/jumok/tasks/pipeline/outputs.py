"""What a trained model says to a text."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol


class Output(Protocol):
    """One answer to one text, a dataclass: `--json` prints its fields, those not None."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def text(self) -> str:
        """What was asked."""

    @property
    def display(self) -> str:
        """The answer for a person to read, on one line unless it holds line breaks itself."""


@dataclass(frozen=True)
class Prediction:
    """The likeliest label of a text, its probability, and those of all labels."""

    text: str
    label: str
    probability: float
    probabilities: dict[str, float]

    @property
    def display(self) -> str:
        """The answer on one line."""
        return f"{self.label}\t{self.probability:.4f}"


@dataclass(frozen=True)
class RegressionOutput:
    """The score of a text, on the scale of the data it was learnt from."""

    text: str
    score: float

    @property
    def display(self) -> str:
        """The answer on one line."""
        return f"{self.score:.4f}"


@dataclass(frozen=True)
class NamedEntity:
    """A part of a text that names something of a type: `text` is its characters start:end."""

    type: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class TokenClassification:
    """The entities of a text, in order.

    >>> TokenClassification("서울에 간다", (NamedEntity("LC", 0, 2, "서울"),)).shown
    '[서울 LC]에 간다'
    """

    text: str
    entities: tuple[NamedEntity, ...]

    @property
    def display(self) -> str:
        """The text, its line breaks too, with its entities in brackets."""
        parts, at = [], 0
        for entity in self.entities:
            parts += [self.text[at : entity.start], f"[{entity.text} {entity.type}]"]
            at = entity.end
        return "".join([*parts, self.text[at:]])


@dataclass(frozen=True)
class Candidate:
    """One of several texts written; of a beam search the one of highest `rank` is the best."""

    output: str
    score: float
    rank: float


@dataclass(frozen=True)
class GeneratedToken:
    """One token that was written, and the logarithm of the probability it was given."""

    piece: str
    id: int
    log_probability: float


@dataclass(frozen=True)
class GeneratedText:
    """What was written for a text, and its log-probability (natural, summed over the tokens).

    `n_best` are all outputs where several were asked for: of a beam the best first, draws in the
    order in which they were drawn. `loop` tells of the same
    tokens over and over at the end. `tokens` are those of the best output, [EOS] among them.
    """

    text: str
    output: str
    score: float
    n_best: tuple[Candidate, ...] | None = None
    loop: str | None = None
    tokens: tuple[GeneratedToken, ...] = field(default=(), compare=False, repr=False)

    @property
    def display(self) -> str:
        """The answer as it is, its line breaks too; of several a line each, with its rank."""
        if self.n_best is None:
            return self.output
        return "\n".join(f"{each.rank:.4f}\t{each.output}" for each in self.n_best)
