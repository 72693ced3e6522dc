"""As much of the package's Hangul font as a text needs, for pages that are kept as one file."""

from functools import lru_cache
from io import BytesIO

from jumok.fonts import FONT_FILE

UNITS_PER_EM = 256  # steps of an outline to the height of a letter: at 40 pixels a sixth of one


def subset(text: str) -> bytes:
    """A TrueType font with the characters of `text` that Jumok Hangul has, the space among them.

    The same characters always give the same bytes. Latin letters are left to the reader's own
    fonts. Outlines are rounded to 1/256 of the height of a letter, so that 300 syllables take
    18 kB when they are zipped.

    >>> font = subset("안녕하세요, 주목!")
    >>> len(font) < 5_000, font == subset("주목 하세요 안녕")
    (True, True)
    """
    return _subset(frozenset(map(ord, text)) & _characters() | {ord(" ")})


@lru_cache(maxsize=8)
def _subset(codes: frozenset[int]) -> bytes:
    """The font that has these characters and no others."""
    from fontTools import subset as tools
    from fontTools.ttLib import TTFont
    from fontTools.ttLib.scaleUpem import scale_upem

    options = tools.Options(
        glyph_names=False,
        hinting=False,
        notdef_outline=True,
        name_IDs=["*"],  # whose it is, and the licence
        recalc_timestamp=False,
    )
    made = BytesIO()
    with TTFont(FONT_FILE, recalcTimestamp=False, lazy=True) as font:
        tool = tools.Subsetter(options)
        tool.populate(unicodes=sorted(codes))
        tool.subset(font)
        scale_upem(font, UNITS_PER_EM)
        font.save(made)
    return made.getvalue()


@lru_cache(maxsize=1)
def _characters() -> frozenset[int]:
    """The characters the font has."""
    from fontTools.ttLib import TTFont

    with TTFont(FONT_FILE, lazy=True) as font:
        return frozenset(font.getBestCmap())
