"""The neuron view: how the weights of one query are computed from q and k, step by step.

K head dimension, S keys. From left to right, equation (1): k, q ⊙ k, its cumulative sum, the sum
times the scale (with a softcap c as in Gemma 2, c·tanh(s / c); plus a relative position bias), and
the softmax over the keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from jumok.errors import TraceError
from jumok.interpret.schema import check_index
from jumok.interpret.trace import Trace
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
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

DEFAULT_WIDTH = 9.0  # inches
Q_ROW_HEIGHT = 0.14  # inches: the height of the row of q


@dataclass(frozen=True)
class Steps:
    """The numbers of one query, in the order of computation."""

    q: Numbers  # (K,)
    k: Numbers  # (S, K)
    scale: float
    softcap: float | None  # c
    bias: Numbers | None  # (S,)
    weights: Numbers  # (S,), from the trace
    mask: NDArray[np.bool_]  # (S,)

    @property
    def products(self) -> Numbers:
        """q ⊙ k, (S, K)."""
        return self.q * self.k

    @property
    def cumulative(self) -> Numbers:
        """The cumulative sum of q ⊙ k, (S, K); the last column is q·k."""
        return self.products.cumsum(1)

    @property
    def scaled(self) -> Numbers:
        """q·k·scale, (S,)."""
        return self.cumulative[:, -1] * self.scale

    @property
    def capped(self) -> Numbers | None:
        """c·tanh(q·k·scale / c), (S,); None without softcap."""
        if self.softcap is None:
            return None
        return self.softcap * np.tanh(self.scaled / self.softcap)


def neuron_view(
    trace: Trace, layer_ref: LayerRef, head: Head, query: int | None, style: FigureStyle
) -> JumokFigure:
    """One head and one query; by default the first that is not a special token."""
    if not isinstance(head, int):
        raise TraceError(
            "page.head_not_a_number",
            "head must be a number for the figure neuron, got {head}",
            head=head,
        )
    queries = trace.info.tokens(layer_ref.block.queries, layer_ref.sequence)
    query_labels = labels(queries, "piece")
    if query is None:
        query = next((n for n, label in enumerate(query_labels) if not label.special), 0)
    check_index("query", query, len(query_labels))
    keys = labels(trace.info.tokens(layer_ref.block.keys, layer_ref.sequence), "piece")
    steps = steps_of(trace, layer_ref, head, query, len(keys))
    name = caption(trace, layer_ref, head)
    title = style.title_text(translate("{} · query {}: {}", name, query, query_labels[query].text))
    return _draw(steps, keys, query_labels[query], title, style)


def steps_of(trace: Trace, layer_ref: LayerRef, head: int, query: int, n_keys: int) -> Steps:
    """The numbers of a query and the first `n_keys` keys. Raises InputError for an invalid head."""
    block, layer, sequence = layer_ref.block, layer_ref.layer, layer_ref.sequence
    check_index("head", head, block.heads)
    key_head = head * block.key_heads // block.heads
    bias = trace.bias(block.name, layer, sequence)
    return Steps(
        q=trace.q(block.name, layer, sequence)[head, query].astype(np.float64),
        k=trace.k(block.name, layer, sequence)[key_head, :n_keys].astype(np.float64),
        scale=block.scale,
        softcap=block.softcap,
        bias=None if bias is None else bias[head, query, :n_keys].astype(np.float64),
        weights=trace.weights(block.name, layer, sequence)[head, query, :n_keys].astype(np.float64),
        mask=trace.mask(block.name, sequence, layer)[query, :n_keys],
    )


def _draw(
    steps: Steps, keys: Sequence[Label], query: Label, title: str, style: FigureStyle
) -> JumokFigure:
    width = style.width or DEFAULT_WIDTH
    size = small_font(style)
    top = title_height(style, title) + size * LINE_HEIGHT + Q_ROW_HEIGHT + GAP
    below = size * LINE_HEIGHT + GAP / 2 + MARGIN
    row = min(style.font * LINE_HEIGHT * 1.1, (MAX_HEIGHT - top - below) / len(keys))
    names = row_labels(keys, row, style, 0.2 * width)
    own = truncate_text(f"q {query.text}", 0.2 * width, size)
    left = MARGIN + max(names.extent, text_width(own, size)) + GAP
    bars = _bar_panels(steps)
    widths = [1.0] * 3 + [0.95] * len(bars)
    panel_width = (width - left - MARGIN - GAP * (len(widths) - 1)) / sum(widths)
    height = row * len(keys)
    canvas = Canvas(width, top + height + below, style)
    canvas.draw_title(title)

    tables = (("k", steps.k), ("q ⊙ k", steps.products), ("Σ q ⊙ k →", steps.cumulative))
    for number, (name, table) in enumerate(tables):
        x = left + number * (panel_width + GAP)
        canvas.draw_text(
            name,
            x + panel_width / 2,
            top - Q_ROW_HEIGHT - GAP - size * LINE_HEIGHT,
            size,
            align="center",
        )
        largest = _largest(table, steps.q) if number == 0 else _largest(table)
        _signed(canvas.axes(x, top, panel_width, height), table, largest)
        if number == 0:
            _signed(
                canvas.axes(x, top - Q_ROW_HEIGHT - GAP / 2, panel_width, Q_ROW_HEIGHT),
                steps.q[None],
                largest,
            )
            draw_row_labels(canvas.figure.axes[-2], names)
            canvas.draw_text(
                own,
                x - GAP / 2,
                top - Q_ROW_HEIGHT / 2 - GAP / 2 - size * LINE_HEIGHT / 2,
                size,
                align="right",
            )
        canvas.draw_text(
            f"±{largest:.2g}",
            x + panel_width / 2,
            top + height + GAP / 2,
            size,
            align="center",
            colour=SOFT,
        )
    x = left + 3 * (panel_width + GAP)
    for name, numbers, digits in bars:
        bar_width = 0.95 * panel_width
        name = truncate_text(name, bar_width + GAP, size)
        canvas.draw_text(
            name,
            x + bar_width / 2,
            top - Q_ROW_HEIGHT - GAP - size * LINE_HEIGHT,
            size,
            align="center",
        )
        axes = canvas.axes(x, top, bar_width, height)
        _draw_bars(axes, numbers, steps.mask, digits, names, size)
        x += bar_width + GAP
    return canvas.figure


def _bar_panels(steps: Steps) -> list[tuple[str, Numbers, int]]:
    """The bar panels: name, a number per key, number of digits."""
    found = [("q·k·scale", steps.scaled, 2)]
    if steps.capped is not None:
        found.append((f"{steps.softcap:g}·tanh(s / {steps.softcap:g})", steps.capped, 2))
    if steps.bias is not None:
        found.append(("bias", steps.bias, 2))
    return [*found, ("softmax", steps.weights, 3)]


def _largest(*tables: Numbers) -> float:
    """The largest absolute value; 1 if all are 0."""
    return max(float(np.abs(table).max()) for table in tables) or 1.0


def _signed(axes: Axes, table: Table, largest: float) -> None:
    """Draw cells of signed numbers: purple below 0, orange above."""
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
    """Draw a bar per key with its number at the right; masked keys are hollow."""
    hide_ticks(axes)
    axes.spines[:].set_visible(False)
    positions = np.arange(len(numbers)) + 0.5
    low, high = min(0.0, float(numbers.min())), max(0.0, float(numbers.max()))
    axes.barh(
        positions,
        numbers,
        height=0.72,
        color=["#8fa9d6" if visible else "none" for visible in mask],
        edgecolor=["none" if visible else PALE for visible in mask],
        linewidth=0.4,
    )
    axes.axvline(0.0, color=PALE, linewidth=0.5)
    axes.set_xlim(low, low + (high - low or 1.0) / 0.55)  # leaves space for the numbers
    axes.set_ylim(len(numbers), 0)
    for name in names.labels:
        number, visible = numbers[name.index], mask[name.index]
        axes.text(
            1.0,
            name.index + 0.5,
            f"{number:.{digits}f}".replace("-", "−"),
            transform=axes.get_yaxis_transform(),
            fontsize=min(size, names.size),
            ha="right",
            va="center_baseline",
            color=INK if visible else SOFT,
        )
