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
from jumok.viewer.colours import Ramp, table
from jumok.viewer.figures.options import SCALES, Palette, Scale

COLUMN, PAGE = 3.3, 6.9  # inches: a column and the whole width of a page in ACL's papers
HIGHEST = 9.0  # inches of a page
MARGIN = 0.05  # inches
GAP = 0.06  # inches between parts
SMALLEST = 5.0  # points; smaller letters cannot be read in print
LINE = 1.22 / 72  # inches that a line takes for each point of its letters

INK, SOFT, PALE = "#17191d", "#565b64", "#c9c9d1"  # text, text of second rank, lines


@dataclass(frozen=True)
class Look:
    """What a person chooses about a figure that is not in the trace."""

    width: float | None = None  # inches; None: as wide as it needs to be
    font_size: float | None = None  # points; None: 7 in a column, 8 on a page, 9 elsewhere
    title: bool | str = True  # True: says which head it is
    palette: Palette = "ink"
    scale: Scale = "linear"

    def __post_init__(self) -> None:
        if self.width is not None and not 2.0 <= self.width <= 40.0:
            raise InputError(f"a width of {self.width} inches; take 3.3, 6.9 or 2 to 40")
        if self.font_size is not None and not SMALLEST <= self.font_size <= 24.0:
            raise InputError(f"letters of {self.font_size} points; take {SMALLEST:.0f} to 24")
        if self.palette not in PALETTES:
            raise InputError(f"no palette {self.palette!r}; take {', '.join(PALETTES)}")
        if self.scale not in SCALES:
            raise InputError(f"no scale {self.scale!r}; take {' or '.join(SCALES)}")

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

    def titled(self, words: str) -> str:
        """The title to draw: these words, the person's own, or none."""
        if isinstance(self.title, str):
            return self.title
        return words if self.title else ""


@lru_cache
def colormap(ramp: Ramp) -> ListedColormap:
    """A ramp of ours as matplotlib takes it."""
    return ListedColormap(table(ramp) / 255.0, name=f"jumok {ramp}")


PALETTES: dict[Palette, str | None] = {
    "ink": None,
    "cividis": "cividis_r",
    "viridis": "viridis_r",
    "grey": "gray_r",
}


class Picture(Figure):
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


class Sheet:
    """A picture of a given size whose parts are placed by inches from the top left corner."""

    def __init__(self, width: float, height: float, look: Look) -> None:
        self.width, self.height, self.look = width, height, look
        self.figure = Picture(figsize=(width, height), dpi=look.dpi)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Axes at a place."""
        place = (
            left / self.width,
            1 - (top + height) / self.height,
            width / self.width,
            height / self.height,
        )
        axes = self.figure.add_axes(place)
        axes.tick_params(length=0, pad=2, labelsize=self.look.font, labelcolor=INK)
        for spine in axes.spines.values():
            spine.set_color(PALE)
            spine.set_linewidth(0.5)
        return axes

    def write(
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

    def head(self, title: str) -> None:
        """The title at the top, as much of it as fits."""
        if not title:
            return
        size = title_size(self.look)
        room = self.width - 2 * MARGIN
        self.write(fitted(title, room, size), MARGIN, MARGIN, size)


def title_size(look: Look) -> float:
    """The letters of titles, in points."""
    return look.font + 1.0


def title_room(look: Look, title: str) -> float:
    """The inches that a title takes at the top."""
    return MARGIN + (title_size(look) * LINE + GAP / 2 if title else 0.0)


def bottom(look: Look) -> float:
    """The inches below everything: half of a number that stands at the lower end of a bar."""
    return max(MARGIN, 0.6 * small(look) * LINE)


def small(look: Look) -> float:
    """Letters of second rank, in points."""
    return max(SMALLEST, look.font - 1.0)


def width_of(text: str, size: float) -> float:
    """The inches that a line of text takes in letters of so many points."""
    return _width(replace_missing_glyphs(text)) * size


def fitted(text: str, room: float, size: float) -> str:
    """As much of a text as fits into so many inches, with … where something is left out.

    >>> fitted("이 영화", 2.0, 7.0), fitted("이 영화 정말 재미있어요", 0.7, 7.0)
    ('이 영화', '이 영화 정말 재…')
    """
    text = replace_missing_glyphs(text[:1000])
    if width_of(text, size) <= room:
        return text
    low, high = 0, len(text)  # the longest beginning that fits lies between
    while low < high:
        middle = (low + high + 1) // 2
        if width_of(text[:middle] + "…", size) <= room:
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
