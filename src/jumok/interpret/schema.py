"""The header of a trace, which docs/trace.md describes: frozen dataclasses, to JSON and back.

Field names are the keys of the JSON. Text may contain lone surrogates, which no encoding can write:
they are escaped, and read back unchanged.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from jumok.config_io import from_dict
from jumok.errors import InputError, TraceError
from jumok.safe_json import parse_json

FORMAT = "jumok.trace/3"

BlockName: TypeAlias = Literal["encoder", "decoder", "cross"]
Side: TypeAlias = Literal["source", "target"]
ModelKind: TypeAlias = Literal["encoder", "decoder", "encoder_decoder"]
Positions: TypeAlias = Literal[
    "sinusoidal",
    "sinusoidal_halves",
    "learned",
    "rotary",
    "sinusoidal_rotary",
    "relative",
    "none",
    "unknown",
]
Norm: TypeAlias = Literal["layer", "rms", "rms_offset", "unknown"]
Implementation: TypeAlias = Literal["jumok", "transformers"]
TokenizerLibrary: TypeAlias = Literal["sentencepiece", "tokenizers", "marian"]
Method: TypeAlias = Literal["greedy", "beam", "sampling", "given"]
Setting: TypeAlias = (
    bool | int | float | str | tuple[bool | int | float | str | None, ...] | None
)  # of decoding
Muted: TypeAlias = tuple[BlockName, int, int]  # block, layer, head
NodeKind: TypeAlias = Literal["token", "feature", "error", "logit"]

SIDES: Mapping[BlockName, tuple[Side, Side]] = {  # of the queries and the keys of each block
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


def check_index(what: str, number: int, count: int) -> None:
    """Raise TraceError unless the number is from 0 and below `count`.

    >>> check_index("head", 4, count=4)
    Traceback (most recent call last):
    jumok.errors.TraceError: the head must be 0 to 3, got 4
    """
    if not 0 <= number < count:
        raise TraceError(
            "trace.index_range",
            "the {what} must be 0 to {last}, got {number}",
            what=what,
            last=count - 1,
            number=number,
        )


def positions_and_norm(positions: str, norm: str) -> tuple[Positions, Norm]:
    """The names in a header; "unknown" for those of extensions.

    A norm without a bias is of the same kind: the trace holds its weight alone.

    >>> positions_and_norm("rotary", "my_norm")
    ('rotary', 'unknown')
    """
    return (
        cast(Positions, positions if positions in get_args(Positions) else "unknown"),
        cast(
            Norm,
            "layer"
            if norm == "layer_without_bias"
            else norm
            if norm in get_args(Norm)
            else "unknown",
        ),
    )


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """The traced model.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> trace.info.model.kind, trace.info.model.d_model, trace.info.model.positions
    ('encoder_decoder', 32, 'sinusoidal')
    """

    kind: ModelKind
    family: str  # "jumok", or the model_type of transformers: "bert", "gpt2", ...
    d_model: int
    d_ff: int
    parameters: int
    positions: Positions
    norm: Norm  # unknown: of an extension
    norm_eps: float
    norm_first: bool
    gated: bool
    activation: str
    weights_sha256: str | None = None  # None: the model is not from a file
    implementation: Implementation | None = None  # the library whose code computed the trace
    tokenizer: TokenizerLibrary | None = None  # that encoded the text, for traces of jumok's models
    embedding_scale: float | None = None  # of the token embedding (section 3.4); None: not known
    bias: bool | None = None  # whether linear layers have biases; None: not known
    head_norm: bool | None = None  # whether each query and key is normalized; None: not known
    sublayer_norm: bool | None = None  # whether outputs of sublayers are; None: not known
    layer_kinds: str | None = None  # of each layer: G, L (local: a window), N (no rotation)
    sliding_window: int | None = None  # of the layers of kind L
    first_norm: bool | None = None  # whether a pre-norm stack begins with a norm; None: not known


@dataclass(frozen=True, kw_only=True)
class Block:
    """The attentions of one kind, one a layer.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> cross = trace.info.block("cross")
    >>> cross.queries, cross.keys, cross.heads, cross.d_head
    ('target', 'source', 2, 16)
    """

    name: BlockName
    queries: Side
    keys: Side
    layers: int
    heads: int
    key_heads: int  # fewer than heads where several heads share keys
    d_head: int
    scale: float
    causal: bool
    softcap: float | None = None  # c: scores are c·tanh(q·k·scale / c), then the bias is added


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """The tokens of one sequence: lists of one length, and the text they were encoded from.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> tokens = trace.info.tokens("source")
    >>> tokens.pieces[:3], tokens.words[:3]
    (('▁겨울', '은', '▁추'), (0, 0, 1))
    """

    text: str
    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]  # of characters in the text; [n, n]: no characters
    special: tuple[int, ...]  # 1: [CLS], [EOS], [PAD] and other special tokens
    real: tuple[int, ...]  # 0: padding
    words: tuple[int, ...]  # index of the eojeol, -1: none
    segments: tuple[int, ...] | None = None  # index of the text, if several are joined
    truncated: int = 0  # pieces of the text beyond max_length, which the model did not read

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word of the text, and the probabilities of the labels for the text without it.

    >>> Word(text="정말", span=(5, 7), without=(0.25, 0.75)).without
    (0.25, 0.75)
    """

    text: str
    span: tuple[int, int]
    without: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Explained:
    """The prediction of a classifier for one sequence, and the effect of each word on it.

    >>> really = Word(text="정말", span=(0, 2), without=(0.25, 0.75))
    >>> found = Explained(probabilities=(0.125, 0.875), words=(really,), agreement=None)
    >>> found.probabilities[1] - found.words[0].without[1]
    0.125
    """

    probabilities: tuple[float, ...]
    words: tuple[Word, ...]
    agreement: float | None  # None under 3 words


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The predictions of a classifier, one a sequence.

    >>> one = Explained(probabilities=(0.125, 0.875), words=(), agreement=None)
    >>> Classification(labels=("bad", "good"), sequences=(one,)).labels
    ('bad', 'good')
    """

    labels: tuple[str, ...]
    sequences: tuple[Explained, ...]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A candidate for the next token.

    >>> Candidate(id=53, piece="▁W", probability=0.75).piece
    '▁W'
    """

    id: int
    piece: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The token that was generated, with its natural log-probability.

    >>> Chosen(id=53, piece="▁W", log_probability=-0.25).log_probability
    -0.25
    """

    id: int
    piece: str
    log_probability: float


@dataclass(frozen=True, kw_only=True)
class Beam:
    """A hypothesis of a beam search after a step; ids are unique in the trace, 0 is the root.

    `score` is the sum of the log-probabilities of its tokens.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.", decode={"beam": 2})
    >>> [(beam.parent, beam.piece, beam.best) for beam in trace.info.decoding.steps[0].beams]
    [(0, '▁W', True), (0, '▁The', False)]
    """

    id: int
    parent: int
    token: int
    piece: str
    score: float
    ended: bool
    best: bool  # part of the returned hypothesis


@dataclass(frozen=True, kw_only=True)
class Step:
    """One decoding step.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> [step.chosen.piece for step in trace.info.decoding.steps][-4:]
    ['▁is', '▁cold', '.', '[EOS]']
    """

    cache: int  # cached positions before it
    before: tuple[Candidate, ...]  # the most probable tokens of the model
    after: tuple[Candidate, ...]  # after the logits processors
    chosen: Chosen | None  # None after the end of the hypothesis, while the search continues
    beams: tuple[Beam, ...]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How the target was generated.

    `prompt` is the number of prompt tokens, without those that are no longer in the trace: it may
    be negative for a language model that generated beyond its window. The token of step i is at
    index prompt + i.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> trace.info.decoding.method, trace.info.decoding.output
    ('greedy', 'Winter is cold.')
    """

    method: Method
    settings: Mapping[str, Setting]
    prompt: int
    steps: tuple[Step, ...]
    output: str
    text: str | None = None  # the input; None: the target was given


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The checkpoint of a run whose weights computed one sequence of a trace.

    `score` is that of the evaluation on the development split after this step, None without one.

    >>> Frame(step=400, metric="accuracy", score=0.75).step
    400
    """

    step: int
    metric: str
    score: float | None


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A node of the circuit of a text: its place, its value and its share of the influence.

    `layer` is -1 for a token, the number of layers for a logit. `number` is that of a feature in
    its layer, the id of a token, the index of a logit, whose piece or label is `answer`.

    >>> place = {"side": "source", "layer": 0, "token": 2, "number": 148}
    >>> GraphNode(kind="feature", **place, value=3.5, influence=0.25, name="#148").answer is None
    True
    """

    kind: NodeKind
    side: Side
    layer: int
    token: int
    number: int
    value: float
    influence: float
    name: str
    answer: str | None = None


