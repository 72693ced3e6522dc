"""What a trace says of itself, as docs/trace.md describes it: frozen dataclasses, to JSON and back.

The names are the keys of the JSON. Text is any text: what no encoding can write (half a surrogate
pair) is escaped, and comes back.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jumok.config_io import from_dict
from jumok.errors import InputError
from jumok.safe_json import parse_json

FORMAT = "jumok.trace/1"

BlockName: TypeAlias = Literal["encoder", "decoder", "cross"]
Side: TypeAlias = Literal["source", "target"]
ModelKind: TypeAlias = Literal["encoder", "decoder", "encoder_decoder"]
Positions: TypeAlias = Literal[
    "sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "none", "unknown"
]
Method: TypeAlias = Literal["greedy", "beam", "sampling", "given"]
Setting: TypeAlias = (
    bool | int | float | str | tuple[bool | int | float | str | None, ...] | None
)  # of decoding
Muted: TypeAlias = tuple[BlockName, int, int]  # block, layer, head

SIDES: Mapping[BlockName, tuple[Side, Side]] = {  # of the queries and the keys of each block
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """Which model it was."""

    kind: ModelKind
    family: str  # "jumok", or whose it is: "bert", "gpt2", ...
    d_model: int
    d_ff: int
    parameters: int
    positions: Positions
    norm: Literal["layer", "rms"]
    norm_eps: float
    norm_first: bool
    gated: bool
    activation: str
    weights_sha256: str | None = None  # None: the model has no file


@dataclass(frozen=True, kw_only=True)
class Block:
    """A stack of attentions of one kind."""

    name: BlockName
    queries: Side
    keys: Side
    layers: int
    heads: int
    key_heads: int  # fewer than heads where several heads share keys
    d_head: int
    scale: float
    causal: bool
    softcap: float | None = None  # c: scores are c·tanh(q·k·scale / c) before the bias


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of one sequence: lists of one length, and the text they stand for."""

    text: str
    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]  # characters of the text; [n, n]: none
    special: tuple[int, ...]  # 1: [CLS], [EOS], [PAD] and the like
    real: tuple[int, ...]  # 0: padding
    words: tuple[int, ...]  # number of the eojeol, -1: none
    segments: tuple[int, ...] | None = None  # which of several joined texts

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word of the text and the probabilities of a text without it."""

    text: str
    span: tuple[int, int]
    without: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Explained:
    """What a classifier answered to one sequence, and what each of its words did to that."""

    probabilities: tuple[float, ...]
    words: tuple[Word, ...]
    agreement: float | None  # None under 3 words


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The answers of a classifier, one a sequence."""

    labels: tuple[str, ...]
    sequences: tuple[Explained, ...]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token that might follow."""

    id: int
    piece: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The token that was written."""

    id: int
    piece: str
    log_probability: float


@dataclass(frozen=True, kw_only=True)
class Beam:
    """A hypothesis of a beam search after a step; ids are unique in the trace, 0 is the root."""

    id: int
    parent: int
    token: int
    piece: str
    score: float
    ended: bool
    best: bool  # part of the answer


