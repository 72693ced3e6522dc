"""Attention as lines: queries on the left, keys on the right, a line per weight.

H heads, R queries, C keys. One head, or several, each with its own colour and dash pattern, like
the pinned heads of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray

from jumok.errors import TraceError
from jumok.interpret.aggregate import DisplayOptions, Floats
from jumok.interpret.schema import Muted
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.canvas import (
    GAP,
    INK,
    LINE_HEIGHT,
    MARGIN,
    MAX_HEIGHT,
    SOFT,
    Canvas,
    FigureStyle,
    bottom_margin,
    small_font,
    text_width,
    title_height,
    truncate_text,
)
from jumok.viewer.figures.heatmap import FOCUS, AxisLabels, TickLabel, hide_ticks, row_labels
from jumok.viewer.figures.layer_view import (
    LayerRef,
    LayerWeights,
    caption,
    find_layer,
    load_weights,
    pool_heads,
)
from jumok.viewer.figures.options import Head
from jumok.viewer.labels import row_index

COLOURS = (("#0072b2", ()), ("#d55e00", (7, 3)), ("#009e73", (2, 3)), ("#cc79a7", (9, 3, 2, 3)))
MAX_LINES = 3000
MAX_ROW_HEIGHT = 0.24  # inches
DEFAULT_WIDTH = 4.5  # inches
FOCUS_MASS = 0.99  # fraction of the weights of a highlighted query
PALE_OPACITY = 0.15  # opacity of the other queries


@dataclass(frozen=True)
class Series:
    """One head, or a pooled layer."""

    name: str
    table: Floats  # (R, C)
    colour: str | None  # None: by weight
    dash: tuple[int, ...] = ()


@dataclass(frozen=True)
class Line:
    """A weight to draw."""

    series: int
    query: int
    key: int
    weight: float


def lines(
    trace: Trace,
    layer_ref: LayerRef,
    head: Head,
    query: int | None,
    display: DisplayOptions,
    style: FigureStyle,
    pins: Sequence[Muted],
    mass: float,
) -> JumokFigure:
    """Lines from each query to the keys with the largest weights, up to `mass` of its total.

    With `pins`, those heads of the block instead of `head`; more than four are drawn in grey.
    A highlighted query is drawn nearly completely, all others pale.
    """
    if not 0.0 < mass <= 1.0:
        raise TraceError(
            "page.mass_range", "mass must be above 0 and at most 1, got {mass}", mass=mass
        )
    view = load_weights(trace, layer_ref, display)
    series = _series(trace, layer_ref, head, display, view, pins)
    tables = [one.table for one in series]
    drawn = largest_weights(tables, mass)
    row = None if query is None else row_index(view.queries, query)
    title = style.title_text(_title(trace, layer_ref, head, series, pins))
    canvas, axes = _draw_frame(view, series, style, title, _coverage_text(tables, drawn))
    darkest = (
        1.0 if display.measure == "weights" else max(float(table.max()) for table in tables) or 1
    )
    for line in reversed(drawn):
        if line.query != row:
            _draw(axes, line, series, style, darkest, 1.0 if row is None else PALE_OPACITY)
    if row is not None:
        own = largest_weights([table[row : row + 1] for table in tables], FOCUS_MASS)
        for line in reversed(own):
            at = Line(line.series, row, line.key, line.weight)
            _draw(axes, at, series, style, darkest, 1.0)
        axes.plot([0.0], [row + 0.5], "o", markersize=2.5, color=FOCUS, clip_on=False)
    return canvas.figure


def largest_weights(tables: Sequence[Floats], mass: float) -> list[Line]:
    """The largest weights of each row up to `mass` of its total, sorted by weight.

    >>> table = np.array([[0.6, 0.3, 0.1], [0.0, 0.0, 0.0]], np.float32)
    >>> [(line.key, round(line.weight, 1)) for line in largest_weights([table], 0.9)]
    [(0, 0.6), (1, 0.3)]
    """
    found = []
    for number, table in enumerate(tables):
        for query, row in enumerate(table):
            order = np.argsort(-row, kind="stable")
            before = np.cumsum(row[order], dtype=np.float64) - row[order]
            kept = (row[order] > 0) & (before < mass * row.sum(dtype=np.float64) - 1e-6)
            found += [Line(number, query, int(key), float(row[key])) for key in order[kept]]
    found.sort(key=lambda line: -line.weight)
    return found[:MAX_LINES]


def _series(
    trace: Trace,
    layer_ref: LayerRef,
    head: Head,
    display: DisplayOptions,
    view: LayerWeights,
    pins: Sequence[Muted],
) -> list[Series]:
    """The heads to draw, one or several."""
    if not pins:
        return [Series("", pool_heads(view.weights, head), None)]
    found = []
    for number, (block, layer, one) in enumerate(pins):
        if block != layer_ref.block.name:
            raise TraceError(
                "page.pins_of_other_block",
                "pins must be heads of the block {block}, got {block_2}.{layer}.{one}",
                block=layer_ref.block.name,
                block_2=block,
                layer=layer,
                one=one,
            )
        at = find_layer(trace, block, layer, layer_ref.sequence)
        colour, dash = COLOURS[number] if len(pins) <= len(COLOURS) else (SOFT, ())
        table = pool_heads(load_weights(trace, at, display).weights, one)
        found.append(Series(f"L{at.layer} H{one}", table, colour, dash))
    return found


def _title(
    trace: Trace, layer_ref: LayerRef, head: Head, series: Sequence[Series], pins: Sequence[Muted]
) -> str:
    if not pins:
        return caption(trace, layer_ref, head)
    block = str(layer_ref).partition(" · ")[0]
    names = ", ".join(one.name for one in series)
    if len(series) <= len(COLOURS):
        return f"{block} · {names}"
    return translate("{} · {} heads", block, len(series))


def _coverage_text(tables: Sequence[Floats], drawn: Sequence[Line]) -> str:
    """A description of how much is drawn."""
    total = sum(float(table.sum(dtype=np.float64)) for table in tables)
    fraction = sum(line.weight for line in drawn) / (total or 1.0)
    return translate("{:,} lines show {:.1f} % of the weights", len(drawn), 100 * fraction)


def _draw_frame(
    view: LayerWeights, series: Sequence[Series], style: FigureStyle, title: str, coverage: str
) -> tuple[Canvas, Axes]:
    """Draw labels and legend; the axes go from queries (0) to keys (1), one row per token."""
    rows = max(len(view.queries), len(view.keys))
    width = style.width or DEFAULT_WIDTH
    line = small_font(style) * LINE_HEIGHT
    named = [one for one in series if one.name and len(series) <= len(COLOURS)]
    top = title_height(style, title) + GAP
    rest = GAP + (1 + bool(named)) * line + bottom_margin(style)
    cell = min(MAX_ROW_HEIGHT, (MAX_HEIGHT - top - rest) / rows)
    left = row_labels(view.queries, cell, style, 0.3 * width)
    right = row_labels(view.keys, cell, style, 0.3 * width)
    high = rows * cell
    canvas = Canvas(width, top + high + rest, style)
    canvas.draw_title(title)
    begin = MARGIN + left.extent + GAP
    axes = canvas.axes(begin, top, width - begin - right.extent - GAP - MARGIN, high)
    axes.set_xlim(0, 1)
    axes.set_ylim(rows, 0)
    hide_ticks(axes)
    axes.spines[:].set_visible(False)
    _name(axes, left, 0.0)
    _name(axes, right, 1.0)
    words = coverage if view.measure == translate("weight") else f"{coverage} · {view.measure}"
    below = top + high + GAP
    width_limit = width - 2 * MARGIN
    canvas.draw_text(
        truncate_text(words, width_limit, small_font(style)),
        MARGIN,
        below,
        small_font(style),
        colour=SOFT,
    )
    if named:
        _legend(canvas, named, below + line, line)
    return canvas, axes


def _name(axes: Axes, names: AxisLabels, x: float) -> None:
    """Draw the labels of one side."""

    def write(name: TickLabel) -> None:
        axes.annotate(
            name.text,
            (x, name.index + 0.5),
            xytext=(-3 if x == 0.0 else 3, 0),
            textcoords="offset points",
            ha="right" if x == 0.0 else "left",
            va="center",
            fontsize=names.size,
            color=SOFT if name.special else INK,
            annotation_clip=False,
        )

    for name in names.labels:
        write(name)


def _legend(canvas: Canvas, named: Sequence[Series], top: float, line: float) -> None:
    """Draw the legend: the colour and dash pattern of each head."""
    sample, size = 0.3, small_font(canvas.style)
    left = MARGIN
    for one in named:
        axes = canvas.axes(left, top, sample, line)
        axes.set_axis_off()
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.plot([0, 1], [0.5, 0.5], color=one.colour, linewidth=1.2, linestyle=_style(one))
        canvas.draw_text(one.name, left + sample + GAP / 2, top, size, colour=SOFT)
        left += sample + text_width(one.name, size) + 2.5 * GAP


def _draw(
    axes: Axes,
    line: Line,
    series: Sequence[Series],
    style: FigureStyle,
    darkest: float,
    opacity: float,
) -> None:
    """Draw one weight: larger ones are darker and wider."""
    one = series[line.series]
    level = min(1.0, line.weight / darkest)
    if style.scale == "sqrt":
        level **= 0.5
    shift = 0.06 * (line.series - (len(series) - 1) / 2) if len(series) <= len(COLOURS) else 0.0
    start, end = line.query + 0.5 + shift, line.key + 0.5 + shift
    points: NDArray[np.float64] = np.array([(0, start), (1 / 3, start), (2 / 3, end), (1, end)])
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    faintest = 0.12
    alpha = opacity * (1.0 if one.colour is None else faintest + (1 - faintest) * level)
    colour = style.weights(faintest + (1 - faintest) * level) if one.colour is None else one.colour
    if one.colour is not None and len(series) > len(COLOURS):
        alpha /= len(series) ** 0.5
    axes.add_patch(
        PathPatch(
            path,
            fill=False,
            edgecolor=colour,
            alpha=alpha,
            linewidth=0.3 + 1.7 * level * level,
            linestyle=_style(one),
            clip_on=False,
        )
    )


def _style(one: Series) -> str | tuple[int, tuple[int, ...]]:
    """The matplotlib line style of a head."""
    return (0, one.dash) if one.dash else "-"
