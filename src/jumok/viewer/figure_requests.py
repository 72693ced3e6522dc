"""Figures requested by the page or a command: validate the options, draw to a file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, get_args

from jumok.config_io import from_dict
from jumok.errors import InputError, TraceError
from jumok.fonts import figure_bytes
from jumok.interpret.schema import Block, TraceInfo
from jumok.interpret.trace import Trace
from jumok.viewer.figures.options import FigureOptions, Kind, Layer
from jumok.viewer.view_state import ViewState

Format: TypeAlias = Literal["pdf", "svg", "png"]
FORMATS: tuple[Format, ...] = get_args(Format)
MEDIA_TYPES = {"pdf": "application/pdf", "svg": "image/svg+xml", "png": "image/png"}
MAX_TITLE_CHARS = 300

FIGURE_OF_VIEW: Mapping[str, Kind] = {  # the figure that corresponds to a view of the page
    "heads": "model",
    "lines": "lines",
    "matrix": "attention",
    "neuron": "neuron",
    "alignment": "alignment",
    "positions": "positions",
    "explanation": "explanation",
}


@dataclass(frozen=True, kw_only=True)
class FigureRequest(FigureOptions):
    """A requested figure of a trace: its options, and the format of the file."""

    trace: str = ""  # its id on a server that has several
    layer: Layer = 0
    width: float | None = 3.3  # inches
    format: Format = "pdf"

    def __post_init__(self) -> None:
        if isinstance(self.title, str) and len(self.title) > MAX_TITLE_CHARS:
            raise TraceError(
                "page.title_too_long",
                "title must have at most {max_title_chars} characters, got {n_title:,}",
                max_title_chars=MAX_TITLE_CHARS,
                n_title=len(self.title),
            )

    @classmethod
    def of_json(cls, table: Mapping[str, object]) -> "FigureRequest":
        """A request from JSON; missing fields get their defaults. Raises InputError.

        >>> FigureRequest.of_json({"figure": "heads", "layer": 2}).layer
        2
        >>> FigureRequest.of_json({"figure": "heads", "layer": "two"})
        Traceback (most recent call last):
        jumok.errors.TraceError: invalid figure request: layer must be an integer or "all", got \
"two"; correct the request
        """
        try:
            return from_dict(cls, asdict(cls()) | dict(table), complete=True)
        except InputError as error:
            raise TraceError(
                "page.invalid_figure_request",
                "invalid figure request: {error}; correct the request",
                error=error,
            ) from error

    @classmethod
    def of_state(cls, state: ViewState, info: TraceInfo, ending: str) -> "FigureRequest":
        """The figure of what the page shows.

        Raises InputError for a view without a figure, and for a block that the trace does not have.
        """
        if state.view not in FIGURE_OF_VIEW:
            raise TraceError(
                "page.no_figure_of_view",
                "no figure corresponds to the view {view!r}; use one of {figure_of_view}",
                view=state.view[:40],
                figure_of_view=", ".join(FIGURE_OF_VIEW),
            )
        figure = FIGURE_OF_VIEW[state.view]
        own = state.block or info.blocks[0].name
        depths = {each.name: each.layers for each in info.blocks}
        block, layer, head = own, state.layer_in(depths.get(own, 1)), state.head
        if figure == "alignment":
            block = "cross"
        elif figure == "attention" and state.pinned:  # the first pinned head
            block, layer, head = state.pinned[0]
        fields: dict[str, object] = {
            "figure": figure,
            "block": block,
            "layer": layer,
            "head": head,
            "sequence": state.sequence,
            "query": state.query if block == own else None,  # it indexes the rows of `own`
            "format": ending,
        }
        if figure == "alignment":
            fields |= _alignment_layer_and_head(state, info.block(block))
        if figure == "lines":
            fields |= {"mass": state.mass} | _line_heads(state, info.block(own))
        if figure in ("attention", "lines", "alignment"):
            fields |= {
                "unit": state.unit,
                "specials": state.specials,
                "measure": state.measure,
                "rows": state.rows,
                "scale": "sqrt" if state.scale == "sqrt" else "linear",
            }
        return cls.of_json(fields)

    @property
    def media_type(self) -> str:
        """The media type of the file."""
        return MEDIA_TYPES[self.format]


def _alignment_layer_and_head(state: ViewState, cross: Block) -> dict[str, object]:
    """Layer and head of the alignment view, limited to those of the cross-attention."""
    layer = state.layer_in(cross.layers)
    return {
        "layer": "all" if state.over == "model" else min(layer, cross.layers - 1),
        "head": min(state.head, cross.heads - 1) if state.over == "head" else state.pool,
    }


def _line_heads(state: ViewState, block: Block) -> dict[str, object]:
    """Heads of the lines view: the one in focus, the pinned ones, or all of the layer."""
    if state.heads in ("mean", "max"):
        return {"head": state.heads}
    if state.heads == "all":
        layer = state.layer_in(block.layers)
        pins = [(block.name, layer, head) for head in range(block.heads)]
    elif state.heads == "pinned":
        pins = [pin for pin in state.pinned if pin[0] == block.name]
    else:
        pins = []
    return {"pins": [list(pin) for pin in pins]}


def write_figure(trace: Trace, request: FigureRequest) -> bytes:
    """The file of a figure; equal requests give equal bytes.

    Raises InputError for options that the trace does not support.
    """
    from jumok.viewer.figures.figure import draw_figure

    return figure_bytes(draw_figure(trace, request), request.format)
