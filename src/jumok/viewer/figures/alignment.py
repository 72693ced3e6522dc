"""Alignment: cross-attention with hard alignment and coverage.

R rows (target), C columns (source).
"""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from jumok.errors import TraceError
from jumok.interpret.aggregate import DisplayOptions, Floats
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.attention import LINES_FROM
from jumok.viewer.figures.canvas import (
    GAP,
    LINE_HEIGHT,
    MARGIN,
    SOFT,
    Canvas,
    FigureStyle,
    colormap,
    small_font,
)
from jumok.viewer.figures.heatmap import (
    FOCUS,
    HeatmapLayout,
    color_norm,
    draw_cells,
    draw_colorbar,
    draw_column_labels,
    draw_row_labels,
    fade_special,
    frame_row,
    make_layout,
)
from jumok.viewer.figures.layer_view import NAMES, LayerRef, caption, load_weights, pool_heads
from jumok.viewer.figures.options import Head, Rows
from jumok.viewer.labels import row_index

COVERAGE = 0.35  # inches: the height of the coverage bars


def alignment(
    trace: Trace,
    layer_ref: LayerRef,
    head: Head,
    query: int | None,
    display: DisplayOptions,
    style: FigureStyle,
    rows: Rows,
    all_layers: bool = False,
) -> JumokFigure:
    """Cross-attention with hard alignment and coverage.

    A ring marks the largest cell of a row, a dot a cell that is also the largest of its column. The
    bars below show the total attention to each source token. rows: label rows with the token that
    was read, or with the one predicted from it (the same weights one row further down). With
    `all_layers` the mean or maximum is over all heads of all layers.
    """
    if layer_ref.block.name != "cross":
        raise TraceError(
            "page.alignment_needs_cross_block",
            "the figure alignment needs the block cross, got {block}; use the figure attention",
            block=layer_ref.block.name,
        )
    if all_layers and isinstance(head, int):
        raise TraceError(
            "page.head_of_all_layers",
            "head must be mean or max for all layers, got {head}",
            head=head,
        )
    every = range(layer_ref.block.layers) if all_layers else (layer_ref.layer,)
    layers = [
        load_weights(trace, replace(layer_ref, layer=layer), display, predicted=rows == "predicted")
        for layer in every
    ]
    view = layers[0]
    weights = np.concatenate([one.weights for one in layers])  # (H of all layers, R, C)
    table = pool_heads(weights, head)
    every_head = "{} · all layers · mean of {} heads"
    if head == "max":
        every_head = "{} · all layers · maximum of {} heads"
    title = style.title_text(
        translate(every_head, translate(NAMES["cross"]), len(weights))
        if all_layers
        else caption(trace, layer_ref, head)
    )
    line = small_font(style) * LINE_HEIGHT
    below = GAP + COVERAGE + GAP / 2 + line
    layout = make_layout(view.queries, view.keys, style, title, left=line + GAP / 2, below=below)
    canvas = Canvas(layout.width, layout.height, style)
    canvas.draw_title(title)
    axes = canvas.axes(*layout.panel(0, 0))
    cells = draw_cells(
        axes,
        table,
        style.weights,
        color_norm(float(table.max()), style, table.shape[1]),
        layout.cell >= LINES_FROM,
    )
    draw_row_labels(axes, layout.rows)
    draw_column_labels(axes, layout.columns)
    if display.specials == "dim":
        fade_special(axes, view.keys, len(table))
    _mark(axes, table, layout.cell)
    if query is not None:
        frame_row(axes, row_index(view.queries, query), len(view.keys))
    edge = layout.left - layout.rows.extent - GAP - line / 2
    middle = layout.top + (layout.bottom - layout.top) / 2
    canvas.draw_text(
        translate("token read" if rows == "read" else "token predicted"),
        max(edge, MARGIN + line / 2),
        middle,
        small_font(style),
        angle=90,
        align="center",
        colour=SOFT,
    )
    _draw_coverage(canvas, layout, coverage(table))
    draw_colorbar(canvas, cells, layout, view.measure)
    return canvas.figure


def hard_alignment(table: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The argmax of each row (-1 if all 0), and whether it is also the argmax of its column.

    >>> marks, mutual = hard_alignment(np.array([[0.6, 0.4], [0.9, 0.1], [0, 0]], np.float32))
    >>> marks.tolist(), mutual.tolist()
    ([0, 0, -1], [False, True, False])
    """
    columns = table.argmax(1)
    mutual = table.argmax(0)[columns] == np.arange(len(table))
    seen = table.max(1) > 0
    return np.where(seen, columns, -1), mutual & seen


def coverage(table: Floats) -> NDArray[np.float64]:
    """The total attention to each source token: column sums, (C,)."""
    return np.asarray(table.sum(0, dtype=np.float64))


def _mark(axes: Axes, table: Floats, cell: float) -> None:
    """Mark the largest cells with rings and dots."""
    columns, mutual = hard_alignment(table)
    size = max(1.0, min(4.0, 0.32 * cell * 72))  # points
    for fill, chosen in ((FOCUS, mutual), ("none", ~mutual & (columns >= 0))):
        axes.plot(
            columns[chosen] + 0.5,
            np.flatnonzero(chosen) + 0.5,
            "o",
            markersize=size,
            markerfacecolor=fill,
            markeredgecolor=FOCUS,
            markeredgewidth=min(0.7, size / 4),
        )


def _draw_coverage(canvas: Canvas, layout: HeatmapLayout, sums: NDArray[np.float64]) -> None:
    """Draw a bar below each column."""
    left, _, width, _ = layout.panel(0, 0)
    axes = canvas.axes(left, layout.bottom + GAP, width, COVERAGE)
    places = np.arange(len(sums)) + 0.5
    axes.bar(places, sums, width=0.8, color=colormap("ink")(150))
    axes.set_xlim(0, len(sums))
    axes.set_ylim(0, max(float(sums.max()), 1e-9))
    axes.set_xticks([])
    axes.spines[["top", "right"]].set_visible(False)
    largest = float(sums.max())
    axes.set_yticks(
        [0.0, largest], labels=["0", f"{largest:.2g}"], fontsize=small_font(canvas.style)
    )
    top = layout.bottom + GAP + COVERAGE + GAP / 2
    canvas.draw_text(
        translate("coverage: sum over the rows"), left, top, small_font(canvas.style), colour=SOFT
    )
