"""A figure as a page or a command asks for it: its fields checked, then drawn to a file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

from jumok.errors import InputError
from jumok.fonts import figure_bytes
from jumok.interpret.options import Measure, Specials, Unit
from jumok.interpret.schema import Block, BlockName, Muted, TraceInfo
from jumok.interpret.strict_json import read_dataclass
from jumok.interpret.trace import Trace
from jumok.viewer.figures.options import Head, Kind, Layer, Palette, Rows, Scale
from jumok.viewer.view_state import State

Format: TypeAlias = Literal["pdf", "svg", "png"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES = {"pdf": "application/pdf", "svg": "image/svg+xml", "png": "image/png"}
LONGEST_TITLE = 300  # characters

FIGURES: Mapping[str, Kind] = {  # the figure that is most like a view of the page
    "map": "model",
    "lines": "lines",
    "matrix": "attention",
    "neuron": "neuron",
    "alignment": "alignment",
    "positions": "positions",
    "explanation": "explanation",
}


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """Which figure of which trace, and how; `figures.figure_of` says what each field means."""

    trace: str = ""  # its id, where a server keeps several
    figure: Kind = "attention"
    block: BlockName | None = None
    layer: Layer = 0
    head: Head | None = None
    sequence: int = 0
    query: int | None = None
    unit: Unit = "piece"
    specials: Specials = "plain"
    measure: Measure = "weights"
    rows: Rows = "predicted"
    width: float | None = 3.3  # inches
    font_size: float | None = None  # points
    title: bool | str = True
    palette: Palette = "ink"
    scale: Scale = "linear"
    pins: tuple[Muted, ...] = ()
    mass: float = 0.9
    format: Format = "pdf"

    def __post_init__(self) -> None:
        if isinstance(self.title, str) and len(self.title) > LONGEST_TITLE:
            raise InputError(
                f"a title of {len(self.title):,} characters came; give {LONGEST_TITLE} at most"
            )

    @classmethod
    def of_json(cls, table: Mapping[str, object]) -> "FigureRequest":
        """A request as it came, what it leaves out filled in. Raises InputError.

        >>> FigureRequest.of_json({"figure": "heads", "layer": 2}).layer
        2
        >>> FigureRequest.of_json({"figure": "heads", "layer": "two"})
        Traceback (most recent call last):
        jumok.errors.InputError: not a figure: layer is 'two', a whole number or one of all was \
wanted; correct the request
        """
        try:
            return read_dataclass(cls, asdict(cls()) | {"pins": []} | dict(table))
        except InputError as error:
            raise InputError(f"not a figure: {error}; correct the request") from error

    @classmethod
    def of_state(cls, state: State, info: TraceInfo, ending: str) -> "FigureRequest":
        """What a page shows, as a figure.

        Raises InputError for a view that has none like it, and for a block that is not there.
        """
        if state.view not in FIGURES:
            raise InputError(
                f"no figure is drawn of the view {state.view[:40]!r}; take one of "
                f"{', '.join(FIGURES)}"
            )
        figure = FIGURES[state.view]
        own = state.block or info.blocks[0].name
        block, layer, head = own, state.layer, state.head
        if figure == "alignment":
            block = "cross"
        elif figure == "attention" and state.pinned:  # the first of those that are seen
            block, layer, head = state.pinned[0]
        wanted: dict[str, object] = {
            "figure": figure,
            "block": block,
            "layer": layer,
            "head": head,
            "sequence": state.sequence,
            "query": state.query if block == own else None,  # rows of its own alone
            "format": ending,
        }
        if figure == "alignment":
            wanted |= _place_of_alignment(state, info.block(block))
        if figure == "lines":
            wanted |= {"mass": state.mass} | _heads_of_lines(state, info.block(own))
        if figure in ("attention", "lines", "alignment"):
            wanted |= {
                "unit": state.unit,
                "specials": state.specials,
                "measure": state.measure,
                "rows": state.rows,
                "scale": "sqrt" if state.scale == "sqrt" else "linear",
            }
        return cls.of_json(wanted)

    @property
    def media_type(self) -> str:
        """The kind of the file."""
        return MEDIA_TYPES[self.format]


def _place_of_alignment(state: State, cross: Block) -> dict[str, object]:
    """The layer and head that the view of alignment draws: the nearest that cross-attention has."""
    return {
        "layer": "all" if state.over == "model" else min(state.layer, cross.layers - 1),
        "head": min(state.head, cross.heads - 1) if state.over == "head" else state.pool,
    }


def _heads_of_lines(state: State, block: Block) -> dict[str, object]:
    """The heads that the view of lines draws: the one in focus, the pinned ones, or the layer's."""
    if state.heads in ("mean", "max"):
        return {"head": state.heads}
    if state.heads == "all":
        pins = [(block.name, state.layer, head) for head in range(block.heads)]
    elif state.heads == "pinned":
        pins = [pin for pin in state.pinned if pin[0] == block.name]
    else:
        pins = []
    return {"pins": [list(pin) for pin in pins]}


def write_figure(trace: Trace, figure: FigureRequest) -> bytes:
    """The file of a figure; the same request always gives the same bytes.

    Raises InputError for what the trace does not hold.
    """
    from jumok.viewer.figures.figure import figure_of

    drawn = figure_of(
        trace,
        figure.figure,
        block=figure.block,
        layer=figure.layer,
        head=figure.head,
        sequence=figure.sequence,
        query=figure.query,
        unit=figure.unit,
        specials=figure.specials,
        measure=figure.measure,
        rows=figure.rows,
        width=figure.width,
        font_size=figure.font_size,
        title=figure.title,
        palette=figure.palette,
        scale=figure.scale,
        pins=figure.pins,
        mass=figure.mass,
    )
    return figure_bytes(drawn, figure.format)
