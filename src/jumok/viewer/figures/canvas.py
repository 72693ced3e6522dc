"""The canvas of a figure: positions in inches from the top left corner, font sizes in points."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from jumok.errors import TraceError
from jumok.fonts import FAMILY, replace_missing_glyphs
from jumok.fonts import plot_style as font_style
from jumok.interpret.options import check_choice
from jumok.notebook_figure import JumokFigure
from jumok.viewer.colours import Ramp, colour_table
from jumok.viewer.figures.options import SCALES, Palette, Scale

COLUMN, PAGE = 3.3, 6.9  # inches: column and text width of ACL papers
MAX_HEIGHT = 9.0  # inches
MARGIN = 0.05  # inches
GAP = 0.06  # inches between parts
MIN_FONT_SIZE = 5.0  # points; smaller text is unreadable in print
LINE_HEIGHT = 1.22 / 72  # inches per point of font size

INK, SOFT, PALE = "#17191d", "#565b64", "#c9c9d1"  # text, secondary text, lines


@dataclass(frozen=True)
class FigureStyle:
    """The appearance of a figure."""

    width: float | None = None  # inches; None: as wide as it needs to be
    font_size: float | None = None  # points; None: 7 in a column, 8 on a page, 9 elsewhere
    title: bool | str = True  # True: names the head
    palette: Palette = "ink"
    scale: Scale | None = None  # None: sqrt for many columns, else linear

    def __post_init__(self) -> None:
        if self.width is not None and not 2.0 <= self.width <= 40.0:
            raise TraceError(
                "page.width_range",
                "width must be from 2 to 40 inches, got {width}; try 3.3 or 6.9",
                width=self.width,
            )
        if self.font_size is not None and not MIN_FONT_SIZE <= self.font_size <= 24.0:
            raise TraceError(
                "page.font_size_range",
                "font_size must be from {min_font_size:.0f} to 24 points, got {font_size}",
                min_font_size=MIN_FONT_SIZE,
                font_size=self.font_size,
            )
        check_choice("palette", self.palette, [*PALETTES])
        if self.scale is not None:
            check_choice("scale", self.scale, SCALES)

    @property
    def font(self) -> float:
        """The font size in points."""
        if self.font_size is not None:
            return self.font_size
        if self.width is None:
            return 9.0
        return 7.0 if self.width < 5.0 else 8.0

    @property
    def dpi(self) -> int:
        """Dots per inch of a PNG: more for print, if the width is given."""
        return 150 if self.width is None else 300

    @property
    def weights(self) -> Colormap:
        """The colormap of weights; larger is always darker."""
        name = PALETTES[self.palette]
        return colormap("ink") if name is None else matplotlib.colormaps[name]

    def title_text(self, default: str) -> str:
        """The title to draw: the default, the user's, or none."""
        if isinstance(self.title, str):
            return self.title
        return default if self.title else ""


@lru_cache
def colormap(ramp: Ramp) -> ListedColormap:
    """A colour ramp as a matplotlib colormap."""
    return ListedColormap(colour_table(ramp) / 255.0, name=f"jumok {ramp}")


PALETTES: dict[Palette, str | None] = {
    "ink": None,
    "cividis": "cividis_r",
    "viridis": "viridis_r",
    "grey": "gray_r",
}


class Canvas:
    """A figure of a given size with parts placed in inches from the top left corner."""

    def __init__(self, width: float, height: float, style: FigureStyle) -> None:
        self.width, self.height, self.style = width, height, style
        self.figure = JumokFigure(figsize=(width, height), dpi=style.dpi)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """New axes in this box."""
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
        """Draw a line of text with its top at `top`, or its middle if rotated."""
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
        """Draw the title at the top, truncated to the width."""
        if not title:
            return
        size = title_size(self.style)
        width_limit = self.width - 2 * MARGIN
        self.draw_text(truncate_text(title, width_limit, size), MARGIN, MARGIN, size)


def title_size(style: FigureStyle) -> float:
    """The font size of titles, in points."""
    return style.font + 1.0


def title_height(style: FigureStyle, title: str) -> float:
    """The height of the title, in inches."""
    return MARGIN + (title_size(style) * LINE_HEIGHT + GAP / 2 if title else 0.0)


def bottom_margin(style: FigureStyle) -> float:
    """The margin at the bottom, in inches: half the number at the lower end of a colorbar."""
    return max(MARGIN, 0.6 * small_font(style) * LINE_HEIGHT)


def small_font(style: FigureStyle) -> float:
    """The font size of secondary text, in points."""
    return max(MIN_FONT_SIZE, style.font - 1.0)


def text_width(text: str, size: float) -> float:
    """The width of a line of text, in inches."""
    return _width(replace_missing_glyphs(text)) * size


def truncate_text(text: str, width_limit: float, size: float) -> str:
    """Truncate a text to a width in inches; … marks the omission.

    >>> truncate_text("이 영화", 2.0, 7.0), truncate_text("이 영화 정말 재미있어요", 0.7, 7.0)
    ('이 영화', '이 영화 정말 재…')
    """
    text = replace_missing_glyphs(text[:1000])
    if text_width(text, size) <= width_limit:
        return text
    low, high = 0, len(text)  # binary search for the longest prefix that fits
    while low < high:
        middle = (low + high + 1) // 2
        if text_width(text[:middle] + "…", size) <= width_limit:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + "…"


@lru_cache(maxsize=8192)
def _width(text: str) -> float:
    """The width of a line of text at 1 point, in inches."""
    if not text:
        return 0.0
    with font_style():
        font = FontProperties(family=["DejaVu Sans", FAMILY], size=10)
        width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return width / 72 / 10
