"""Heatmaps of attention weights: one head, or all heads of a layer."""

from math import ceil

from matplotlib.colors import Normalize

from jumok.interpret.aggregate import DisplayOptions, Floats
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.canvas import (
    GAP,
    LINE_HEIGHT,
    Canvas,
    FigureStyle,
    small_font,
    text_width,
)
from jumok.viewer.figures.heatmap import (
    Cells,
    HeatmapLayout,
    color_norm,
    draw_cells,
    draw_colorbar,
    draw_column_labels,
    draw_row_labels,
    fade_special,
    frame_row,
    hatch_masked,
    hide_ticks,
    make_layout,
)
from jumok.viewer.figures.layer_view import (
    LayerRef,
    LayerWeights,
    caption,
    load_weights,
    pool_heads,
)
from jumok.viewer.figures.options import Head
from jumok.viewer.labels import row_index

LINES_FROM = 0.085  # inches; smaller cells are drawn without grid lines


def attention_map(
    trace: Trace,
    layer_ref: LayerRef,
    head: Head,
    query: int | None,
    display: DisplayOptions,
    style: FigureStyle,
) -> JumokFigure:
    """One head, or the mean or maximum over a layer; one row per query."""
    view = load_weights(trace, layer_ref, display)
    table = pool_heads(view.weights, head)
    title = style.title_text(caption(trace, layer_ref, head))
    layout = make_layout(view.queries, view.keys, style, title)
    canvas = Canvas(layout.width, layout.height, style)
    canvas.draw_title(title)
    darkest = color_norm(float(table.max()), style, table.shape[1])
    cells = _panel(canvas, layout, (0, 0), table, view, darkest, query)
    draw_colorbar(canvas, cells, layout, view.measure)
    return canvas.figure


def head_grid(
    trace: Trace,
    layer_ref: LayerRef,
    query: int | None,
    display: DisplayOptions,
    style: FigureStyle,
) -> JumokFigure:
    """All heads of a layer side by side, with one colour scale."""
    view = load_weights(trace, layer_ref, display)
    n_heads = len(view.weights)
    title = style.title_text(
        translate("{} · {} heads", layer_ref, n_heads) if n_heads > 1 else str(layer_ref)
    )
    across = _across(n_heads, 4 if style.width is None or style.width < 5 else 6)
    shape = (ceil(n_heads / across), across)
    caption_height = small_font(style) * LINE_HEIGHT + GAP / 2
    layout = make_layout(
        view.queries, view.keys, style, title, panels=shape, captions=caption_height
    )
    canvas = Canvas(layout.width, layout.height, style)
    canvas.draw_title(title)
    darkest = color_norm(float(view.weights.max()), style, view.weights.shape[-1])
    for head, table in enumerate(view.weights):
        where = divmod(head, across)
        cells = _panel(canvas, layout, where, table, view, darkest, query)
        left, top, width, height = layout.panel(*where)
        muted = (layer_ref.block.name, layer_ref.layer, head) in trace.info.muted
        words = translate("head {}", head) + translate(" (muted)") * muted
        words = words if text_width(words, small_font(style)) <= width + GAP else str(head)
        canvas.draw_text(
            words, left + width / 2, top + height + GAP / 2, small_font(style), align="center"
        )
    draw_colorbar(canvas, cells, layout, view.measure)
    return canvas.figure


def _panel(
    canvas: Canvas,
    layout: HeatmapLayout,
    where: tuple[int, int],
    table: Floats,
    view: LayerWeights,
    norm: Normalize,
    query: int | None,
) -> Cells:
    """One panel; the left and top ones have token labels."""
    axes = canvas.axes(*layout.panel(*where))
    cells = draw_cells(axes, table, canvas.style.weights, norm, lines=layout.cell >= LINES_FROM)
    hide_ticks(axes)
    if where[1] == 0:
        draw_row_labels(axes, layout.rows)
    if where[0] == 0:
        draw_column_labels(axes, layout.columns)
    hatch_masked(axes, view.mask)
    if view.display.specials == "dim":
        fade_special(axes, view.keys, len(table))
    if query is not None:
        frame_row(axes, row_index(view.queries, query), len(view.keys))
    return cells


def _across(n: int, most: int) -> int:
    """Columns of a grid of n panels so that all rows are about equally full.

    >>> [_across(n, 4) for n in (1, 4, 6, 8, 12, 16)]
    [1, 4, 3, 4, 4, 4]
    """
    return ceil(n / ceil(n / most))
