"""Who looks at whom: one head, or all heads of a layer."""

from math import ceil

from matplotlib.colors import Normalize

from jumok.interpret.aggregate import Floats, Showing
from jumok.interpret.trace import Trace
from jumok.viewer.figures.canvas import GAP, LINE, Look, Picture, Sheet, small, width_of
from jumok.viewer.figures.heatmap import (
    Cells,
    Plan,
    draw_bar,
    draw_cells,
    frame_row,
    hatch_hidden,
    name_columns,
    name_rows,
    nameless,
    norm_of,
    plan,
    veil_special,
)
from jumok.viewer.figures.layer_view import Place, Shown, pooled, read, said
from jumok.viewer.figures.options import Head
from jumok.viewer.labels import row_of

LINES_FROM = 0.085  # inches: smaller cells have no lines between them


def attention_map(
    trace: Trace, place: Place, head: Head, query: int | None, how: Showing, look: Look
) -> Picture:
    """One head, or the mean or maximum of a layer's heads: a row for each query."""
    shown = read(trace, place, how)
    table = pooled(shown.weights, head)
    title = look.titled(said(trace, place, head))
    at = plan(shown.queries, shown.keys, look, title)
    sheet = Sheet(at.width, at.height, look)
    sheet.head(title)
    darkest = norm_of(float(table.max()), look)
    cells = _panel(sheet, at, (0, 0), table, shown, darkest, query)
    draw_bar(sheet, cells, at, shown.measure)
    return sheet.figure


def head_grid(trace: Trace, place: Place, query: int | None, how: Showing, look: Look) -> Picture:
    """All heads of a layer side by side, in the same colours."""
    shown = read(trace, place, how)
    n_heads = len(shown.weights)
    title = look.titled(f"{place} · {n_heads} heads" if n_heads > 1 else str(place))
    across = _across(n_heads, 4 if look.width is None or look.width < 5 else 6)
    shape = (ceil(n_heads / across), across)
    caption = small(look) * LINE + GAP / 2
    at = plan(shown.queries, shown.keys, look, title, panels=shape, captions=caption)
    sheet = Sheet(at.width, at.height, look)
    sheet.head(title)
    darkest = norm_of(float(shown.weights.max()), look)
    for head, table in enumerate(shown.weights):
        where = divmod(head, across)
        cells = _panel(sheet, at, where, table, shown, darkest, query)
        left, top, width, height = at.panel(*where)
        muted = (place.block.name, place.layer, head) in trace.info.muted
        words = f"head {head}" + " (muted)" * muted
        words = words if width_of(words, small(look)) <= width + GAP else str(head)
        sheet.write(words, left + width / 2, top + height + GAP / 2, small(look), align="center")
    draw_bar(sheet, cells, at, shown.measure)
    return sheet.figure


def _panel(
    sheet: Sheet,
    at: Plan,
    where: tuple[int, int],
    table: Floats,
    shown: Shown,
    norm: Normalize,
    query: int | None,
) -> Cells:
    """One head, named where it stands at the left or on top."""
    axes = sheet.axes(*at.panel(*where))
    cells = draw_cells(axes, table, sheet.look.weights, norm, lines=at.cell >= LINES_FROM)
    nameless(axes)
    if where[1] == 0:
        name_rows(axes, at.rows)
    if where[0] == 0:
        name_columns(axes, at.columns)
    hatch_hidden(axes, shown.allowed)
    if shown.how.specials == "dim":
        veil_special(axes, shown.keys, len(table))
    if query is not None:
        frame_row(axes, row_of(shown.queries, query), len(shown.keys))
    return cells


def _across(n: int, most: int) -> int:
    """How many of n stand in a row so that all rows are about as full.

    >>> [_across(n, 4) for n in (1, 4, 6, 8, 12, 16)]
    [1, 4, 3, 4, 4, 4]
    """
    return ceil(n / ceil(n / most))
