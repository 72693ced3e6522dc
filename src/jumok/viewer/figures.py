"""Who looks at whom: attention weights as pictures, with the tokens written beside them.

T queries down the side, S keys along the top, H heads. A dark cell says that this query takes much
from this key; every row sums to 1, or to 0 where a query may see nothing.
"""

from collections.abc import Sequence
from math import ceil
from unicodedata import east_asian_width

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from jumok.errors import InputError
from jumok.typography import drawable, style

CELL = 0.3  # inches
LONGEST_SIDE = 16.0  # inches; more tokens than fit make smaller cells
FONT_SIZE = 9.0  # points
CHARACTER = 0.07  # inches that one Latin letter takes at FONT_SIZE; Hangul takes two
PANEL_SIDE = 3.0  # inches: the longest side of one head in the grid
COLUMNS = 4  # heads in a row


def attention_map(
    weights: ArrayLike, queries: Sequence[str], keys: Sequence[str], title: str = ""
) -> Figure:
    """One head: weights (T, S), T queries, S keys.

    Raises InputError when the weights do not have one row for each query and one column for each
    key, or are not all finite.

    >>> figure = attention_map([[0.9, 0.1], [0.5, 0.5]], ["2026", "년"], ["▁이천이십육", "▁년"])
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['▁이천이십육', '▁년']
    """
    table = _checked(weights, (len(queries), len(keys)), "(queries, keys)")
    cell = min(CELL, LONGEST_SIDE / max(table.shape))
    width = cell * len(keys) + _room(queries) + 1.0  # the colour bar
    height = cell * len(queries) + _room(keys) * 0.75 + (0.7 if title else 0.3)
    with style():
        figure = Figure(figsize=(max(width, 3.0), max(height, 2.0)), layout="compressed")
        axes = figure.add_subplot()
        mesh = _draw(axes, table, table.max())
        _label(axes, queries, keys, cell)
        figure.colorbar(mesh, ax=axes, shrink=0.8, label="weight")
        if title:
            figure.suptitle(drawable(title), fontsize=11)
    return figure


def head_grid(
    weights: ArrayLike, queries: Sequence[str], keys: Sequence[str], title: str = ""
) -> Figure:
    """All heads of a layer side by side, in the same colours: weights (H, T, S).

    Raises InputError as `attention_map` does.

    >>> figure = head_grid(np.full((8, 2, 4), 0.25), ["나", "는"], list("abcd"), "layer 0")
    >>> [axes.get_title() for axes in figure.axes[:8]]
    ['head 0', 'head 1', 'head 2', 'head 3', 'head 4', 'head 5', 'head 6', 'head 7']
    """
    heads = np.asarray(weights, dtype=np.float64)
    if heads.ndim != 3 or not len(heads):
        raise InputError(f"heads of shape {heads.shape} came, wanted (heads, queries, keys)")
    _checked(heads, (len(heads), len(queries), len(keys)), "(heads, queries, keys)")
    columns = min(COLUMNS, len(heads))
    rows = ceil(len(heads) / columns)
    cell = min(CELL, PANEL_SIDE / max(heads.shape[1:]))
    width = columns * max(cell * len(keys), 0.9) + _room(queries) + 1.2
    height = rows * (max(cell * len(queries), 0.9) + 0.4) + _room(keys) * 0.75 + 0.5
    with style():
        figure = Figure(figsize=(max(width, 3.5), max(height, 2.5)), layout="compressed")
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for number, (axes, table) in enumerate(zip(panels, heads, strict=False)):
            mesh = _draw(axes, table, heads.max())
            first_row, first_column = number < columns, number % columns == 0
            _label(axes, queries if first_column else (), keys if first_row else (), cell)
            axes.set_title(f"head {number}", fontsize=FONT_SIZE)
        for axes in panels[len(heads) :]:
            axes.remove()
        figure.colorbar(mesh, ax=list(panels[: len(heads)]), shrink=0.8, label="weight")
        if title:
            figure.suptitle(drawable(title), fontsize=11)
    return figure


def _checked(weights: ArrayLike, shape: tuple[int, ...], meaning: str) -> NDArray[np.float64]:
    """The weights as float64, refused unless they have this shape and are finite."""
    table = np.asarray(weights, dtype=np.float64)
    if table.shape != shape or not table.size:
        raise InputError(
            f"attention weights of shape {table.shape} came for tokens that make {shape}; "
            f"hand over {meaning}, one label each and at least one"
        )
    if not np.isfinite(table).all():
        raise InputError("attention weights came with NaN or infinity; look at the scores before")
    return table


def _draw(axes: Axes, table: NDArray[np.float64], darkest: float) -> QuadMesh:
    """The cells, first query on top, the same blue for the same weight up to `darkest`."""
    lines = 0.3 if max(table.shape) <= 60 else 0.0
    mesh = axes.pcolormesh(
        table, cmap="Blues", vmin=0.0, vmax=darkest or 1.0, edgecolors="#e8e8e8", linewidth=lines
    )
    axes.invert_yaxis()
    axes.set_aspect("equal")
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    return mesh


def _label(axes: Axes, queries: Sequence[str], keys: Sequence[str], cell: float) -> None:
    """The tokens beside the cells; where cells are too small to name each, every n-th."""
    every = max(1, ceil(0.11 / cell))
    size = min(FONT_SIZE, max(5.0, cell * every * 72 * 0.75))
    named = {number: drawable(token) for number, token in enumerate(queries) if not number % every}
    axes.set_yticks([n + 0.5 for n in named], labels=list(named.values()), fontsize=size)
    named = {number: drawable(token) for number, token in enumerate(keys) if not number % every}
    axes.set_xticks(
        [n + 0.5 for n in named],
        labels=list(named.values()),
        fontsize=size,
        rotation=50,
        rotation_mode="anchor",
        ha="left",
    )


def _room(tokens: Sequence[str]) -> float:
    """The inches that the longest token takes."""
    longest = max((sum(1 + (east_asian_width(c) in "WF") for c in t) for t in tokens), default=0)
    return 0.2 + CHARACTER * longest
