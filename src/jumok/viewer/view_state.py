"""What a page shows, as its address says it: `v=matrix&b=encoder&L=2&H=0&q=7`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, get_args
from urllib.parse import parse_qsl, quote, urlencode

from jumok.errors import InputError
from jumok.interpret.options import MEASURES, SPECIALS, UNITS, Measure, Specials, Unit
from jumok.interpret.schema import BlockName, Muted, TraceInfo
from jumok.viewer.figures.options import ROWS, Rows

Word = TypeVar("Word")
Heads: TypeAlias = Literal["focus", "pinned", "mean", "max", "all"]
Over: TypeAlias = Literal["head", "layer", "model"]
Pool: TypeAlias = Literal["mean", "max"]
Tone: TypeAlias = Literal["sqrt", "linear", "log"]

MAX_STATE_CHARS = 2000  # characters
VIEW_BLOCKS: Mapping[
    str, tuple[BlockName, ...]
] = {  # by views that do not go by the block in focus
    "alignment": ("cross",),
    "generation": ("cross", "decoder"),
}


@dataclass(frozen=True, kw_only=True)
class ViewState:
    """The part of a page's state that figures and exports go by; `None`: as the page begins.

    >>> state = ViewState.parse("#v=alignment&L=2&pin=encoder.0.1~cross.1.3")
    >>> state.view, state.layer, state.pinned
    ('alignment', 2, (('encoder', 0, 1), ('cross', 1, 3)))
    """

    view: str = "lines"
    sequence: int = 0
    block: BlockName | None = None  # None: the first of the trace
    layer: int = 0
    head: int = 0
    query: int | None = None
    unit: Unit = "piece"
    specials: Specials = "plain"
    measure: Measure = "weights"
    scale: Tone = "sqrt"  # of the colours
    rows: Rows = "read"  # of an alignment,
    over: Over = "head"  # what is drawn as one,
    pool: Pool = "mean"  # and how
    heads: Heads = "focus"  # of the lines,
    mass: float = 0.9  # and how much of them is drawn
    pinned: tuple[Muted, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "ViewState":
        """The state in an address; most keys of single views are passed over. Raises InputError."""
        table = dict(parse_qsl(normalize_state(text)))
        return cls(
            view=table.get("v", cls.view),
            sequence=_number(table, "s") or 0,
            block=_word(table, "b", get_args(BlockName), None),
            layer=_number(table, "L") or 0,
            head=_number(table, "H") or 0,
            query=_number(table, "q"),
            unit=_word(table, "u", UNITS, cls.unit),
            specials=_word(table, "sp", SPECIALS, cls.specials),
            measure=_word(table, "m", MEASURES, cls.measure),
            scale=_word(table, "sc", get_args(Tone), cls.scale),
            rows=_word(table, "alignment.rows", ROWS, cls.rows),
            over=_word(table, "alignment.over", get_args(Over), cls.over),
            pool=_word(table, "alignment.pool", get_args(Pool), cls.pool),
            heads=_word(table, "lines.heads", get_args(Heads), cls.heads),
            mass=_share(table, "lines.mass", cls.mass),
            pinned=tuple(parse_head(place) for place in table.get("pin", "").split("~") if place),
        )

    def layers(self, info: TraceInfo) -> list[tuple[str, int]]:
        """Block and layer of every head that is seen, in focus or pinned, if the trace has them.

        What the view shows comes first.
        """
        depths = {block.name: block.layers for block in info.blocks}
        seen = [
            (name, min(self.layer, depths[name] - 1))
            for name in VIEW_BLOCKS.get(self.view, ())
            if name in depths
        ]
        focus = (self.block or info.blocks[0].name, self.layer)
        pinned = [(block, layer) for block, layer, _ in self.pinned]
        wanted = dict.fromkeys([*seen, focus, *pinned])
        return [(block, layer) for block, layer in wanted if layer < depths.get(block, 0)]


def normalize_state(text: str) -> str:
    """A state as it may stand in an address: without #, without the token, plainly encoded.

    >>> normalize_state("#token=secret&v=lines&t=3")
    'v=lines&t=3'
    """
    if len(text) > MAX_STATE_CHARS:
        raise InputError(
            f"a state of {len(text):,} characters came; give {MAX_STATE_CHARS:,} at most"
        )
    try:
        pairs = parse_qsl(text.removeprefix("#"), keep_blank_values=True)
    except ValueError as error:
        raise InputError(f"the state cannot be read ({error}); copy it from the page") from error
    named = [(key, value) for key, value in pairs if key != "token"]
    return urlencode(named, quote_via=quote, safe="~", errors="replace")


def parse_head(text: str) -> Muted:
    """A head as words have it: block.layer.head. Raises InputError.

    >>> parse_head("cross.2.0")
    ('cross', 2, 0)
    """
    match text.split("."):
        case ["encoder" | "decoder" | "cross" as block, layer, head]:
            if layer.isascii() and layer.isdecimal() and head.isascii() and head.isdecimal():
                return block, int(layer), int(head)
    raise InputError(
        f"{text[:40]!r} is no head; write block.layer.head such as encoder.0.3, the block being "
        f"one of {', '.join(get_args(BlockName))}"
    )


def _word(table: dict[str, str], key: str, known: Sequence[Word], otherwise: Word) -> Word:
    """One of the words that are known, `otherwise` where the key is missing."""
    if key not in table:
        return otherwise
    for word in known:
        if word == table[key]:
            return word
    raise InputError(f"{key}={table[key][:40]!r}: give one of {', '.join(map(str, known))}")


def _share(table: dict[str, str], key: str, otherwise: float) -> float:
    """A share above 0 and at most 1."""
    text = table.get(key)
    if text is None:
        return otherwise
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 1.0:
        raise InputError(f"{key}={text[:40]!r}: give a share above 0 and at most 1")
    return share


def _number(table: dict[str, str], key: str) -> int | None:
    text = table.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InputError(f"{key}={text[:40]!r}: give a whole number from 0")
    return int(text)
