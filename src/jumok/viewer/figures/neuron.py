"""Where one query's weights come from: its vector, every key, their product and its running sum.

K width of a head, S keys. Reading from left to right gives equation (1): k, q ⊙ k, the sum of that
from the first number on, the whole sum times the scale (where the model caps that s at c, as
Gemma 2 does, then c·tanh(s / c); plus a bias of relative positions), and the softmax over the keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.viewer.figures.canvas import (
    GAP,
    INK,
    LINE_HEIGHT,
    MARGIN,
    MAX_HEIGHT,
    PALE,
    SOFT,
    Canvas,
    FigureStyle,
    JumokFigure,
    colormap,
    small_font,
    text_width,
    title_height,
    truncate_text,
)
from jumok.viewer.figures.heatmap import (
    AxisLabels,
    Table,
    draw_cells,
    draw_row_labels,
    hide_ticks,
    row_labels,
)
from jumok.viewer.figures.layer_view import LayerRef, caption
from jumok.viewer.figures.options import Head
from jumok.viewer.labels import Label, labels

Numbers = NDArray[np.float64]

NATURAL = 9.0  # inches, when nobody has set a width
STRIP = 0.14  # inches: how high the query's own row is


@dataclass(frozen=True)
class Steps:
    """The numbers of one query, in the order they are computed."""

    q: Numbers  # (K,)
    k: Numbers  # (S, K)
    scale: float
    softcap: float | None  # c
    bias: Numbers | None  # (S,)
    weights: Numbers  # (S,), as the model has them
    mask: NDArray[np.bool_]  # (S,)

    @property
    def products(self) -> Numbers:
        """q ⊙ k, (S, K)."""
        return self.q * self.k

    @property
    def running(self) -> Numbers:
        """Σ q ⊙ k from the first number on, (S, K); the last column is q·k."""
        return self.products.cumsum(1)

    @property
    def scaled(self) -> Numbers:
        """q·k·scale, (S,)."""
        return self.running[:, -1] * self.scale

    @property
    def capped(self) -> Numbers | None:
        """c·tanh(q·k·scale / c), (S,); None where the model has no cap c."""
        if self.softcap is None:
            return None
        return self.softcap * np.tanh(self.scaled / self.softcap)


def neuron_view(
    trace: Trace, layer_ref: LayerRef, head: Head, query: int | None, style: FigureStyle
) -> JumokFigure:
    """One head and one query; without `query` the first that is no special token."""
    if not isinstance(head, int):
        raise InputError(f"the neuron view is of one head, {head} came; give its number")
    queries = trace.info.tokens(layer_ref.block.queries, layer_ref.sequence)
    asking = labels(queries, "piece")
    if query is None:
        query = next((n for n, label in enumerate(asking) if not label.special), 0)
    if not 0 <= query < len(asking):
        raise InputError(f"query {query} of {len(asking)}; they count from 0, without padding")
    keys = labels(trace.info.tokens(layer_ref.block.keys, layer_ref.sequence), "piece")
    steps = steps_of(trace, layer_ref, head, query, len(keys))
    title = style.title_text(
        f"{caption(trace, layer_ref, head)} · query {query}: {asking[query].text}"
    )
    return _draw(steps, keys, asking[query], title, style)


def steps_of(trace: Trace, layer_ref: LayerRef, head: int, query: int, n_keys: int) -> Steps:
    """The numbers of a query and the first `n_keys` keys. Raises InputError for a missing head."""
    block, layer, sequence = layer_ref.block, layer_ref.layer, layer_ref.sequence
    if not 0 <= head < block.heads:
        raise InputError(f"head {head} of {block.heads}; heads count from 0")
    key_head = head * block.key_heads // block.heads
    bias = trace.bias(block.name, layer)
    return Steps(
        q=trace.q(block.name, layer, sequence)[head, query].astype(np.float64),
        k=trace.k(block.name, layer, sequence)[key_head, :n_keys].astype(np.float64),
        scale=block.scale,
        softcap=block.softcap,
        bias=None if bias is None else bias[head, query, :n_keys].astype(np.float64),
        weights=trace.weights(block.name, layer, sequence)[head, query, :n_keys].astype(np.float64),
        mask=trace.mask(block.name, sequence)[query, :n_keys],
    )


def _draw(
    steps: Steps, keys: Sequence[Label], query: Label, title: str, style: FigureStyle
) -> JumokFigure:
    width = style.width or NATURAL
    size = small_font(style)
    top = title_height(style, title) + size * LINE_HEIGHT + STRIP + GAP
    below = size * LINE_HEIGHT + GAP / 2 + MARGIN
    row = min(style.font * LINE_HEIGHT * 1.1, (MAX_HEIGHT - top - below) / len(keys))
    names = row_labels(keys, row, style, 0.2 * width)
    own = truncate_text(f"q {query.text}", 0.2 * width, size)
    left = MARGIN + max(names.extent, text_width(own, size)) + GAP
    bars = _bars(steps)
    shares = [1.0] * 3 + [0.95] * len(bars)
    unit = (width - left - MARGIN - GAP * (len(shares) - 1)) / sum(shares)
    height = row * len(keys)
    canvas = Canvas(width, top + height + below, style)
    canvas.draw_title(title)

    tables = (("k", steps.k), ("q ⊙ k", steps.products), ("Σ q ⊙ k →", steps.running))
    for number, (name, table) in enumerate(tables):
        x = left + number * (unit + GAP)
        canvas.draw_text(
            name, x + unit / 2, top - STRIP - GAP - size * LINE_HEIGHT, size, align="center"
        )
        largest = _largest(table, steps.q) if number == 0 else _largest(table)
        _signed(canvas.axes(x, top, unit, height), table, largest)
        if number == 0:
            _signed(canvas.axes(x, top - STRIP - GAP / 2, unit, STRIP), steps.q[None], largest)
            draw_row_labels(canvas.figure.axes[-2], names)
            canvas.draw_text(
                own,
                x - GAP / 2,
                top - STRIP / 2 - GAP / 2 - size * LINE_HEIGHT / 2,
                size,
                align="right",
            )
        canvas.draw_text(
            f"±{largest:.2g}",
            x + unit / 2,
            top + height + GAP / 2,
            size,
            align="center",
            colour=SOFT,
        )
    x = left + 3 * (unit + GAP)
    for name, numbers, digits in bars:
        wide = 0.95 * unit
        name = truncate_text(name, wide + GAP, size)
        canvas.draw_text(
            name, x + wide / 2, top - STRIP - GAP - size * LINE_HEIGHT, size, align="center"
        )
        axes = canvas.axes(x, top, wide, height)
        _draw_bars(axes, numbers, steps.mask, digits, names, size)
        x += wide + GAP
    return canvas.figure


def _bars(steps: Steps) -> list[tuple[str, Numbers, int]]:
    """The panels of bars: a name, a number for each key, how many digits are written."""
    found = [("q·k·scale", steps.scaled, 2)]
    if steps.capped is not None:
        found.append((f"{steps.softcap:g}·tanh(s / {steps.softcap:g})", steps.capped, 2))
    if steps.bias is not None:
        found.append(("bias", steps.bias, 2))
    return [*found, ("softmax", steps.weights, 3)]


def _largest(*tables: Numbers) -> float:
    """The largest size of a number; 1 where all are 0."""
    return max(float(np.abs(table).max()) for table in tables) or 1.0


def _signed(axes: Axes, table: Table, largest: float) -> None:
    """Cells of signed numbers: purple below 0, orange above."""
    draw_cells(axes, table, colormap("diverging"), Normalize(-largest, largest))
    hide_ticks(axes)


def _draw_bars(
    axes: Axes,
    numbers: Numbers,
    mask: NDArray[np.bool_],
    digits: int,
    names: AxisLabels,
    size: float,
) -> None:
    """A bar for each key from 0, its number at the right; hidden keys are hollow."""
    hide_ticks(axes)
    axes.spines[:].set_visible(False)
    places = np.arange(len(numbers)) + 0.5
    low, high = min(0.0, float(numbers.min())), max(0.0, float(numbers.max()))
    axes.barh(
        places,
        numbers,
        height=0.72,
        color=["#8fa9d6" if seen else "none" for seen in mask],
        edgecolor=["none" if seen else PALE for seen in mask],
        linewidth=0.4,
    )
    axes.axvline(0.0, color=PALE, linewidth=0.5)
    axes.set_xlim(low, low + (high - low or 1.0) / 0.55)  # the rest is for the numbers
    axes.set_ylim(len(numbers), 0)
    for name in names.labels:
        number, seen = numbers[name.index], mask[name.index]
        axes.text(
            1.0,
            name.index + 0.5,
            f"{number:.{digits}f}".replace("-", "−"),
            transform=axes.get_yaxis_transform(),
            fontsize=min(size, names.size),
            ha="right",
            va="center_baseline",
            color=INK if seen else SOFT,
        )
