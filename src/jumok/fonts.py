"""Fonts of matplotlib figures with Korean text.

DejaVu Sans, which ships with matplotlib, draws Latin, the minus sign and ▁; Jumok Hangul, which
ships with jumok, draws the characters missing there, so a figure looks the same on every machine.
Only Hanja are drawn with a font of the system, where one of `HANJA_FAMILIES` is installed.
"""

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from jumok.atomic_io import write_atomically
from jumok.errors import InputError
from jumok.extras import naming_extras
from jumok.unicode_forms import normalize

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontEntry

FAMILY = "Jumok Hangul"
FONT_FILE = Path(__file__).parent / "fonts" / "JumokHangul-Regular.ttf"
HANJA_FAMILIES = (  # the first one that is installed
    "Noto Sans CJK KR", "Noto Sans KR", "Source Han Sans KR", "Noto Sans CJK JP",
    "NanumGothic", "UnDotum", "Baekmuk Dotum", "Malgun Gothic", "Apple SD Gothic Neo",
    "Batang", "Gulim", "Noto Sans CJK SC", "WenQuanYi Micro Hei", "Droid Sans Fallback",
)  # fmt: skip
MISSING_GLYPH = "□"  # replaces a character that no font here has
FORMATS = ("pdf", "svg", "png")  # of saved figures


@contextmanager
def plot_style() -> Iterator[None]:
    """Context in which matplotlib draws Hangul and does not parse math in texts.

    Texts keep the font they were created with, so a figure created within `plot_style()` may be
    saved later.

    >>> import matplotlib
    >>> with plot_style():
    ...     matplotlib.rcParams["font.family"][:2]
    ['DejaVu Sans', 'Jumok Hangul']
    >>> matplotlib.rcParams["font.family"]
    ['sans-serif']
    """
    with naming_extras("jumok.plot_style"):
        import matplotlib

    _register()
    with matplotlib.rc_context(
        {
            "font.family": ["DejaVu Sans", FAMILY, *([hanja.name] if (hanja := _hanja()) else [])],
            "axes.unicode_minus": True,
            "text.parse_math": False,  # "$" in a token is a dollar sign
            "text.usetex": False,
            "figure.dpi": 150,
            "savefig.dpi": "figure",
            "pdf.fonttype": 42,  # TrueType: text in the file stays text
            "ps.fonttype": 42,
            "svg.fonttype": "path",  # outlines: no font is needed to view the file
            "svg.hashsalt": "jumok",  # equal figures give equal files
        }
    ):
        yield


def replace_missing_glyphs(text: str) -> str:
    r"""The text in NFC with □ for characters that no font here has.

    Control characters, line ends and bidirectional marks are replaced too, and Hanja where the
    system has no font of `HANJA_FAMILIES`.

    >>> replace_missing_glyphs("ㅋㅋ ▁영화\n\u202e")
    'ㅋㅋ ▁영화□□'
    """
    known, hanja = _characters(), frozenset() if text.isascii() else _hanja_characters()
    composed = normalize("NFC", text)
    return "".join(c if c in known or c in hanja else MISSING_GLYPH for c in composed)


def save_figure(figure: "Figure", path: Path) -> None:
    """Write the figure to `path` atomically, in the format of its suffix.

    Raises InputError for a suffix that matplotlib does not support, StorageError if the file cannot
    be written.
    """
    known = figure.canvas.get_supported_filetypes()
    ending = path.suffix[1:].lower()
    if ending not in known:
        raise InputError(
            "font.unknown_figure_suffix",
            "a figure file must end with .png, .svg or .pdf, got {path!r}",
            path=path.name,
        )
    write_atomically(path, figure_bytes(figure, ending))


def figure_bytes(figure: "Figure", ending: str) -> bytes:
    r"""The bytes of a figure as a file of this kind; equal figures give equal bytes.

    An SVG contains only shapes: no script, no date, no URL that a viewer might load.

    >>> from matplotlib.figure import Figure
    >>> figure_bytes(Figure(), "svg")[:60]
    b'<?xml version="1.0" encoding="utf-8" standalone="no"?>\n<svg '
    """
    file = BytesIO()
    with plot_style():
        figure.savefig(file, format=ending, metadata=_NO_METADATA.get(ending))
    if ending != "svg":
        return file.getvalue()
    return re.sub(rb"<!DOCTYPE[^>]*>\n", b"", file.getvalue(), count=1)


_NO_METADATA: dict[str, dict[str, None]] = {  # would change between runs, or contain a URL
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


@lru_cache(maxsize=1)
def _register() -> None:
    """Register the font file with matplotlib, once per process."""
    from matplotlib.font_manager import fontManager

    fontManager.addfont(FONT_FILE)


@lru_cache(maxsize=1)
def _hanja() -> "FontEntry | None":
    """The font of the system that draws Hanja."""
    from matplotlib.font_manager import fontManager

    fonts = {font.name: font for font in reversed(fontManager.ttflist)}
    return next((fonts[name] for name in HANJA_FAMILIES if name in fonts), None)


@lru_cache(maxsize=1)
def _hanja_characters() -> frozenset[str]:
    """The Hanja of that font."""
    from matplotlib.ft2font import FT2Font

    font = _hanja()
    codes = {} if font is None else FT2Font(font.fname).get_charmap()
    return frozenset(c for c in map(chr, codes) if unicodedata.name(c, "").startswith("CJK "))


@lru_cache(maxsize=1)
def _characters() -> frozenset[str]:
    """Every character that one of the two fonts has."""
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    latin = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    files = (latin, FONT_FILE)
    codes = {code for file in files for code in FT2Font(str(file)).get_charmap()}
    invisible = ("Cc", "Cf", "Zl", "Zp")  # controls, joiners and bidi marks, line ends
    return frozenset(c for c in map(chr, codes) if unicodedata.category(c) not in invisible)
