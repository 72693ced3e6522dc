"""The positional encoding of a model: its table, its rotary angles, or its relative biases.

n positions, D model dimension, K head dimension, H heads. Blue is positive, red negative.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from jumok.errors import TraceError
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.canvas import (
    GAP,
    INK,
    LINE_HEIGHT,
    MARGIN,
    PALE,
    SOFT,
    Canvas,
    FigureStyle,
    small_font,
    text_width,
    title_height,
    truncate_text,
)
from jumok.viewer.figures.heatmap import COLORBAR_THICKNESS, draw_cells
from jumok.viewer.figures.layer_view import LayerRef

DEFAULT_WIDTH = 7.0  # inches
ROW_HEIGHT = 0.05  # inches per position, if possible
MIN_PANEL_HEIGHT, MAX_PANEL_HEIGHT = 1.2, 2.6  # inches of a panel

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """A table of signed numbers and the labels of its axes."""

    name: str
    row_axis: str
    column_axis: str
    table: Numbers
    start: int = 0  # the number of the first column


def positional_table(trace: Trace, layer_ref: LayerRef, style: FigureStyle) -> JumokFigure:
    """The positional encoding in a trace.

    An added table: the table and the cosine similarity of its rows. Rotary: the cosine of the
    rotation angle of each pair. Relative: the bias of each head by distance. Raises InputError for
    a trace without any of these.
    """
    panels = panels_of(trace, layer_ref)
    return _draw(
        panels, style.title_text(translate("positions of the {}", layer_ref.block.queries)), style
    )


def panels_of(trace: Trace, layer_ref: LayerRef) -> tuple[Panel, ...]:
    """The tables to draw."""
    side, kind = layer_ref.block.queries, trace.info.model.positions
    if f"{side}.positions" in trace.names:
        table = trace.tensor(f"{side}.positions").astype(np.float64)
        return (
            Panel(f"PE, {kind}", translate("position"), translate("dimension"), table),
            Panel(
                translate("cosine of PE(p), PE(p′)"),
                translate("position p"),
                translate("position p′"),
                cosines(table),
            ),
        )
    if "rotary" in trace.names:
        angles = trace.tensor("rotary").astype(np.float64)
        n = sum(trace.info.tokens(side, layer_ref.sequence).real)
        axes = translate("position p"), translate("pair i")
        return (Panel(translate("cos(p θᵢ), rotary"), *axes, rotary_cosines(angles, n)),)
    bias = trace.bias(layer_ref.block.name, layer_ref.layer)
    if bias is not None and kind not in ("relative", "unknown"):
        raise TraceError(
            "page.positions_of_content",
            "the scores of disentangled attention depend on the content too, so they are not drawn "
            "by distance; the figure neuron shows them",
        )
    if bias is not None:
        start, table = by_distance(bias.astype(np.float64))
        name = translate("bias, layer {}", layer_ref.layer)
        return (Panel(name, translate("head"), translate("key − query"), table, start),)
    raise TraceError(
        "page.positions_not_drawn",
        "the trace must have learned, sinusoidal, rotary or relative positions, got {kind}",
        kind=kind,
    )


def cosines(table: Numbers) -> Numbers:
    """The cosine similarity of the rows of a table, (n, D) -> (n, n); 0 for rows of zeros.

    >>> cosines(np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    lengths = np.linalg.norm(table, axis=1, keepdims=True)
    panel_width = np.divide(table, lengths, out=np.zeros_like(table), where=lengths > 0)
    return np.asarray(panel_width @ panel_width.T)


def rotary_cosines(angles: Numbers, n: int) -> Numbers:
    """The cosine of the rotation angle of each pair at n positions, (K/2,) -> (n, K/2).

    >>> rotary_cosines(np.array([np.pi, 0.0]), 3).round(9).tolist()
    [[1.0, 1.0], [-1.0, 1.0], [1.0, 1.0]]
    """
    return np.asarray(np.cos(np.arange(n)[:, None] * angles))


def by_distance(bias: Numbers) -> tuple[int, Numbers]:
    """The biases (H, T, S) by key − query: the smallest distance, and a table (H, T + S − 1).

    >>> by_distance(np.array([[[0.0, 1.0], [-1.0, 0.0]]]))
    (-1, array([[-1.,  0.,  1.]]))
    """
    _, T, S = bias.shape
    columns = [bias[:, max(0, -d), max(0, d)] for d in range(1 - T, S)]
    return 1 - T, np.stack(columns, 1)


def _draw(panels: Sequence[Panel], title: str, style: FigureStyle) -> JumokFigure:
    width = style.width or DEFAULT_WIDTH
    size = small_font(style)
    line = size * LINE_HEIGHT
    before = line + text_width("000", size) + GAP  # a label and its numbers
    top = title_height(style, title) + line + GAP / 2
    height = min(
        max(max(len(panel.table) for panel in panels) * ROW_HEIGHT, MIN_PANEL_HEIGHT),
        MAX_PANEL_HEIGHT,
    )
    below = 2 * line + 2 * GAP + COLORBAR_THICKNESS + line + MARGIN
    panel_width = (width - MARGIN - len(panels) * (before + GAP)) / len(panels)
    canvas = Canvas(width, top + height + below, style)
    canvas.draw_title(title)
    for number, panel in enumerate(panels):
        left = MARGIN + before + number * (before + GAP + panel_width)
        _draw_panel(canvas, panel, (left, top, panel_width, height))
    return canvas.figure


def _draw_panel(canvas: Canvas, panel: Panel, box: tuple[float, float, float, float]) -> None:
    left, top, width, height = box
    size = small_font(canvas.style)
    line = size * LINE_HEIGHT
    name = truncate_text(panel.name, width + GAP, size)
    canvas.draw_text(name, left + width / 2, top - line - GAP / 2, size, align="center")
    axes = canvas.axes(*box)
    largest = float(np.abs(panel.table).max()) or 1.0
    cells = draw_cells(
        axes, panel.table, matplotlib.colormaps["RdBu"], Normalize(-largest, largest)
    )
    rows, columns = panel.table.shape
    for axis, count, start in ((axes.yaxis, rows, 0), (axes.xaxis, columns, panel.start)):
        ticks = MaxNLocator(5, integer=True).tick_values(start, start + count - 1)
        ticks_inside = [int(t) for t in ticks if start <= t < start + count]
        axis.set_ticks(
            [tick - start + 0.5 for tick in ticks_inside],
            labels=[str(tick).replace("-", "−") for tick in ticks_inside],
            fontsize=size,
        )
    axes.tick_params(pad=1.5)
    axes.set_ylabel(panel.row_axis, fontsize=size, labelpad=1.5, color=SOFT)
    axes.set_xlabel(panel.column_axis, fontsize=size, labelpad=1.0, color=SOFT)
    under = canvas.axes(
        left + 0.1 * width, top + height + 2 * line + 2 * GAP, 0.8 * width, COLORBAR_THICKNESS
    )
    bar = canvas.figure.colorbar(cells, cax=under, orientation="horizontal")
    bar.set_ticks([-largest, 0.0, largest], labels=[f"−{largest:.2g}", "0", f"{largest:.2g}"])
    under.tick_params(labelsize=size, length=1.5, width=0.5, color=PALE, pad=1.5, labelcolor=INK)
    under.spines["outline"].set(edgecolor=PALE, linewidth=0.5)
