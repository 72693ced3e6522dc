"""One door to all figures of a trace."""

from collections.abc import Sequence

from jumok.errors import InputError
from jumok.fonts import style
from jumok.interpret.aggregate import Showing
from jumok.interpret.options import Measure, Specials, Unit
from jumok.interpret.schema import Muted
from jumok.interpret.trace import Trace
from jumok.viewer.figures.alignment import alignment
from jumok.viewer.figures.attention import attention_map, head_grid
from jumok.viewer.figures.canvas import Look, Picture
from jumok.viewer.figures.explanation import explanation
from jumok.viewer.figures.layer_view import place_in
from jumok.viewer.figures.lines import lines
from jumok.viewer.figures.model_map import model_map
from jumok.viewer.figures.neuron import neuron_view
from jumok.viewer.figures.options import KINDS, ROWS, Head, Kind, Layer, Palette, Rows, Scale
from jumok.viewer.figures.positions import positional_table


def figure_of(
    trace: Trace,
    kind: Kind = "attention",
    block: str | None = None,
    layer: Layer = -1,
    head: Head | None = None,
    sequence: int = 0,
    query: int | None = None,
    unit: Unit = "piece",
    specials: Specials = "plain",
    measure: Measure = "weights",
    rows: Rows = "predicted",
    width: float | None = None,
    font_size: float | None = None,
    title: bool | str = True,
    palette: Palette = "ink",
    scale: Scale = "linear",
    pins: Sequence[Muted] = (),
    mass: float = 0.9,
) -> Picture:
    """A figure of a trace; save it as .pdf, .svg or .png.

    kind: attention (one head, or the mean or max of a layer's), heads (all of a layer), lines (the
        same as attention, but a line for each weight), model (all there are), alignment
        (cross-attention with its marks), neuron (one query, number by number), positions (the
        model's own), explanation (of a classifier).
    block, layer, head, sequence: where; without a block the first of the trace (cross for an
        alignment), `layer` may count back from -1, without a head the mean (for neuron head 0). Of
        an alignment layer "all" takes the mean or max over all heads of all layers.
    query: a piece that asks, framed; for neuron the one that is shown.
    unit, specials, measure: in words or syllables, without special tokens, times what arrives; see
        `jumok.interpret.aggregate`.
    rows: of an alignment, whether a row is the token that was read or the one predicted.
    width: inches; 3.3 fits a column of ACL's papers, 6.9 a whole page; None: as needed.
    font_size: points, at least 5. title: False for none, or your own words.
    palette, scale: colours, all darker for more; sqrt lifts small weights.
    pins: of lines, heads of the block as (block, layer, head), over one another, instead of `head`.
    mass: of lines, how much of what each query gives is drawn; the largest weights come first.

    Raises InputError for what the trace does not hold.

        figure_of(trace, layer=2, head=0, width=3.3).savefig("head.pdf")
    """
    _check("figure", kind, KINDS)
    _check("rows", rows, ROWS)
    if not isinstance(head, int | None):
        _check("head", head, ("mean", "max"))
    how, look = Showing(unit, specials, measure), Look(width, font_size, title, palette, scale)
    if kind == "alignment" and block is None:
        block = _cross(trace)
    if layer == "all" and kind != "alignment":
        raise InputError(f"layer 'all' is for the figure alignment; give {kind} a number")
    if pins and kind != "lines":
        raise InputError(f"pinned heads are drawn by the figure lines, not by {kind}")
    place = place_in(trace, block, -1 if layer == "all" else layer, sequence)
    one: Head = "mean" if head is None else head
    with style():
        if kind == "attention":
            return attention_map(trace, place, one, query, how, look)
        if kind == "heads":
            return head_grid(trace, place, query, how, look)
        if kind == "lines":
            return lines(trace, place, one, query, how, look, pins, mass)
        if kind == "model":
            return model_map(trace, sequence, how, look)
        if kind == "alignment":
            return alignment(trace, place, one, query, how, look, rows, layer == "all")
        if kind == "neuron":
            _need_pieces(how)
            return neuron_view(trace, place, 0 if head is None else head, query, look)
        if kind == "positions":
            return positional_table(trace, place, look)
        return explanation(trace, sequence, look)


def first_kind(trace: Trace, head: Head | None = None) -> Kind:
    """The figure to look at first: the alignment of a model that has read and written.

    Of another all heads of a layer, or the one that is asked for; so too where nothing was written,
    as by the classifier of note 002: its target is [BOS] alone, which no token is predicted from.
    """
    cross = any(block.name == "cross" for block in trace.info.blocks)
    if cross and sum(trace.info.tokens("target").real) > 1:
        return "alignment"
    return "heads" if head is None else "attention"


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InputError(f"{name} is {value!r}; take {', '.join(known)}")


def _cross(trace: Trace) -> str:
    if all(block.name != "cross" for block in trace.info.blocks):
        raise InputError(
            "alignment is read from cross-attention, which the model of this trace has not; take "
            "the figure attention"
        )
    return "cross"


def _need_pieces(how: Showing) -> None:
    """The numbers of a neuron view are those of single pieces."""
    if how != Showing():
        raise InputError(
            "the neuron view shows single pieces as the model sees them; leave unit, specials and "
            "measure as they are"
        )
