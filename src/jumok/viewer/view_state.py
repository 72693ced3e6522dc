"""The state of the page, as in its address: `v=matrix&b=encoder&L=2&H=0&q=7`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias, TypeVar, cast, get_args
from urllib.parse import parse_qsl, quote, urlencode

from jumok.errors import TraceError
from jumok.interpret.options import MEASURES, SPECIALS, UNITS, Measure, Specials, Unit, check_choice
from jumok.interpret.schema import BlockName, Muted, TraceInfo
from jumok.viewer.figures.options import ROWS, Rows

ValueT = TypeVar("ValueT")
Heads: TypeAlias = Literal["focus", "pinned", "mean", "max", "all"]
Over: TypeAlias = Literal["head", "layer", "model"]
Pool: TypeAlias = Literal["mean", "max"]
ColourScale: TypeAlias = Literal["sqrt", "linear", "log"]

MAX_STATE_CHARS = 2000
VIEWS = (  # the ids of the page's views
    *("lines", "matrix", "alignment", "heads", "neuron", "calculation", "positions", "masks"),
    *("flow", "generation", "explanation", "circuit", "compare"),
)
VIEW_BLOCKS: Mapping[str, tuple[BlockName, ...]] = {  # of views that ignore the block in focus
    "alignment": ("cross",),
    "generation": ("cross", "decoder"),
}


@dataclass(frozen=True, kw_only=True)
class ViewState:
    """The part of the page's state that figures and exports use; None: the page's default.

    >>> state = ViewState.parse("#v=alignment&L=2&pin=encoder.0.1~cross.1.3")
    >>> state.view, state.layer, state.pinned
    ('alignment', 2, (('encoder', 0, 1), ('cross', 1, 3)))
    """

    view: str = "lines"
    sequence: int = 0
    block: BlockName | None = None  # None: the first of the trace
    layer: int | None = None  # None: see `layer_in`
    head: int = 0
    query: int | None = None
    unit: Unit = "piece"
    specials: Specials = "plain"
    measure: Measure = "weights"
    scale: ColourScale = "sqrt"  # of the colours
    rows: Rows = "predicted"  # of the alignment
    over: Over = "layer"  # of the alignment: over which heads to pool
    pool: Pool = "mean"  # of the alignment: how to pool
    heads: Heads = "focus"  # of the lines
    mass: float = 0.9  # of the lines: fraction of the weights to draw
    pinned: tuple[Muted, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ViewState":
        """Parse the state in an address; ignores most keys of single views. Raises InputError."""
        table = dict(parse_qsl(normalize_state(text)))
        return cls(
            view=_view(table.get("v", cls.view)),
            sequence=_number(table, "s") or 0,
            block=_choice(table, "b", get_args(BlockName), None),
            layer=_number(table, "L"),
            head=_number(table, "H") or 0,
            query=_number(table, "q"),
            unit=_choice(table, "u", UNITS, cls.unit),
            specials=_choice(table, "sp", SPECIALS, cls.specials),
            measure=_choice(table, "m", MEASURES, cls.measure),
            scale=_choice(table, "sc", get_args(ColourScale), cls.scale),
            rows=_choice(table, "alignment.rows", ROWS, cls.rows),
            over=_choice(table, "alignment.over", get_args(Over), cls.over),
            pool=_choice(table, "alignment.pool", get_args(Pool), cls.pool),
            heads=_choice(table, "lines.heads", get_args(Heads), cls.heads),
            mass=_fraction(table, "lines.mass", cls.mass),
            pinned=tuple(parse_head(head) for head in table.get("pin", "").split("~") if head),
        )

    def layer_in(self, depth: int) -> int:
        """The layer in focus of a block with `depth` layers: that of the state, else the last.

        The calculation begins with the tokens, so with the first layer.

        >>> ViewState.parse("v=matrix").layer_in(4), ViewState.parse("v=matrix&L=1").layer_in(4)
        (3, 1)
        """
        if self.layer is not None:
            return self.layer
        return 0 if self.view == "calculation" else depth - 1

    def layers(self, info: TraceInfo) -> list[tuple[str, int]]:
        """Block and layer of every head that is shown, in focus or pinned, if the trace has it.

        Those of the view come first.
        """
        depths = {block.name: block.layers for block in info.blocks}
        shown = [
            (name, min(self.layer_in(depths[name]), depths[name] - 1))
            for name in VIEW_BLOCKS.get(self.view, ())
            if name in depths
        ]
        own = self.block or info.blocks[0].name
        focus = (own, self.layer_in(depths.get(own, 1)))
        pinned = [(block, layer) for block, layer, _ in self.pinned]
        layers = dict.fromkeys([*shown, focus, *pinned])
        return [(block, layer) for block, layer in layers if layer < depths.get(block, 0)]


def first_view(info: TraceInfo) -> str:
    """The state in which a saved page of this trace opens: the view of its task.

    >>> import jumok
    >>> first_view(jumok.trace(jumok.load("note", device="cpu"), "겨울은 추워요.").info)
    'v=alignment&u=word'
    """
    if info.circuit is not None:
        return "v=circuit"
    if info.classification is not None:
        return "v=explanation"
    if any(block.name == "cross" for block in info.blocks):
        return "v=alignment&u=word"
    return "v=generation" if info.decoding is not None else ""


def normalize_state(text: str) -> str:
    """A state without # and token, in a canonical encoding.

    >>> normalize_state("#token=secret&v=lines&t=3")
    'v=lines&t=3'
    """
    if len(text) > MAX_STATE_CHARS:
        raise TraceError(
            "page.state_too_long",
            "a state must have at most {max_state_chars:,} characters, got {n_text:,}",
            max_state_chars=MAX_STATE_CHARS,
            n_text=len(text),
        )
    try:
        pairs = parse_qsl(text.removeprefix("#"), keep_blank_values=True)
    except ValueError as error:
        raise TraceError(
            "page.invalid_state", "invalid state ({error}); copy it from the page", error=error
        ) from error
    named = [(key, value) for key, value in pairs if key != "token"]
    return urlencode(named, quote_via=quote, safe="~", errors="replace")


def parse_head(text: str) -> Muted:
    """Parse a head: block.layer.head. Raises InputError.

    >>> parse_head("cross.2.0")
    ('cross', 2, 0)
    """
    match text.split("."):
        case ["encoder" | "decoder" | "cross" as block, layer, head]:
            if layer.isascii() and layer.isdecimal() and head.isascii() and head.isdecimal():
                return block, int(layer), int(head)
    raise TraceError(
        "page.head_syntax",
        "a head must be block.layer.head such as encoder.0.3 with a block of {blockname}, got "
        "{text!r}",
        blockname=", ".join(get_args(BlockName)),
        text=text[:40],
    )


def _view(name: str) -> str:
    """The id of a view. Raises TraceError with the nearest one.

    >>> _view("matrx")
    Traceback (most recent call last):
    jumok.errors.TraceError: v must be a view, got 'matrx'; the nearest one is v=matrix
    """
    if name in VIEWS:
        return name
    near = max(VIEWS, key=lambda view: SequenceMatcher(None, name[:40], view).ratio())
    raise TraceError(
        "page.unknown_view",
        "v must be a view, got {value!r}; the nearest one is v={near}",
        value=name[:40],
        near=near,
    )


def _choice(table: dict[str, str], key: str, known: Sequence[str], default: ValueT) -> ValueT:
    """One of the known values, or `default` if the key is missing."""
    if key not in table:
        return default
    check_choice(key, table[key][:40], known)
    return cast(ValueT, table[key])


def _fraction(table: dict[str, str], key: str, default: float) -> float:
    """A fraction above 0 and at most 1."""
    text = table.get(key)
    if text is None:
        return default
    try:
        fraction = float(text)
    except ValueError:
        fraction = 0.0
    if not 0.0 < fraction <= 1.0:
        raise TraceError(
            "page.fraction_range",
            "{key} must be above 0 and at most 1, got {text!r}",
            key=key,
            text=text[:40],
        )
    return fraction


def _number(table: dict[str, str], key: str) -> int | None:
    text = table.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise TraceError(
            "page.not_a_whole_number",
            "{key} must be a whole number from 0, got {text!r}",
            key=key,
            text=text[:40],
        )
    return int(text)