@dataclass(frozen=True, kw_only=True)
class Step:
    """One token being written."""

    cache: int  # positions kept before it
    before: tuple[Candidate, ...]  # the likeliest as the model has them
    after: tuple[Candidate, ...]  # the same after processors, temperature and filters
    chosen: Chosen | None  # None behind the answer's end, while a search still went on
    beams: tuple[Beam, ...]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How the target came about.

    `prompt` counts the target tokens that were given, less those that are no longer in the trace:
    of a language model that wrote past its window it may be below 0. The token of step i stands at
    prompt + i.
    """

    method: Method
    settings: Mapping[str, Setting]
    prompt: int
    steps: tuple[Step, ...]
    output: str
    text: str | None = None  # that was asked; None in files of before


LATER_KEYS = {"regression": None}  # keys that the first files of this format lack


@dataclass(frozen=True, kw_only=True)
class TraceInfo:
    """The header of a trace."""

    title: str
    task: str | None
    model: ModelInfo
    made: Mapping[str, str]
    blocks: tuple[Block, ...]
    sides: Mapping[Side, tuple[Tokens, ...]]
    muted: tuple[Muted, ...] = ()
    classification: Classification | None = None
    regression: tuple[float, ...] | None = None  # the score of each sequence, as its data has it
    next: tuple[tuple[Candidate, ...], ...] | None = None  # after each target token of sequence 0
    decoding: Decoding | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [block.name for block in self.blocks]
        if not names or len(set(names)) < len(names):
            raise InputError(f"blocks {names} came; a trace holds one or more, each once")
        rows = {side: len(sequences) for side, sequences in self.sides.items()}
        for block in self.blocks:
            for side in (block.queries, block.keys):
                if not rows.get(side):
                    raise InputError(f"block {block.name} needs tokens of the side {side}")
        if len(set(rows.values())) > 1:
            raise InputError(f"the sides have {rows} sequences; give both as many")
        for side, sequences in self.sides.items():
            _check_lengths(side, sequences)
        self._check_answers()

    def _check_answers(self) -> None:
        """Raises InputError unless there is an answer for each sequence, label and token."""
        scores = None if self.regression is None else len(self.regression)
        answers = None if self.classification is None else len(self.classification.sequences)
        for name, count in (("regression", scores), ("classification", answers)):
            if count not in (None, self.sequences):
                raise InputError(
                    f"{name} tells of {count} sequences and there are {self.sequences}; give one "
                    "answer each"
                )
        if self.classification is not None:
            _check_classification(self.classification)
        if self.next is not None and "target" in self.sides:
            real = sum(self.tokens("target").real)
            if len(self.next) != real:
                raise InputError(
                    f"next tells of {len(self.next)} tokens and the first target has {real}; give "
                    "the likeliest after each"
                )

    def block(self, name: str) -> Block:
        """The block of this name. Raises InputError, which says which there are."""
        for block in self.blocks:
            if block.name == name:
                return block
        known = ", ".join(block.name for block in self.blocks)
        raise InputError(f"no block {name!r} in this trace; it has {known}")

    def tokens(self, side: str, sequence: int = 0) -> Tokens:
        """The tokens of one sequence on one side. Raises InputError when there are none."""
        for name, sequences in self.sides.items():
            if name == side:
                if 0 <= sequence < len(sequences):
                    return sequences[sequence]
                raise InputError(f"sequence {sequence} of {len(sequences)}; they count from 0")
        raise InputError(f"no side {side!r} in this trace; it has {', '.join(self.sides)}")

    @property
    def sequences(self) -> int:
        """B: how many sequences of the batch there are."""
        return max(map(len, self.sides.values()))

    def to_json(self) -> str:
        """The header as JSON, in ASCII alone. Raises InputError when a number is not finite."""
        try:
            return json.dumps(
                dataclasses.asdict(self), allow_nan=False, separators=(",", ":")
            )  # ensure_ascii escapes half surrogate pairs, which nothing else could write
        except ValueError as error:
            raise InputError(
                "a probability or score of the trace is not finite; is the model trained, or "
                "are its weights broken?"
            ) from error

    @classmethod
    def from_json(cls, text: str) -> "TraceInfo":
        """The header that this JSON is. Raises InputError for anything but a whole header.

        >>> TraceInfo.from_json("{}")
        Traceback (most recent call last):
        jumok.errors.InputError: not the header of a trace: title is missing; write the trace again
        """
        try:
            table = dict(parse_json(text.encode(), any_text=True))
            blocks = table.get("blocks")
            if isinstance(blocks, list):
                table["blocks"] = [_with_later(block, "softcap") for block in blocks]
            if "decoding" in table:
                table["decoding"] = _with_later(table["decoding"], "text")
            return from_dict(cls, LATER_KEYS | table, complete=True)
        except (InputError, UnicodeEncodeError) as error:
            reason = str(error).partition("; correct")[0]
            raise InputError(
                f"not the header of a trace: {reason}; write the trace again"
            ) from error


def _with_later(part: object, key: str) -> object:
    """A block or a decoding of a file that was written before it had this key."""
    return {key: None, **part} if isinstance(part, dict) else part


def _check_lengths(side: str, sequences: tuple[Tokens, ...]) -> None:
    """Raises InputError unless all lists of a sequence, and all sequences, have one length."""
    for number, tokens in enumerate(sequences):
        for name in ("pieces", "spans", "special", "real", "words", "segments"):
            values = getattr(tokens, name)
            if values is not None and len(values) != len(tokens):
                raise InputError(
                    f"sequence {number} of side {side} has {len(tokens)} ids and {len(values)} "
                    f"{name}; give as many"
                )
    if len({len(tokens) for tokens in sequences}) > 1:
        raise InputError(f"the sequences of side {side} are not of one length; pad them")


def _check_classification(found: Classification) -> None:
    """Raises InputError unless every answer has one probability a label."""
    for number, answer in enumerate(found.sequences):
        told = [("probabilities", answer.probabilities)]
        told += [(f"probabilities without {each.text!r}", each.without) for each in answer.words]
        for name, values in told:
            if len(values) != len(found.labels):
                raise InputError(
                    f"sequence {number} has {len(values)} {name} and there are "
                    f"{len(found.labels)} labels; give as many"
                )
