"""Compare five positional encodings, and the error of shifting them by one matrix.

Top: each encoding as a heatmap, one row per position, one column per dimension. Bottom: the
relative error of PE(p + k) = PE(p) T(k) for the best matrix T(k), for every distance k.
"""

from dataclasses import dataclass

from matplotlib.axes import Axes

from jumok.errors import TraceError
from jumok.fonts import plot_style as font_style
from jumok.language import translate
from jumok.notebook_figure import JumokFigure
from jumok.viewer.positional_encodings import (
    Positions,
    best_shift,
    binary,
    continuous_binary,
    index,
    normalised_index,
    shift_error,
    shift_matrix,
    sinusoid_pairs,
)

SMALLEST_ERROR = 1e-17  # replaces 0 on the logarithmic axis
LINE_STYLES = ("C7.-", "C8.--", "C2.-", "C0.-", "C3.-")  # colour, marker and line of each encoding


@dataclass(frozen=True)
class Rung:
    """An encoding: its name, formula and values."""

    name: str
    formula: str
    positions: Positions  # (length, d); d = 1 for the first two


def positional_comparison(length: int = 64, width: int = 32) -> JumokFigure:
    """Draw the encodings for `length` positions and `width` dimensions; `jumok plot positions`.

    Raises InputError for fewer than 4 positions, fewer than 2 dimensions or an odd width.

    >>> figure = positional_comparison(length=16, width=8)
    >>> [axes.get_title().splitlines()[1] for axes in figure.axes[4:9:2]]
    ['⌊p / 2ʲ⌋ mod 2', 'sin(πp / 2ʲ)', 'sin(p ωᵢ), cos(p ωᵢ)']
    """
    if length < 4 or width < 2:
        raise TraceError(
            "page.length_or_width_too_small",
            "length must be at least 4 and width at least 2, got {length} and {width}",
            length=length,
            width=width,
        )
    encodings = (
        Rung("index", "p", index(length)),
        Rung("normalised index", "p / (n − 1)", normalised_index(length)),
        Rung("binary", "⌊p / 2ʲ⌋ mod 2", binary(length, width)),
        Rung("continuous binary", "sin(πp / 2ʲ)", continuous_binary(length, width)),
        Rung("sin/cos pairs", "sin(p ωᵢ), cos(p ωᵢ)", sinusoid_pairs(length, width)),
    )
    with font_style():
        figure = JumokFigure(figsize=(14, 7.5), layout="constrained")
        grid = figure.add_gridspec(2, len(encodings), height_ratios=(1.5, 1))
        for number, encoding in enumerate(encodings, start=1):
            _draw_encoding(figure.add_subplot(grid[0, number - 1]), number, encoding)
        _draw_errors(figure.add_subplot(grid[1, :]), encodings)
    return figure


def _draw_encoding(axes: Axes, number: int, encoding: Rung) -> None:
    """Draw one encoding: blue is positive, red negative, white zero."""
    largest = float(abs(encoding.positions).max())
    mesh = axes.pcolormesh(encoding.positions, cmap="RdBu", vmin=-largest, vmax=largest)
    axes.set_title(f"{number} · {translate(encoding.name)}\n{encoding.formula}", fontsize=11)
    axes.invert_yaxis()  # position 0 on top
    axes.tick_params(labelleft=number == 1)
    if number == 1:
        axes.set_ylabel(translate("position p"))
    axes.set_xlabel(translate("dimension"))
    if encoding.positions.shape[1] == 1:
        axes.set_xticks([])
    axes.figure.colorbar(mesh, ax=axes, location="bottom", aspect=12, ticks=[-largest, 0, largest])


def _draw_errors(axes: Axes, encodings: tuple[Rung, ...]) -> None:
    """Draw a line per encoding: the error of one matrix for all positions, per distance k."""
    length = len(encodings[0].positions)
    distances = range(1, length // 2 + 1)
    for number, (encoding, line_style) in enumerate(
        zip(encodings, LINE_STYLES, strict=True), start=1
    ):
        errors = [_error(encoding, k) for k in distances]
        name = f"{number} · {translate(encoding.name)}: {_number(max(errors))}"
        axes.plot(distances, errors, line_style, markersize=4, label=name)
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(SMALLEST_ERROR, 10)
    axes.yaxis.set_major_formatter(lambda error, _: _number(error))
    axes.set_xlabel(translate("distance k"))
    axes.set_ylabel(translate("relative error"))
    axes.set_title(
        f"{translate('one matrix moves every position by k')}:  PE(p + k) = PE(p) T(k)", fontsize=11
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center right", title=translate("largest error"))


def _error(encoding: Rung, k: int) -> float:
    """The error of the exact shift matrix for sin/cos pairs, else of the least-squares matrix."""
    d = encoding.positions.shape[1]
    paired = encoding.name == "sin/cos pairs"
    matrix = shift_matrix(k, d) if paired else best_shift(encoding.positions, k)
    return max(shift_error(encoding.positions, k, matrix), SMALLEST_ERROR)


def _number(error: float) -> str:
    """An error with two digits and a typographic minus sign."""
    return f"{error:.2g}".replace("-", "−")
