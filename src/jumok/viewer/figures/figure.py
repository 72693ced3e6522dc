"""Draw any figure of a trace."""

from jumok.errors import TraceError
from jumok.fonts import plot_style as font_style
from jumok.interpret.aggregate import DisplayOptions
from jumok.interpret.options import check_choice
from jumok.interpret.trace import Trace
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.alignment import alignment
from jumok.viewer.figures.attention import attention_map, head_grid
from jumok.viewer.figures.canvas import FigureStyle
from jumok.viewer.figures.explanation import explanation
from jumok.viewer.figures.layer_view import find_layer
from jumok.viewer.figures.lines import lines
from jumok.viewer.figures.model_map import model_map
from jumok.viewer.figures.neuron import neuron_view
from jumok.viewer.figures.options import KINDS, ROWS, FigureOptions, Head, Kind
from jumok.viewer.figures.positions import positional_table


def draw_figure(trace: Trace, options: FigureOptions) -> JumokFigure:
    """A figure of a trace; save it as .pdf, .svg or .png.

    Raises InputError for options that are invalid or that the trace does not support.

        draw_figure(trace, FigureOptions(layer=2, head=0, width=3.3)).savefig("head.pdf")
    """
    kind, head, layer, query = options.figure, options.head, options.layer, options.query
    check_choice("figure", kind, KINDS)
    check_choice("rows", options.rows, ROWS)
    if not isinstance(head, int | None):
        check_choice("head", head, ("mean", "max"))
    display = DisplayOptions(options.unit, options.specials, options.measure)
    style = FigureStyle(
        options.width, options.font_size, options.title, options.palette, options.scale
    )
    block = options.block
    if kind == "alignment" and block is None:
        _check_cross(trace)
        block = "cross"
    if layer == "all" and kind != "alignment":
        raise TraceError(
            "page.layer_not_a_number",
            "layer must be a number for the figure {kind}, got 'all'",
            kind=kind,
        )
    if options.pins and kind != "lines":
        raise TraceError(
            "page.pins_of_other_figure",
            "pins are for the figure lines, got the figure {kind}",
            kind=kind,
        )
    layer_ref = find_layer(trace, block, -1 if layer == "all" else layer, options.sequence)
    one: Head = "mean" if head is None else head
    with font_style():
        if kind == "attention":
            return attention_map(trace, layer_ref, one, query, display, style)
        if kind == "heads":
            return head_grid(trace, layer_ref, query, display, style)
        if kind == "lines":
            return lines(trace, layer_ref, one, query, display, style, options.pins, options.mass)
        if kind == "model":
            return model_map(trace, options.sequence, display, style)
        if kind == "alignment":
            every = layer == "all"
            return alignment(trace, layer_ref, one, query, display, style, options.rows, every)
        if kind == "neuron":
            _check_pieces(display)
            return neuron_view(trace, layer_ref, 0 if head is None else head, query, style)
        if kind == "positions":
            return positional_table(trace, layer_ref, style)
        return explanation(trace, options.sequence, style, options.label)


def default_kind(trace: Trace, head: Head | None = None) -> Kind:
    """The most informative figure: the alignment if the trace has cross-attention and a target.

    Otherwise all heads of a layer, or attention if a head is given. A target of [BOS] alone, as in
    an encoder-decoder classifier, does not count: no token is predicted from it.
    """
    cross = any(block.name == "cross" for block in trace.info.blocks)
    if cross and sum(trace.info.tokens("target").real) > 1:
        return "alignment"
    return "heads" if head is None else "attention"


def _check_cross(trace: Trace) -> None:
    if all(block.name != "cross" for block in trace.info.blocks):
        raise TraceError(
            "page.alignment_needs_cross_attention",
            "the figure alignment needs cross-attention, which this trace does not have; use the "
            "figure attention",
        )


def _check_pieces(display: DisplayOptions) -> None:
    """The neuron view has the numbers of single pieces only."""
    if display != DisplayOptions():
        raise TraceError(
            "page.neuron_shows_pieces",
            "the figure neuron shows single pieces; leave unit, specials and measure at their "
            "defaults",
        )
