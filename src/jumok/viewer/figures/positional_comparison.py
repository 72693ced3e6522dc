"""The five positional ideas side by side, and the test that only the fifth passes.

Above, each idea as a picture: one row for each position, one column for each dimension. Below, how
far the best single matrix T(k) stays from PE(p + k) = PE(p) T(k), for every distance k.
"""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from jumok.errors import InputError
from jumok.fonts import style
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

SMALLEST_ERROR = 1e-17  # an error of exactly 0 has no place on a logarithmic axis
LOOKS = ("C7.-", "C8.--", "C2.-", "C0.-", "C3.-")  # colour, marker and line of each rung


@dataclass(frozen=True)
class Rung:
    """One idea: its name, its formula and its picture."""

    name: str
    formula: str
    positions: Positions  # (length, d); d = 1 for the first two


def positional_comparison(length: int = 64, width: int = 32) -> Figure:
    """Draw the ideas for `length` positions and `width` dimensions; `jumok plot positions`.

    Raises InputError for fewer than 4 positions, fewer than 2 dimensions or an odd width.

    >>> figure = positional_comparison(length=16, width=8)
    >>> [axes.get_title().splitlines()[1] for axes in figure.axes[4:9:2]]
    ['⌊p / 2ʲ⌋ mod 2', 'sin(πp / 2ʲ)', 'sin(p ωᵢ), cos(p ωᵢ)']
    """
    if length < 4 or width < 2:
        raise InputError(f"{length} positions of {width} dimensions came; take at least 4 of 2")
    rungs = (
        Rung("index", "p", index(length)),
        Rung("normalised index", "p / (n − 1)", normalised_index(length)),
        Rung("binary", "⌊p / 2ʲ⌋ mod 2", binary(length, width)),
        Rung("continuous binary", "sin(πp / 2ʲ)", continuous_binary(length, width)),
        Rung("sin/cos pairs", "sin(p ωᵢ), cos(p ωᵢ)", sinusoid_pairs(length, width)),
    )
    with style():
        figure = Figure(figsize=(14, 7.5), layout="constrained")
        grid = figure.add_gridspec(2, len(rungs), height_ratios=(1.5, 1))
        for number, rung in enumerate(rungs, start=1):
            _draw_rung(figure.add_subplot(grid[0, number - 1]), number, rung)
        _draw_errors(figure.add_subplot(grid[1, :]), rungs)
    return figure


def _draw_rung(axes: Axes, number: int, rung: Rung) -> None:
    """One picture: blue is positive, red negative, white zero."""
    largest = float(abs(rung.positions).max())
    mesh = axes.pcolormesh(rung.positions, cmap="RdBu", vmin=-largest, vmax=largest)
    axes.set_title(f"{number} · {rung.name}\n{rung.formula}", fontsize=11)
    axes.invert_yaxis()  # position 0 on top, as text is read
    axes.tick_params(labelleft=number == 1)
    if number == 1:
        axes.set_ylabel("위치 · position p")
    axes.set_xlabel("차원 · dimension")
    if rung.positions.shape[1] == 1:
        axes.set_xticks([])
    axes.figure.colorbar(mesh, ax=axes, location="bottom", aspect=12, ticks=[-largest, 0, largest])


def _draw_errors(axes: Axes, rungs: tuple[Rung, ...]) -> None:
    """One line for each idea: the error of one matrix for all positions, at every distance k."""
    length = len(rungs[0].positions)
    distances = range(1, length // 2 + 1)
    for number, (rung, look) in enumerate(zip(rungs, LOOKS, strict=True), start=1):
        errors = [_error(rung, k) for k in distances]
        name = f"{number} · {rung.name}: {_number(max(errors))}"
        axes.plot(distances, errors, look, markersize=4, label=name)
    axes.set_yscale("log", nonpositive="clip")
    axes.set_ylim(SMALLEST_ERROR, 10)
    axes.yaxis.set_major_formatter(lambda error, _: _number(error))
    axes.set_xlabel("거리 · distance k")
    axes.set_ylabel("상대 오차 · relative error")
    axes.set_title(
        "한 행렬로 k칸 옮기기 · one matrix moves every position by k:  PE(p + k) = PE(p) T(k)",
        fontsize=11,
    )
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center right", title="가장 큰 오차 · largest error")


def _error(rung: Rung, k: int) -> float:
    """What the shift matrix of the pairs misses, or the best matrix there is for another idea."""
    d = rung.positions.shape[1]
    paired = rung.name == "sin/cos pairs"
    matrix = shift_matrix(k, d) if paired else best_shift(rung.positions, k)
    return max(shift_error(rung.positions, k, matrix), SMALLEST_ERROR)


def _number(error: float) -> str:
    """An error with two digits and a true minus sign."""
    return f"{error:.2g}".replace("-", "−")
