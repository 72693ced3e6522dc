"""Learning curves: a matplotlib figure for history.png, plain SVG for report.html."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, TypeAlias

from jumok.fonts import plot_style, replace_missing_glyphs
from jumok.language import translate
from jumok.terminal import text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point: TypeAlias = tuple[float, float]

MAX_POINTS = 300  # of one curve; more are averaged in blocks
GREY, BLUE, ORANGE = "#9aa5b1", "#3b82f6", "#e8590c"  # readable on white and on black

WIDTH, HEIGHT = 520, 300  # of the SVG, in its own units
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 40  # margins


@dataclass(frozen=True)
class Curve:
    """Named points; a faint curve is drawn behind the others."""

    name: str
    points: tuple[Point, ...]
    colour: str = BLUE
    faint: bool = False

    def thinned(self) -> "Curve":
        """The curve with at most MAX_POINTS points, each the mean of a block.

        >>> points = tuple((float(x), float(x % 2)) for x in range(1200))
        >>> curve = Curve("zigzag", points).thinned()
        >>> len(curve.points), curve.points[0]
        (300, (1.5, 0.5))
        """
        size = math.ceil(len(self.points) / MAX_POINTS)
        if size < 2:
            return self
        blocks = (self.points[i : i + size] for i in range(0, len(self.points), size))
        return replace(self, points=tuple(map(_mean, blocks)))


@dataclass(frozen=True)
class Chart:
    """Curves in the same axes; `best` is marked."""

    name: str
    curves: tuple[Curve, ...]
    best: Point | None = None


def draw_charts(charts: Sequence[Chart], title: str = "") -> "Figure":
    """The charts side by side.

    >>> chart = Chart("accuracy", (Curve("dev", ((1.0, 0.8), (2.0, 0.85))),), best=(2.0, 0.85))
    >>> [axes.get_title() for axes in draw_charts([chart], "감정 분류").axes]
    ['accuracy']
    """
    from jumok.notebook_figure import JumokFigure

    with plot_style():
        width, height = 5.5 * len(charts), 4.0  # inches, as all margins here
        figure = JumokFigure(figsize=(width, height))
        # Fixed margins: to fit them to the texts draws everything once more.
        figure.subplots_adjust(
            left=0.75 / width,
            right=1 - 0.2 / width,
            bottom=0.55 / height,
            top=1 - (0.8 if title else 0.45) / height,
            wspace=0.2,
        )
        panels = figure.subplots(1, len(charts), squeeze=False).ravel()
        for axes, chart in zip(panels, charts, strict=True):
            _draw(axes, chart)
        if title:
            figure.suptitle(replace_missing_glyphs(title))
    return figure


def svg(chart: Chart) -> str:
    """The chart as one <svg> element without scripts and links, in the text colour of the page.

    >>> chart = Chart("score", (Curve("dev", ((1.0, 0.8), (2.0, 0.9))),), best=(2.0, 0.9))
    >>> picture = svg(chart)
    >>> picture[:4], picture.count("<polyline"), picture[-6:]
    ('<svg', 1, '</svg>')
    """
    curves = [curve.thinned() for curve in chart.curves if curve.points]
    points = [point for curve in curves for point in curve.points] or [(0.0, 0.0)]
    (low, high), y_range = _ranges(points)
    x_axis = _Axis(low, high, LEFT, WIDTH - RIGHT)
    y_axis = _Axis(*y_range, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(chart.name)}">',
        f'<text class="name" x="{LEFT}" y="16">{escape(chart.name)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end">{translate("epoch")}</text>',
    ]
    for tick in y_axis.ticks:
        y = y_axis.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{_label(tick)}</text>')
    for tick in x_axis.ticks:
        x = x_axis.at(tick)
        parts.append(f'<text x="{x}" y="{HEIGHT - 22}" text-anchor="middle">{_label(tick)}</text>')
    offset = WIDTH - RIGHT
    for curve in reversed(curves):
        points_text = " ".join(f"{x_axis.at(x)},{y_axis.at(y)}" for x, y in curve.points)
        style_attributes = f'stroke="{curve.colour}" stroke-width="{1 if curve.faint else 2}"'
        parts.append(f'<polyline fill="none" {style_attributes} points="{points_text}"/>')
        if not curve.faint:
            parts += [
                f'<circle cx="{x_axis.at(x)}" cy="{y_axis.at(y)}" r="3" fill="{curve.colour}">'
                f"<title>{translate('epoch')} {x:.2f}: {y:.4f}</title></circle>"
                for x, y in curve.points
            ]
        parts.append(
            f'<text x="{offset}" y="16" text-anchor="end" fill="{curve.colour}">'
            f"{escape(curve.name)}</text>"
        )
        offset -= 8 * text_width(curve.name) + 14
    if chart.best:
        x, y = x_axis.at(chart.best[0]), y_axis.at(chart.best[1])
        parts.append(f'<circle class="best" cx="{x}" cy="{y}" r="7" fill="none"/>')
    return "".join([*parts, "</svg>"])


class _Axis:
    """Maps values to coordinates, and has round values as ticks."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        step = _round_step((high - low) / 5)
        start = math.floor(low / step + 1e-9)
        self.low, self.high = start * step, math.ceil(high / step - 1e-9) * step
        self.first, self.last = first, last
        count = round((self.high - self.low) / step)
        self.ticks = [(start + i) * step for i in range(count + 1)]

    def at(self, value: float) -> float:
        """The coordinate of a value."""
        fraction = (value - self.low) / (self.high - self.low)
        return round(self.first + fraction * (self.last - self.first), 1)


