"""Which source token a target token comes from: cross-attention, its largest cells, its coverage.

R rows (target), C columns (source).
"""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.interpret.aggregate import Floats, Showing
from jumok.interpret.trace import Trace
from jumok.viewer.figures.attention import LINES_FROM
from jumok.viewer.figures.canvas import (
    GAP,
    LINE,
    MARGIN,
    SOFT,
    Look,
    Picture,
    Sheet,
    colormap,
    small,
)
from jumok.viewer.figures.heatmap import (
    FOCUS,
    Plan,
    draw_bar,
    draw_cells,
    frame_row,
    name_columns,
    name_rows,
    norm_of,
    plan,
    veil_special,
)
from jumok.viewer.figures.layer_view import NAMES, Place, pooled, read, said
from jumok.viewer.figures.options import Head, Rows
from jumok.viewer.labels import row_of

COVERAGE = 0.35  # inches: how high the bars of the coverage are


def alignment(
    trace: Trace,
    place: Place,
    head: Head,
    query: int | None,
    how: Showing,
    look: Look,
    rows: Rows,
    all_layers: bool = False,
) -> Picture:
    """Cross-attention with its hard alignment and coverage.

    A ring marks the largest cell of a row, a full dot one that is the largest of its column, too.
    The bars below say how much each source token was looked at in all. `rows` says which token a
    row belongs to: the one that was read, or the one that was predicted while reading it (the
    same numbers one row further down). With `all_layers` the mean or maximum is that of all heads
    of all layers.
    """
    if place.block.name != "cross":
        raise InputError(
            f"block {place.block.name} looks at its own tokens; alignment is read from the block "
            "cross, choose that or the figure attention"
        )
    if all_layers and isinstance(head, int):
        raise InputError(f"head {head} of all layers at once; take the mean or max of all heads")
    every = range(place.block.layers) if all_layers else (place.layer,)
    layers = [
        read(trace, replace(place, layer=layer), how, predicted=rows == "predicted")
        for layer in every
    ]
    shown = layers[0]
    weights = np.concatenate([one.weights for one in layers])  # (H of all layers, R, C)
    table = pooled(weights, head)
    title = look.titled(
        f"{NAMES['cross']} · all layers · {'mean' if head == 'mean' else 'maximum'} of "
        f"{len(weights)} heads"
        if all_layers
        else said(trace, place, head)
    )
    line = small(look) * LINE
    below = GAP + COVERAGE + GAP / 2 + line
    at = plan(shown.queries, shown.keys, look, title, left=line + GAP / 2, below=below)
    sheet = Sheet(at.width, at.height, look)
    sheet.head(title)
    axes = sheet.axes(*at.panel(0, 0))
    cells = draw_cells(
        axes, table, look.weights, norm_of(float(table.max()), look), at.cell >= LINES_FROM
    )
    name_rows(axes, at.rows)
    name_columns(axes, at.columns)
    if how.specials == "dim":
        veil_special(axes, shown.keys, len(table))
    _mark(axes, table, at.cell)
    if query is not None:
        frame_row(axes, row_of(shown.queries, query), len(shown.keys))
    edge = at.left - at.rows.room - GAP - line / 2
    middle = at.top + (at.deep - at.top) / 2
    sheet.write(
        f"token {rows}",
        max(edge, MARGIN + line / 2),
        middle,
        small(look),
        angle=90,
        align="center",
        colour=SOFT,
    )
    _draw_coverage(sheet, at, coverage(table))
    draw_bar(sheet, cells, at, shown.measure)
    return sheet.figure


def hard_alignment(table: Floats) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """The largest column of each row (-1 where a row is all 0), and where the column agrees.

    >>> marks, mutual = hard_alignment(np.array([[0.6, 0.4], [0.9, 0.1], [0, 0]], np.float32))
    >>> marks.tolist(), mutual.tolist()
    ([0, 0, -1], [False, True, False])
    """
    columns = table.argmax(1)
    mutual = table.argmax(0)[columns] == np.arange(len(table))
    seen = table.max(1) > 0
    return np.where(seen, columns, -1), mutual & seen


def coverage(table: Floats) -> NDArray[np.float64]:
    """How much each source token was looked at: the sums of the columns, (C,)."""
    return np.asarray(table.sum(0, dtype=np.float64))


def _mark(axes: Axes, table: Floats, cell: float) -> None:
    """Rings and dots on the largest cells."""
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


def _draw_coverage(sheet: Sheet, at: Plan, sums: NDArray[np.float64]) -> None:
    """A bar for each column, below it."""
    left, _, width, _ = at.panel(0, 0)
    axes = sheet.axes(left, at.deep + GAP, width, COVERAGE)
    places = np.arange(len(sums)) + 0.5
    axes.bar(places, sums, width=0.8, color=colormap("ink")(150))
    axes.set_xlim(0, len(sums))
    axes.set_ylim(0, max(float(sums.max()), 1e-9))
    axes.set_xticks([])
    axes.spines[["top", "right"]].set_visible(False)
    largest = float(sums.max())
    axes.set_yticks([0.0, largest], labels=["0", f"{largest:.2g}"], fontsize=small(sheet.look))
    top = at.deep + GAP + COVERAGE + GAP / 2
    sheet.write("coverage: sum over the rows", left, top, small(sheet.look), colour=SOFT)
