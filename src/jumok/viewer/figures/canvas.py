"""The sheet a figure is drawn on: inches from its top left corner, letters in points."""

import os
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from jumok.errors import InputError
from jumok.fonts import FAMILY, figure_bytes, replace_missing_glyphs, style
from jumok.viewer.colours import Ramp, colour_table
from jumok.viewer.figures.options import SCALES, Palette, Scale

COLUMN, PAGE = 3.3, 6.9  # inches: a column and the whole width of a page in ACL's papers
MAX_HEIGHT = 9.0  # inches of a page
MARGIN = 0.05  # inches
GAP = 0.06  # inches between parts
MIN_FONT_SIZE = 5.0  # points; smaller letters cannot be read in print
LINE_HEIGHT = 1.22 / 72  # inches that a line takes for each point of its letters

INK, SOFT, PALE = "#17191d", "#565b64", "#c9c9d1"  # text, text of second rank, lines


@dataclass(frozen=True)
class FigureStyle:
    """What a person chooses about a figure that is not in the trace."""

    width: float | None = None  # inches; None: as wide as it needs to be
    font_size: float | None = None  # points; None: 7 in a column, 8 on a page, 9 elsewhere
    title: bool | str = True  # True: says which head it is
    palette: Palette = "ink"
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        if self.width is not None and not 2.0 <= self.width <= 40.0:
            raise InputError(f"width must be from 2 to 40 inches, got {self.width}; try 3.3 or 6.9")
        if self.font_size is not None and not MIN_FONT_SIZE <= self.font_size <= 24.0:
            raise InputError(
                f"font_size must be from {MIN_FONT_SIZE:.0f} to 24 points, got {self.font_size}"
            )
        if self.palette not in PALETTES:
            raise InputError(f"palette must be one of {', '.join(PALETTES)}, got {self.palette!r}")
        if self.scale not in SCALES:
            raise InputError(f"scale must be {' or '.join(SCALES)}, got {self.scale!r}")

    @property
    def font(self) -> float:
        """The size of the letters in points."""
        if self.font_size is not None:
            return self.font_size
        if self.width is None:
            return 9.0
        return 7.0 if self.width < 5.0 else 8.0

    @property
    def dpi(self) -> int:
        """Dots an inch of a PNG: more for print, where the width is given."""
        return 150 if self.width is None else 300

    @property
    def weights(self) -> Colormap:
        """Colours from 0 to the largest weight; more is always darker."""
        name = PALETTES[self.palette]
        return colormap("ink") if name is None else matplotlib.colormaps[name]

    def title_text(self, words: str) -> str:
        """The title to draw: these words, the person's own, or none."""
        if isinstance(self.title, str):
            return self.title
        return words if self.title else ""


@lru_cache
def colormap(ramp: Ramp) -> ListedColormap:
    """A ramp of ours as matplotlib takes it."""
    return ListedColormap(colour_table(ramp) / 255.0, name=f"jumok {ramp}")


PALETTES: dict[Palette, str | None] = {
    "ink": None,
    "cividis": "cividis_r",
    "viridis": "viridis_r",
    "grey": "gray_r",
}


class JumokFigure(Figure):
    """A figure in our style that stays so when it is saved: Type 42 fonts, Hangul, no formulas."""

    def savefig(
        self,
        fname: str | os.PathLike[str] | IO[bytes],
        *,
        transparent: bool | None = None,
        **kwargs: Any,  # matplotlib's own
    ) -> None:
        """Save as matplotlib does."""
        with style():
            super().savefig(fname, transparent=transparent, **kwargs)

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        return figure_bytes(self, "png")


class Canvas:
    """A picture of a given size whose parts are placed by inches from the top left corner."""

    def __init__(self, width: float, height: float, style: FigureStyle) -> None:
        self.width, self.height, self.style = width, height, style
        self.figure = JumokFigure(figsize=(width, height), dpi=style.dpi)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at a place."""
        place = (
            left / self.width,
            1 - (top + height) / self.height,
            width / self.width,
            height / self.height,
        )
        axes = self.figure.add_axes(place)
        axes.tick_params(length=0, pad=2, labelsize=self.style.font, labelcolor=INK)
        for spine in axes.spines.values():
            spine.set_color(PALE)
            spine.set_linewidth(0.5)
        return axes

    def draw_text(
        self,
        text: str,
        left: float,
        top: float,
        size: float,
        *,
        align: Literal["left", "center", "right"] = "left",
        colour: str = INK,
        angle: float = 0.0,
    ) -> None:
        """A line of text whose upper edge is at `top`; turned by an angle, its middle is there."""
        self.figure.text(
            left / self.width,
            1 - top / self.height,
            replace_missing_glyphs(text),
            fontsize=size,
            color=colour,
            ha=align,
            va="top" if angle == 0.0 else "center",
            rotation=angle,
            rotation_mode="default",
        )

    def draw_title(self, title: str) -> None:
        """The title at the top, as much of it as fits."""
        if not title:
            return
        size = title_size(self.style)
        room = self.width - 2 * MARGIN
        self.draw_text(truncate_text(title, room, size), MARGIN, MARGIN, size)


def title_size(style: FigureStyle) -> float:
    """The letters of titles, in points."""
    return style.font + 1.0


def title_height(style: FigureStyle, title: str) -> float:
    """The inches that a title takes at the top."""
    return MARGIN + (title_size(style) * LINE_HEIGHT + GAP / 2 if title else 0.0)


def bottom_margin(style: FigureStyle) -> float:
    """The inches below everything: half of a number that stands at the lower end of a bar."""
    return max(MARGIN, 0.6 * small_font(style) * LINE_HEIGHT)


def small_font(style: FigureStyle) -> float:
    """Letters of second rank, in points."""
    return max(MIN_FONT_SIZE, style.font - 1.0)


def text_width(text: str, size: float) -> float:
    """The inches that a line of text takes in letters of so many points."""
    return _width(replace_missing_glyphs(text)) * size


def truncate_text(text: str, room: float, size: float) -> str:
    """As much of a text as fits into so many inches, with … where something is left out.

    >>> truncate_text("이 영화", 2.0, 7.0), truncate_text("이 영화 정말 재미있어요", 0.7, 7.0)
    ('이 영화', '이 영화 정말 재…')
    """
    text = replace_missing_glyphs(text[:1000])
    if text_width(text, size) <= room:
        return text
    low, high = 0, len(text)  # the longest beginning that fits lies between
    while low < high:
        middle = (low + high + 1) // 2
        if text_width(text[:middle] + "…", size) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


@lru_cache(maxsize=8192)
def _width(text: str) -> float:
    """The inches that a line takes in letters of one point."""
    if not text:
        return 0.0
    with style():
        letters = FontProperties(family=["DejaVu Sans", FAMILY], size=10)
        width, _, _ = text_to_path.get_text_width_height_descent(text, letters, ismath=False)
    return width / 72 / 10