def _ranges(points: Sequence[Point]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The ranges of the x axis and of the y axis, also of a single point.

    Epochs begin at 0 then, and numbers from 0 to 1 stay within 0 and 1.

    >>> _ranges([(0.4, 0.97)])
    ((0.0, 0.4), (0.87, 1.0))
    """
    xs, ys = zip(*points, strict=True)
    left, right = min(xs), max(xs)
    if left == right:
        left, right = min(0.0, left), max(0.0, right) or 1.0
    low, high = min(ys), max(ys)
    if low == high:
        in_unit, margin = 0 <= low <= 1, 0.1 * max(abs(low), 1.0)
        low, high = low - margin, high + margin
        if in_unit:
            low, high = max(low, 0.0), min(high, 1.0)
    return (left, right), (low, high)


def _round_step(size: float) -> float:
    """1, 2 or 5 times a power of ten, at least `size`.

    >>> [_round_step(size) for size in (0.03, 0.7, 4.9, 60.0)]
    [0.05, 1.0, 5.0, 100.0]
    """
    power = 10.0 ** math.floor(math.log10(size))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= size * (1 - 1e-9))


def _draw(axes: "Axes", chart: Chart) -> None:
    """Draw one panel of the figure."""
    for curve in (curve.thinned() for curve in chart.curves if curve.points):
        x, y = zip(*curve.points, strict=True)
        line_style = "-" if curve.faint else ".-"
        width = 1 if curve.faint else 2
        axes.plot(
            x, y, line_style, color=curve.colour, linewidth=width, label=curve.name, clip_on=False
        )
    if chart.best:
        x_best, y_best = chart.best
        axes.plot([x_best], [y_best], "o", ms=11, mfc="none", mec="black", clip_on=False)
        axes.annotate(
            f"{y_best:.4f}",
            chart.best,
            xytext=(0, -18),
            textcoords="offset points",
            ha="center",
        )
    points = [point for curve in chart.curves for point in curve.points]
    if len(set(points)) == 1:  # autoscaling would draw an axis a few thousandths long
        x_range, y_range = _ranges(points)
        axes.set_xlim(x_range[0], 1.1 * x_range[1])
        axes.set_ylim(y_range)
    axes.set_title(replace_missing_glyphs(chart.name))
    axes.set_xlabel(translate("epoch"))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if any(curve.points for curve in chart.curves):
        axes.legend(frameon=False)


def _mean(points: Sequence[Point]) -> Point:
    """The mean of some points."""
    return (
        sum(x for x, _ in points) / len(points),
        sum(y for _, y in points) / len(points),
    )


def _label(value: float) -> str:
    """A round number with a Unicode minus sign."""
    return f"{value:.6g}".replace("-", "−") if abs(value) > 1e-12 else "0"
