"""Pictures with Korean in them: the font that ships with the package and how matplotlib finds it.

DejaVu Sans, which comes with matplotlib, is asked first and draws Latin, the minus sign and ▁;
Jumok Hangul, which comes with jumok, draws what is missing there. No font of the machine is used,
so a picture looks the same everywhere.
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAMILY = "Jumok Hangul"
FONT_FILE = Path(__file__).parent / "fonts" / "JumokHangul-Regular.ttf"
MISSING_GLYPH = "□"  # stands for a character that neither font can draw
FORMATS = ("pdf", "svg", "png")  # what papers and pages take


@contextmanager
def style() -> Iterator[None]:
    """Within it matplotlib draws Hangul and takes texts literally; after it, all is as before.

    Texts keep the font they were born with, so a figure made within `style()` may be saved later.

    >>> import matplotlib
    >>> with style():
    ...     matplotlib.rcParams["font.family"]
    ['DejaVu Sans', 'Jumok Hangul']
    >>> matplotlib.rcParams["font.family"]
    ['sans-serif']
    """
    import matplotlib

    _register()
    with matplotlib.rc_context(
        {
            "font.family": ["DejaVu Sans", FAMILY],
            "axes.unicode_minus": True,
            "text.parse_math": False,  # "$" in a token is a dollar
            "text.usetex": False,
            "figure.dpi": 150,
            "savefig.dpi": "figure",
            "pdf.fonttype": 42,  # TrueType: text in the file stays text
            "ps.fonttype": 42,
            "svg.fonttype": "path",  # outlines: the reader's machine needs no font
            "svg.hashsalt": "jumok",  # the same picture is the same file
        }
    ):
        yield


def replace_missing_glyphs(text: str) -> str:
    r"""The text as it can be drawn on one line: NFC, with □ for what no font here has.

    So are the marks that turn a line around or vanish in it.

    >>> drawable("ㅋㅋ ▁영화 漢\n\u202e")
    'ㅋㅋ ▁영화 □□□'
    """
    known = _characters()
    return "".join(c if c in known else MISSING_GLYPH for c in unicodedata.normalize("NFC", text))


def save_figure(figure: "Figure", path: Path) -> None:
    """Write the figure to `path`, in the format its ending names; whole or not at all.

    Raises InputError for an ending that matplotlib does not know, StorageError when it cannot be
    written.
    """
    known = figure.canvas.get_supported_filetypes()
    ending = path.suffix[1:].lower()
    if ending not in known:
        raise InputError(
            f"a picture cannot be saved as {path.name!r}; end it with .png, .svg or .pdf"
        )
    write_atomically(path, figure_bytes(figure, ending))


def figure_bytes(figure: "Figure", ending: str) -> bytes:
    r"""The bytes of a figure as a file of this kind; the same figure always gives the same bytes.

    An SVG holds nothing but shapes: no script, no date, no address that a reader might fetch.

    >>> from matplotlib.figure import Figure
    >>> file_of(Figure(), "svg")[:60]
    b'<?xml version="1.0" encoding="utf-8" standalone="no"?>\n<svg '
    """
    made = BytesIO()
    with style():
        figure.savefig(made, format=ending, metadata=_UNSIGNED.get(ending))
    if ending != "svg":
        return made.getvalue()
    return re.sub(rb"<!DOCTYPE[^>]*>\n", b"", made.getvalue(), count=1)


_UNSIGNED: dict[str, dict[str, None]] = {  # what would change from day to day, or lead elsewhere
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


@lru_cache(maxsize=1)
def _register() -> None:
    """Tell matplotlib of the font file, once a process."""
    from matplotlib.font_manager import fontManager

    fontManager.addfont(FONT_FILE)


@lru_cache(maxsize=1)
def _characters() -> frozenset[str]:
    """Every character that one of the two fonts can draw."""
    from matplotlib import get_data_path
    from matplotlib.ft2font import FT2Font

    latin = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    files = (latin, FONT_FILE)
    codes = {code for file in files for code in FT2Font(str(file)).get_charmap()}
    unseen = ("Cc", "Cf", "Zl", "Zp")  # controls, joiners and bidi marks, ends of lines
    return frozenset(c for c in map(chr, codes) if unicodedata.category(c) not in unseen)
