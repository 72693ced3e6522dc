"""All heads of all layers: one row per layer, one column per head; blocks side by side or stacked.

L layers, H heads, P cells a side of a head.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm

from jumok.interpret.aggregate import DisplayOptions, Floats
from jumok.interpret.schema import Block
from jumok.interpret.thumbnails import max_pool_tiles
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.figures.canvas import (
    GAP,
    LINE_HEIGHT,
    MARGIN,
    MAX_HEIGHT,
    Canvas,
    FigureStyle,
    bottom_margin,
    small_font,
    text_width,
    title_height,
)
from jumok.viewer.figures.heatmap import MIN_COLORBAR_HEIGHT, colorbar_width, draw_colorbar_at
from jumok.viewer.figures.layer_view import NAMES, LayerRef, load_weights, measure_label

MAX_TILE = 0.5  # inches
MIN_TILE = 0.15  # inches; if tiles would be smaller, blocks are stacked


def model_map(
    trace: Trace, sequence: int, display: DisplayOptions, style: FigureStyle
) -> JumokFigure:
    """All heads as thumbnails.

    For long texts, the largest weight of each tile is drawn. Colours and colorbar use a square root
    scale.
    """
    tables = {block.name: _mosaic(trace, block, sequence, display) for block in trace.info.blocks}
    title = style.title_text(translate("all heads"))
    layout = arrange([(block.layers, block.heads) for block in trace.info.blocks], style, title)
    canvas = Canvas(layout.width, layout.height, style)
    canvas.draw_title(title)
    largest = max(float(np.nanmax(table)) for table in tables.values()) or 1.0
    norm = PowerNorm(0.5, vmin=0.0, vmax=largest)
    for block, (left, top) in zip(trace.info.blocks, layout.positions, strict=True):
        axes = canvas.axes(left, top, block.heads * layout.tile, block.layers * layout.tile)
        cells = axes.imshow(
            tables[block.name],
            cmap=style.weights,
            norm=norm,
            interpolation="none",
            extent=(0, block.heads, block.layers, 0),
            aspect="auto",
        )
        shape = (block.layers, block.heads)
        draw_numbers(axes, shape, layout.tile, style, first=left == layout.positions[0][0])
        axes.spines[:].set_visible(False)
        middle = left + block.heads * layout.tile / 2
        above = top - (style.font + small_font(style)) * LINE_HEIGHT - GAP / 2
        canvas.draw_text(translate(NAMES[block.name]), middle, above, style.font, align="center")
    first, last = layout.positions[0], layout.height - bottom_margin(style)
    draw_colorbar_at(
        canvas,
        cells,
        layout.bar,
        first[1],
        last - first[1],
        translate("largest {}", measure_label(display)),
    )
    return canvas.figure


@dataclass(frozen=True)
class Arrangement:
    """The layout of the blocks, in inches."""

    width: float
    height: float
    tile: float
    positions: tuple[tuple[float, float], ...]  # left and top of each block
    bar: float


def arrange(shapes: Sequence[tuple[int, int]], style: FigureStyle, title: str) -> Arrangement:
    """Lay out blocks of (layers, heads) side by side if tiles are large enough, else stacked."""
    left = MARGIN + text_width("00", small_font(style)) + small_font(style) * LINE_HEIGHT + GAP
    right = colorbar_width(style) + MARGIN
    caption = (style.font + small_font(style)) * LINE_HEIGHT + GAP
    top = title_height(style, title) + caption
    heads, layers = [heads for _, heads in shapes], [layers for layers, _ in shapes]
    between = 3 * GAP
    free = (style.width or 16.0) - left - right
    tile = (free - between * (len(shapes) - 1)) / sum(heads)
    row_labels = tile >= MIN_TILE or len(shapes) == 1
    if not row_labels:
        tile = free / max(heads)
    down = max(layers) if row_labels else sum(layers)
    high = (
        MAX_HEIGHT - top - bottom_margin(style) - (0 if row_labels else caption * (len(shapes) - 1))
    )
    tile = min(tile, MAX_TILE, high / down)
    if row_labels:
        starts = [0.0, *accumulate(n * tile + between for n in heads)]
        positions = tuple((left + start, top) for start in starts[:-1])
        content, bottom = starts[-1] - between, top + down * tile
    else:
        starts = [0.0, *accumulate(n * tile + caption for n in layers)]
        positions = tuple((left, top + start) for start in starts[:-1])
        content, bottom = max(heads) * tile, top + starts[-1] - caption
    width = style.width or max(left + content + right, 2.5)
    shift = (width - left - content - right) / 2
    return Arrangement(
        width=width,
        height=max(bottom, top + MIN_COLORBAR_HEIGHT) + bottom_margin(style),
        tile=tile,
        positions=tuple((x + shift, y) for x, y in positions),
        bar=left + shift + content + GAP,
    )


def draw_numbers(
    axes: Axes, shape: tuple[int, int], tile: float, style: FigureStyle, *, first: bool
) -> None:
    """Draw the head numbers on top and the layer numbers at the left."""
    size = small_font(style)
    layers, heads = shape
    every = max(1, int(np.ceil(text_width("00", size) / tile)))
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.set_xticks(
        [head + 0.5 for head in range(0, heads, every)],
        labels=[str(head) for head in range(0, heads, every)],
        fontsize=size,
    )
    every = max(1, int(np.ceil(size * LINE_HEIGHT / tile)))
    numbered = range(0, layers, every) if first else range(0)
    axes.set_yticks(
        [layer + 0.5 for layer in numbered], labels=[str(n) for n in numbered], fontsize=size
    )
    if first:
        axes.set_ylabel(translate("layer"), fontsize=size, labelpad=1.5)


def _mosaic(trace: Trace, block: Block, sequence: int, display: DisplayOptions) -> Floats:
    """The heads of a block in one table."""
    layers = [
        load_weights(trace, LayerRef(block, n, sequence), display).weights
        for n in range(block.layers)
    ]
    return mosaic(np.stack([max_pool_tiles(heads) for heads in layers]))


def mosaic(layers: Floats) -> Floats:
    """Join heads horizontally and layers vertically, NaN between: (L, H, P, P') -> (·, ·).

    >>> mosaic(np.ones((1, 2, 1, 1), np.float32)).tolist()
    [[1.0, nan, 1.0]]
    """
    L, H, P, C = layers.shape
    gap = max(1, round(0.06 * max(P, C)))
    table = np.full((L, P + gap, H, C + gap), np.nan, np.float32)
    table[:, :P, :, :C] = layers.transpose(0, 2, 1, 3)
    whole = table.reshape(L * (P + gap), H * (C + gap))
    return np.asarray(whole[:-gap, :-gap])
