"""Which figure of a trace to draw, and how; nothing is drawn here."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias, get_args

from jumok.config_io import suggest
from jumok.errors import TraceError
from jumok.interpret.options import Measure, Specials, Unit
from jumok.interpret.schema import BlockName, Muted

Kind: TypeAlias = Literal[
    "attention", "heads", "lines", "model", "alignment", "neuron", "positions", "explanation"
]
Head: TypeAlias = int | Literal["mean", "max"]  # one head, or the mean or maximum of a layer's
Layer: TypeAlias = int | Literal["all"]  # "all": all heads of all layers, alignment only
Rows: TypeAlias = Literal["read", "predicted"]  # which token a row of an alignment belongs to
Palette: TypeAlias = Literal["ink", "cividis", "viridis", "grey"]
Scale: TypeAlias = Literal["linear", "sqrt"]  # sqrt: emphasises small weights

KINDS: tuple[Kind, ...] = get_args(Kind)
ROWS: tuple[Rows, ...] = get_args(Rows)
SCALES: tuple[Scale, ...] = get_args(Scale)


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """The options of `draw_figure` and `Trace.figure`.

    figure: attention (one head, or the mean or maximum over a layer), heads (all heads of a layer),
        lines (as attention, with a line per weight), model (all heads of all layers), alignment
        (cross-attention with hard alignment and coverage), neuron (q, k and their product for one
        query), positions (the model's positional encoding), explanation (of a classifier).
    block, layer, head, sequence: what to draw. Default block: the first of the trace, cross for an
        alignment. A negative layer counts from the last; "all" (alignment only) pools over all
        heads of all layers. Default head: the mean, head 0 for neuron.
    query: token to highlight; for neuron the one to draw.
    unit, specials, measure: merge tokens into syllables or words, drop special tokens, weight by
        the value norms; see `jumok.interpret.aggregate`.
    rows: whether a row of an alignment is labelled with the token read or the token predicted.
    width: inches; 3.3 fits a column of an ACL paper, 6.9 the page; None: as wide as needed.
    font_size: points, at least 5. title: False for none, or a text of your own.
    palette, scale: colours; larger weights are always darker. Default scale: sqrt for a table of
        more than 128 columns, whose weights are small, else linear.
    pins: lines only: heads of the block as (block, layer, head), drawn together instead of `head`.
    mass: lines only: fraction of each query's weight to draw, largest weights first.
    label: explanation only: the number of the label. Default: the most probable one.
    """

    figure: Kind = "attention"
    block: BlockName | None = None
    layer: Layer = -1
    head: Head | None = None
    sequence: int = 0
    query: int | None = None
    unit: Unit = "piece"
    specials: Specials = "plain"
    measure: Measure = "weights"
    rows: Rows = "predicted"
    width: float | None = None  # inches
    font_size: float | None = None  # points
    title: bool | str = True
    palette: Palette = "ink"
    scale: Scale | None = None
    pins: tuple[Muted, ...] = ()
    mass: float = 0.9
    label: int | None = None

    @classmethod
    def from_keywords(cls, figure: str, options: Mapping[str, Any]) -> "FigureOptions":
        """The options of `Trace.figure`. Raises InputError for an unknown one.

        >>> FigureOptions.from_keywords("heads", {"layers": 2})
        Traceback (most recent call last):
        jumok.errors.TraceError: unknown figure option 'layers'; did you mean layer?
        """
        known = [field.name for field in fields(cls)][1:]
        for name in options:
            if name not in known:
                raise TraceError(
                    "page.unknown_figure_option",
                    "unknown figure option {name!r}; {suggest}",
                    name=name,
                    suggest=suggest(name, known),
                )
        return cls(figure=figure, **options)  # type: ignore[arg-type]  # draw_figure checks it
