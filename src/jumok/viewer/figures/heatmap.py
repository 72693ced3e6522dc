"""Heatmaps with token labels at the left and on top.

R rows, C columns. All sizes are computed in inches before drawing, so that the figure has the
requested width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, cos, radians, sin
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import Colormap, Normalize, PowerNorm
from matplotlib.image import AxesImage
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from jumok.language import translate
from jumok.viewer.figures.canvas import (
    GAP,
    INK,
    LINE_HEIGHT,
    MARGIN,
    MAX_HEIGHT,
    MIN_FONT_SIZE,
    PALE,
    SOFT,
    Canvas,
    FigureStyle,
    bottom_margin,
    small_font,
    text_width,
    title_height,
    truncate_text,
)
from jumok.viewer.labels import Label

Table: TypeAlias = NDArray[np.floating]
Cells: TypeAlias = QuadMesh | AxesImage

MAX_CELL = 0.3  # inches
MAX_SIDE = 16.0  # inches of a figure without a given width
MAX_LINEAR_COLUMNS = 128  # of a table with a linear scale by default
MAX_VECTOR_CELLS = 128  # per side; larger tables are drawn as one image
COLORBAR_THICKNESS = 0.09  # inches
MIN_COLORBAR_HEIGHT, MAX_COLORBAR_HEIGHT = 0.6, 2.5  # inches
FOCUS = "#c2410c"  # the colour of highlights


@dataclass(frozen=True)
class TickLabel:
    """The label of a row or a column."""

    index: int
    text: str
    special: bool


@dataclass(frozen=True)
class AxisLabels:
    """The labels of one axis and their size in inches."""

    labels: tuple[TickLabel, ...]
    size: float  # points
    angle: int  # degrees
    extent: float  # inches, away from the cells
    overhang: float = 0.0  # beyond the last cell


def row_labels(
    labels: Sequence[Label], cell: float, style: FigureStyle, max_width: float
) -> AxisLabels:
    """Row labels; every n-th if cells are lower than a line, truncated to `max_width`."""
    size, every = _size(cell, style.font)
    ticks = _ticks(labels, every, max_width, size)
    return AxisLabels(ticks, size, 0, max((text_width(t.text, size) for t in ticks), default=0.0))


def column_labels(
    labels: Sequence[Label], cell: float, style: FigureStyle, max_width: float
) -> AxisLabels:
    """Column labels: horizontal if they fit, else at 45°, or vertical if there are many."""
    size = style.font
    widest = max((text_width(label.text, size) for label in labels), default=0.0)
    if widest <= cell * 0.94:
        return AxisLabels(_ticks(labels, 1, max_width, size), size, 0, size * LINE_HEIGHT)
    size, every = _size(cell, style.font)
    angle = 45 if len(labels) <= 24 and cell >= 1.5 * size * LINE_HEIGHT else 90
    ticks = _ticks(labels, every, max_width, size)
    reach = [text_width(tick.text, size) for tick in ticks]
    upwards = max(reach, default=0.0) * sin(radians(angle)) + size * LINE_HEIGHT * cos(
        radians(angle)
    )
    right = [
        width * cos(radians(angle)) - (len(labels) - tick.index - 0.5) * cell
        for tick, width in zip(ticks, reach, strict=True)
    ]
    return AxisLabels(ticks, size, angle, upwards, max([0.0, *right]) if angle < 90 else 0.0)


def _size(cell: float, font: float) -> tuple[float, int]:
    """The font size for cells of this size, and n if only every n-th fits."""
    size = min(font, max(MIN_FONT_SIZE, cell * 72))
    return size, max(1, ceil(size / 72 / cell - 0.1))


def _ticks(
    labels: Sequence[Label], every: int, max_width: float, size: float
) -> tuple[TickLabel, ...]:
    return tuple(
        TickLabel(index, truncate_text(label.text, max_width, size), label.special)
        for index, label in enumerate(labels)
        if not index % every
    )


@dataclass(frozen=True)
class HeatmapLayout:
    """The layout of panels in a grid, all with the same rows and columns."""

    width: float  # of the figure
    height: float
    left: float  # of the first panel
    top: float
    cell: float
    rows: AxisLabels
    columns: AxisLabels
    shape: tuple[int, int]  # R, C
    between: tuple[float, float]  # panels: down, across
    bar: float  # left edge of the colorbar
    bottom: float  # bottom edge of the panels

    def panel(self, down: int, across: int) -> tuple[float, float, float, float]:
        """Left, top, width and height of a panel."""
        height, width = (n * self.cell for n in self.shape)
        return (
            self.left + across * (width + self.between[1]),
            self.top + down * (height + self.between[0]),
            width,
            height,
        )


def make_layout(
    queries: Sequence[Label],
    keys: Sequence[Label],
    style: FigureStyle,
    title: str,
    *,
    panels: tuple[int, int] = (1, 1),
    captions: float = 0.0,
    left: float = 0.0,
    below: float = 0.0,
) -> HeatmapLayout:
    """Lay out panels (rows, columns) for these tokens, and a colorbar.

    captions: inches below each panel; left, below: inches at the left of and below all panels.
    """
    R, C = len(queries), len(keys)
    down, across = panels
    between = (captions + GAP, 2 * GAP)
    widest = style.width or MAX_SIDE
    label_width, label_height = (0.28 * widest, 0.9) if style.width else (1.6, 1.2)
    cell = MAX_CELL
    for _ in range(4):  # label sizes and cell size depend on each other
        rows, columns = (
            row_labels(queries, cell, style, label_width),
            column_labels(keys, cell, style, label_height),
        )
        before = MARGIN + left + rows.extent + GAP
        after = max(colorbar_width(style), columns.overhang) + MARGIN
        top = title_height(style, title) + columns.extent + GAP / 2
        rest = captions + below + bottom_margin(style)
        free = widest - before - after - (across - 1) * between[1]
        high = (MAX_HEIGHT if style.width else MAX_SIDE) - top - rest - (down - 1) * between[0]
        cell = min(MAX_CELL, free / (across * C), high / (down * R))
    content = across * C * cell + (across - 1) * between[1]
    width = style.width or max(before + content + after, 2.5)
    start = before + (width - before - content - after) / 2
    bottom = top + down * R * cell + (down - 1) * between[0]
    return HeatmapLayout(
        width=width,
        height=max(bottom + rest, top + MIN_COLORBAR_HEIGHT + bottom_margin(style)),
        left=start,
        top=top,
        cell=cell,
        rows=rows,
        columns=columns,
        shape=(R, C),
        between=between,
        bar=start + content + GAP,
        bottom=bottom,
    )


def colorbar_width(style: FigureStyle) -> float:
    """The width of a colorbar with its ticks and label, in inches."""
    return (
        GAP
        + COLORBAR_THICKNESS
        + text_width("0.25", small_font(style))
        + 0.08
        + small_font(style) * LINE_HEIGHT
    )


def color_norm(largest: float, style: FigureStyle, columns: int = 0) -> Normalize:
    """The scale from 0 to the largest weight: linear or square root.

    With many columns most weights are so small that a linear scale would draw them as paper.
    """
    largest = largest or 1.0  # all weights are 0
    scale = style.scale or ("sqrt" if columns > MAX_LINEAR_COLUMNS else "linear")
    if scale == "sqrt":
        return PowerNorm(0.5, vmin=0.0, vmax=largest)
    return Normalize(0.0, largest)


def draw_cells(
    axes: Axes, table: Table, colours: Colormap, norm: Normalize, lines: bool = False
) -> Cells:
    """Draw the cells, first row on top; large tables as one image."""
    R, C = table.shape
    if max(R, C) > MAX_VECTOR_CELLS:
        return axes.imshow(
            table, cmap=colours, norm=norm, interpolation="none", extent=(0, C, R, 0), aspect="auto"
        )
    mesh = axes.pcolormesh(
        table,
        cmap=colours,
        norm=norm,
        edgecolors="#e4e4e0" if lines else "face",  # avoids seams in PDF viewers
        linewidth=0.3 if lines else 0.1,
    )
    axes.set_ylim(R, 0)
    axes.set_xlim(0, C)
    return mesh


def draw_row_labels(axes: Axes, axis_labels: AxisLabels) -> None:
    """Draw the row labels."""
    positions = [tick.index + 0.5 for tick in axis_labels.labels]
    axes.set_yticks(
        positions, labels=[tick.text for tick in axis_labels.labels], fontsize=axis_labels.size
    )
    _colour_labels(axes.get_yticklabels(), axis_labels)


def draw_column_labels(axes: Axes, axis_labels: AxisLabels) -> None:
    """Draw the column labels."""
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    positions = [tick.index + 0.5 for tick in axis_labels.labels]
    slanting = axis_labels.angle not in (0, 90)
    axes.set_xticks(
        positions,
        labels=[tick.text for tick in axis_labels.labels],
        fontsize=axis_labels.size,
        rotation=axis_labels.angle,
        rotation_mode="anchor" if slanting else "default",
        ha="left" if slanting else "center",
        va="baseline" if slanting else "bottom",
    )
    _colour_labels(axes.get_xticklabels(), axis_labels)


def _colour_labels(texts: Sequence[Text], axis_labels: AxisLabels) -> None:
    """Draw special tokens in a lighter colour."""
    for text, tick in zip(texts, axis_labels.labels, strict=True):
        text.set_color(SOFT if tick.special else INK)


def hide_ticks(axes: Axes) -> None:
    """Remove all ticks."""
    axes.set_xticks([])
    axes.set_yticks([])


def draw_colorbar(canvas: Canvas, cells: Cells, layout: HeatmapLayout, label: str) -> None:
    """Draw the colorbar at the right of the panels."""
    draw_colorbar_at(canvas, cells, layout.bar, layout.top, layout.bottom - layout.top, label)


def draw_colorbar_at(
    canvas: Canvas, cells: Cells, left: float, top: float, height: float, label: str
) -> None:
    """Draw a colorbar with ticks and a label."""
    height = min(max(height, MIN_COLORBAR_HEIGHT), MAX_COLORBAR_HEIGHT)
    if isinstance(cells.norm, PowerNorm):
        label = translate("{} (square-root scale)", label)
    axes = canvas.axes(left, top, COLORBAR_THICKNESS, height)
    bar = canvas.figure.colorbar(cells, cax=axes)
    axes.spines["outline"].set(edgecolor=PALE, linewidth=0.5)
    size = small_font(canvas.style)
    bar.locator = MaxNLocator(4)
    bar.update_ticks()
    bar.ax.tick_params(labelsize=size, length=1.5, width=0.5, color=PALE, pad=1.5, labelcolor=INK)
    label = truncate_text(label, canvas.height - 2 * MARGIN, size)
    half = text_width(label, size) / 2
    middle = min(max(top + height / 2, MARGIN + half), canvas.height - MARGIN - half)
    canvas.draw_text(
        label,
        left + colorbar_width(canvas.style) - GAP - size * LINE_HEIGHT / 2,
        middle,
        size,
        align="center",
        colour=SOFT,
        angle=90,
    )


def hatch_masked(axes: Axes, mask: NDArray[np.bool_]) -> None:
    """Hatch masked cells, to tell them from weights of 0."""
    rectangles = [_rectangle(row, *run) for row, line in enumerate(~mask) for run in _runs(line)]
    if rectangles:
        path = Path.make_compound_path(*rectangles)
        patch = PathPatch(path, facecolor="none", edgecolor=PALE, linewidth=0.0, hatch="////")
        patch.set_hatch_linewidth(0.3)
        axes.add_patch(patch)


def fade_special(axes: Axes, keys: Sequence[Label], n_rows: int) -> None:
    """Fade the columns of special tokens."""
    for column, key in enumerate(keys):
        if key.special:
            axes.add_patch(
                Rectangle((column, 0), 1, n_rows, facecolor="white", alpha=0.65, linewidth=0)
            )


def frame_row(axes: Axes, row: int | None, n_columns: int) -> None:
    """Highlight a row with a frame."""
    if row is not None:
        axes.add_patch(
            Rectangle(
                (0, row),
                n_columns,
                1,
                fill=False,
                edgecolor=FOCUS,
                linewidth=0.8,
                clip_on=False,
                zorder=5,
            )
        )


def _runs(line: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Start and end of the runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], line, [False])).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _rectangle(row: int, begin: int, end: int) -> Path:
    return Path(
        [(begin, row), (end, row), (end, row + 1), (begin, row + 1), (begin, row)], closed=True
    )