@dataclass(frozen=True, kw_only=True)
class GraphEdge:
    """What one node adds to another, predicted and measured without the source.

    `head`: the head through which most of the weight goes, with its part `head_weight`; None for an
    edge without attention.

    >>> edge = GraphEdge(source=0, target=3, weight=1.5, measured=1.25, head=("cross", 1, 0))
    >>> edge.head
    ('cross', 1, 0)
    """

    source: int
    target: int
    weight: float
    measured: float
    head: Muted | None = None
    head_weight: float | None = None


@dataclass(frozen=True, kw_only=True)
class GraphPeak:
    """Where a feature is most active in other texts: the pieces around it, and the index in them.

    >>> GraphPeak(pieces=("▁세", "▁시"), at=0, value=2.5).pieces[0]
    '▁세'
    """

    pieces: tuple[str, ...]
    at: int
    value: float


@dataclass(frozen=True, kw_only=True)
class GraphFeature:
    """A feature of a layer, and the texts in which it is most active, the largest first.

    >>> GraphFeature(side="source", layer=0, number=148, peaks=()).number
    148
    """

    side: Side
    layer: int
    number: int
    peaks: tuple[GraphPeak, ...]


@dataclass(frozen=True, kw_only=True)
class CircuitGraph:
    """The strongest part of the circuit of sequence 0, from `jumok.experiment.trace_circuit`.

    Edges are in the order of their share of the influence on the logits. `replacement` and
    `completeness` are those of the whole graph, which has `total_nodes` and `total_edges`.

    >>> CircuitGraph(nodes=(), edges=(), features=(), replacement=0.875, completeness=0.75,
    ...              total_nodes=0, total_edges=0).replacement
    0.875
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    features: tuple[GraphFeature, ...]
    replacement: float
    completeness: float
    total_nodes: int
    total_edges: int


@dataclass(frozen=True, kw_only=True)
class TraceInfo:
    """The header of a trace.

    >>> import jumok
    >>> trace = jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.")
    >>> trace.info.block("cross").heads, trace.info.sequences
    (2, 1)

    Raises InputError for lists of unequal lengths, and sides or predictions that are missing.
    """

    title: str
    task: str | None
    model: ModelInfo
    made: Mapping[str, str]
    blocks: tuple[Block, ...]
    sides: Mapping[Side, tuple[Tokens, ...]]
    muted: tuple[Muted, ...] = ()
    classification: Classification | None = None
    regression: tuple[float, ...] | None = None  # of each sequence, on the scale of its data
    next: tuple[tuple[Candidate, ...], ...] | None = None  # after each target token of sequence 0
    # the logit lens: after each layer, for each token of sequence 0; 0: before the first layer
    lens: tuple[tuple[tuple[Candidate, ...], ...], ...] | None = None
    decoding: Decoding | None = None  # of sequence 0
    more_decodings: tuple[Decoding, ...] = ()  # of the other sequences, if there is a first
    frames: tuple[Frame, ...] = ()  # one a sequence, where each is of a checkpoint of one training
    circuit: CircuitGraph | None = None  # of sequence 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [block.name for block in self.blocks]
        if not names or len(set(names)) < len(names):
            raise TraceError(
                "trace.blocks",
                "blocks must be one or more different ones, got {names}",
                names=names,
            )
        rows = {side: len(sequences) for side, sequences in self.sides.items()}
        for block in self.blocks:
            for side in (block.queries, block.keys):
                if not rows.get(side):
                    raise TraceError(
                        "trace.block_needs_tokens",
                        "block {block} needs tokens of the side {side}, got none",
                        block=block.name,
                        side=side,
                    )
        if len(set(rows.values())) > 1:
            raise TraceError(
                "trace.unequal_sides",
                "the sides must have equally many sequences, got {rows}",
                rows=rows,
            )
        for side, sequences in self.sides.items():
            _check_lengths(side, sequences)
        self._check_predictions()

    def _check_predictions(self) -> None:
        """Raises InputError unless there is a prediction for each sequence, label and token."""
        scores = None if self.regression is None else len(self.regression)
        answers = None if self.classification is None else len(self.classification.sequences)
        frames = len(self.frames) or None
        for name, count in (
            ("regression", scores),
            ("classification", answers),
            ("frames", frames),
        ):
            if count not in (None, self.sequences):
                raise TraceError(
                    "trace.number_of_entries",
                    "{name} must have {sequences} entries, one a sequence, got {count}",
                    name=name,
                    sequences=self.sequences,
                    count=count,
                )
        if self.more_decodings and (
            self.decoding is None or len(self.more_decodings) != self.sequences - 1
        ):
            raise TraceError(
                "trace.number_of_entries",
                "{name} must have {sequences} entries, one a sequence, got {count}",
                name="decodings",
                sequences=self.sequences,
                count=(self.decoding is not None) + len(self.more_decodings),
            )
        if self.classification is not None:
            _check_classification(self.classification)
        if self.circuit is not None:
            self._check_circuit(self.circuit)
        if self.next is not None and "target" in self.sides:
            real = sum(self.tokens("target").real)
            if len(self.next) != real:
                raise TraceError(
                    "trace.next_entries",
                    "next must have {real} entries, one for each token of the first target, got "
                    "{n_next}",
                    real=real,
                    n_next=len(self.next),
                )
        if self.lens is not None:
            real = sum(self.tokens(self.lens_side).real)
            for layer, row in enumerate(self.lens):
                if len(row) != real:
                    raise TraceError(
                        "trace.lens_entries",
                        "lens must have {real} entries in each layer, one for each token of the "
                        "first {lens_side}, got {n_row} in layer {layer}",
                        real=real,
                        lens_side=self.lens_side,
                        n_row=len(row),
                        layer=layer,
                    )

    def _check_circuit(self, graph: CircuitGraph) -> None:
        """Raises InputError for a node without a token, and an edge without its nodes."""
        for node in graph.nodes:
            check_index("token of a node", node.token, len(self.tokens(node.side)))
        for edge in graph.edges:
            for number in (edge.source, edge.target):
                check_index("node of an edge", number, len(graph.nodes))

    @property
    def lens_side(self) -> Side:
        """The side of the logit lens: that of the decoder, or of an encoder alone."""
        return "target" if "target" in self.sides else "source"

    def block(self, name: str) -> Block:
        """The block of this name. Raises InputError if there is none."""
        for block in self.blocks:
            if block.name == name:
                return block
        known = ", ".join(block.name for block in self.blocks)
        raise TraceError(
            "trace.unknown_block",
            "the block must be one of {known}, got {name!r}",
            known=known,
            name=name,
        )

    def tokens(self, side: str, sequence: int = 0) -> Tokens:
        """The tokens of one sequence on one side. Raises InputError if there are none."""
        for name, sequences in self.sides.items():
            if name == side:
                check_index("sequence", sequence, len(sequences))
                return sequences[sequence]
        raise TraceError(
            "trace.unknown_side",
            "the side must be one of {sides}, got {side!r}",
            sides=", ".join(self.sides),
            side=side,
        )

    @property
    def sequences(self) -> int:
        """B: the number of sequences."""
        return max(map(len, self.sides.values()))

    def to_json(self) -> str:
        """The header as JSON, in ASCII. Raises InputError if a number is not finite."""
        try:
            return json.dumps(
                dataclasses.asdict(self), allow_nan=False, separators=(",", ":")
            )  # ensure_ascii escapes lone surrogates, which UTF-8 cannot encode
        except ValueError as error:
            raise TraceError(
                "trace.scores_not_finite",
                "the probabilities and scores of a trace must be finite, got one that is not; "
                "check the weights of the model",
            ) from error

    @classmethod
    def from_json(cls, text: str) -> "TraceInfo":
        """The header from its JSON. Raises InputError if it is not complete and valid.

        >>> TraceInfo.from_json("{}")
        Traceback (most recent call last):
        jumok.errors.TraceError: not the header of a trace: title is missing; write the trace again
        """
        try:
            header = parse_json(text.encode(), allow_surrogates=True)
            # optional: other programs write traces, and none of them computes a circuit
            return from_dict(cls, {"circuit": None, **header}, complete=True)
        except (InputError, UnicodeEncodeError) as error:
            reason = str(error).partition("; correct")[0]
            raise TraceError(
                "trace.bad_header",
                "not the header of a trace: {reason}; write the trace again",
                reason=reason,
            ) from error


def _check_lengths(side: str, sequences: tuple[Tokens, ...]) -> None:
    """Raises InputError unless all lists of a sequence, and all sequences, have one length."""
    for number, tokens in enumerate(sequences):
        for name in ("pieces", "spans", "special", "real", "words", "segments"):
            values = getattr(tokens, name)
            if values is not None and len(values) != len(tokens):
                raise TraceError(
                    "trace.sequence_values",
                    "sequence {number} of side {side} must have one of {name} for each of "
                    "{n_tokens} ids, got {n_values}",
                    number=number,
                    side=side,
                    name=name,
                    n_tokens=len(tokens),
                    n_values=len(values),
                )
    if len({len(tokens) for tokens in sequences}) > 1:
        raise TraceError(
            "trace.unequal_lengths",
            "the sequences of side {side} must have one length; pad them",
            side=side,
        )


def _check_classification(found: Classification) -> None:
    """Raises InputError unless every prediction has one probability a label."""
    for number, one in enumerate(found.sequences):
        rows = [("probabilities", one.probabilities)]
        rows += [(f"probabilities without {each.text!r}", each.without) for each in one.words]
        for name, values in rows:
            if len(values) != len(found.labels):
                raise TraceError(
                    "trace.sequence_labels",
                    "sequence {number} must have {name} for {n_labels} labels, got {n_values}",
                    number=number,
                    name=name,
                    n_labels=len(found.labels),
                    n_values=len(values),
                )
