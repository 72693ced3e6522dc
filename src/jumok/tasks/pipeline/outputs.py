"""What a pipeline returns: one output per text, and the result of an evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from jumok.config_io import to_dict
from jumok.evaluation.examples import Example, Mistake
from jumok.terminal import to_json_line

if TYPE_CHECKING:
    from jumok.evaluation.bootstrap import RowStatistics
    from jumok.native.kernel_choice import KernelChoice


FinishReason = Literal["stop", "length"]
Link = tuple[int, int, int, int, float]  # characters of the output, of the text; a weight


class Output(Protocol):
    """The output for one text, a dataclass: `--json` prints its fields that are not None."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def text(self) -> str:
        """The input text."""

    @property
    def warnings(self) -> tuple["OutputWarning", ...]:
        """What the output does not show: input that was not read, a repetition."""

    @property
    def display(self) -> str:
        """The output as text; on one line unless the generated text has line breaks."""


if TYPE_CHECKING:  # Pipeline without brackets is Pipeline[Any]: the task of a path is unknown
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", bound=Output, default=Any)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")


@dataclass(frozen=True)
class OutputWarning:
    """What the output for a text does not show: a code for programs, and a sentence.

    The codes are "empty_text", "no_mask", "repetition", "truncated" and "unknown_characters".
    """

    code: str
    message: str
    n_unread: int = field(default=0, compare=False, repr=False)  # tokens of a truncated text


@dataclass(frozen=True)
class Prediction:
    """The most probable label of a text, its probability, and the probabilities of all labels.

    >>> prediction = Prediction("재미있어요", "good", 0.9, {"good": 0.9, "bad": 0.1})
    >>> prediction.label, prediction.probability
    ('good', 0.9)
    """

    text: str
    label: str
    probability: float
    probabilities: dict[str, float]
    warnings: tuple[OutputWarning, ...] = field(default=(), repr=False)

    @property
    def display(self) -> str:
        """The label and its probability on one line."""
        return f"{self.label}\t{self.probability:.4f}"


@dataclass(frozen=True)
class MultiLabelPrediction:
    r"""The labels of a text, in the order of the model's labels, and the probabilities of all.

    A text may have no label. The probabilities are of independent decisions: their sum is not 1.

    >>> found = MultiLabelPrediction("연기가 좋아요", ("연기",), {"연기": 0.9, "음악": 0.2})
    >>> found.labels, found.display
    (('연기',), '연기\t0.9000')
    """

    text: str
    labels: tuple[str, ...]
    probabilities: dict[str, float]
    warnings: tuple[OutputWarning, ...] = field(default=(), repr=False)

    @property
    def display(self) -> str:
        """The labels and their probabilities on one line, both separated by "|"."""
        chosen = [f"{self.probabilities[label]:.4f}" for label in self.labels]
        return f"{'|'.join(self.labels)}\t{'|'.join(chosen)}"


@dataclass(frozen=True)
class RegressionOutput:
    """The score of a text, on the scale of the training data.

    >>> RegressionOutput("비가 옵니다", 3.25).score
    3.25
    """

    text: str
    score: float
    warnings: tuple[OutputWarning, ...] = field(default=(), repr=False)

    @property
    def display(self) -> str:
        """The score on one line."""
        return f"{self.score:.4f}"


@dataclass(frozen=True)
class NamedEntity:
    """A span of a text with its entity type: `text` is the characters start:end."""

    type: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class TokenClassification:
    """The entities of a text, in order.

    >>> TokenClassification("서울에 간다", (NamedEntity("LC", 0, 2, "서울"),)).display
    '[서울 LC]에 간다'
    """

    text: str
    entities: tuple[NamedEntity, ...]
    warnings: tuple[OutputWarning, ...] = field(default=(), repr=False)

    @property
    def display(self) -> str:
        """The text, including its line breaks, with its entities in brackets."""
        parts, end = [], 0
        for entity in self.entities:
            parts += [self.text[end : entity.start], f"[{entity.text} {entity.type}]"]
            end = entity.end
        return "".join([*parts, self.text[end:]])


@dataclass(frozen=True)
class Candidate:
    """One of several generated texts; beam search returns the one of highest `rank` first."""

    output: str
    score: float
    rank: float


@dataclass(frozen=True)
class GeneratedToken:
    """A generated token and the logarithm of its probability."""

    piece: str
    id: int
    log_probability: float


@dataclass(frozen=True)
class GeneratedText:
    """The generated text and its log-probability (natural, summed over the tokens).

    `n_best` holds all candidates where several were requested: of a beam the best first, samples
    in the order in which they were drawn. `loop` describes a repetition at the end. `tokens` are
    those of the best candidate, including [EOS]. With `decoding.alignment` the `links` are what
    they attend to: (start, end) in the output, (start, end) in the text, and a weight up to 1;
    a token may have several. `seed` is that of a sample, and `finish_reason`
    "length" where a limit ended the output.

    >>> answer = GeneratedText("겨울은 추워요.", "Winter is cold.", -0.0006)
    >>> answer.output, answer.n_best
    ('Winter is cold.', None)
    """

    text: str
    output: str
    score: float
    n_best: tuple[Candidate, ...] | None = None
    loop: str | None = None
    tokens: tuple[GeneratedToken, ...] = field(default=(), compare=False, repr=False)
    attention: list[list[float]] | None = field(default=None, compare=False, repr=False)  # of them
    links: tuple[Link, ...] | None = field(default=None, compare=False, repr=False)
    seed: int | None = field(default=None, compare=False, repr=False)
    finish_reason: FinishReason = field(default="stop", compare=False, repr=False)
    warnings: tuple[OutputWarning, ...] = field(default=(), repr=False)

    @property
    def display(self) -> str:
        """The output, including its line breaks; of several one line each, after its rank."""
        if self.n_best is None:
            return self.output
        return "\n".join(f"{each.rank:.4f}\t{each.output}" for each in self.n_best)


def to_json(output: Output, extra: Mapping[str, Any] | None = None, *, tokens: bool = False) -> str:
    """An output as one line of JSON; with `extra` keys, and the generated tokens if requested.

    >>> to_json(RegressionOutput("비슷해요", 4.5))
    '{"text": "비슷해요", "score": 4.5}'
    """
    if isinstance(output, GeneratedText):  # to_dict would copy every weight
        output = replace(output, attention=None, tokens=output.tokens if tokens else ())
    tree = to_dict(output)
    left_out = ["finish_reason", *([] if tokens else ["tokens"])]
    left_out += [] if output.warnings else ["warnings"]
    for key in left_out:
        tree.pop(key, None)
    for warning in tree.get("warnings", ()):
        del warning["n_unread"]
    return to_json_line({**tree, **(extra or {})})


@dataclass(frozen=True)
class RunOutputs:
    """The outputs of a run for all rows, as text, and the statistics of each metric.

    `probabilities` are those of the predicted labels of a classifier.
    """

    texts: Sequence[str]
    expected: Sequence[str]
    outputs: Sequence[str]
    statistics: Mapping[str, "RowStatistics"]
    probabilities: Sequence[float] | None = None


@dataclass(frozen=True)
class EvaluationResult:
    """`scores` is the JSON object of `jumok evaluate`; the other fields go into the report.

    `kernel` is what computed the scores; None: what computes the predictions of the pipeline.
    """

    scores: dict[str, Any]
    confusion: list[list[int]] | None = None
    mistakes: list[Mistake] = field(default_factory=list)
    examples: list[Example] = field(default_factory=list)
    kernel: "KernelChoice | None" = None
