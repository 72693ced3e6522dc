"""How the two Hangul fonts of the package are made: renamed subsets of free ones.

`Jumok Hangul` draws what matplotlib's own DejaVu Sans lacks, as a TrueType file:

    npm pack pretendard@1.3.9 && tar xzf pretendard-1.3.9.tgz
    python scripts/make_font.py package/dist/public/static/alternative/Pretendard-Regular.ttf

`Jumok Hangul Web` travels with the page, so it is a face whose syllables share their parts and
stay small, as WOFF2 (needs the package brotli):

    apt-get download fonts-nanum=20200506-1 && dpkg -x fonts-nanum_*.deb nanum
    python scripts/make_font.py nanum/usr/share/fonts/truetype/nanum/NanumGothic.ttf

Both are free under the SIL Open Font License, which reserves their names: a changed copy must be
called something else. The source is recognised by its checksum; it always gives the same bytes.
"""

import argparse
import hashlib
from dataclasses import dataclass
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "jumok"
HANGUL = (
    (0x0020, 0x0020),  # the space, which every font needs
    (0x3131, 0x318E),  # ㄱ ㅋ ㅠ: the compatibility jamo
    (0xAC00, 0xD7A3),  # all 11,172 syllables
)
COPYRIGHT, LICENCE, LICENCE_ADDRESS = 0, 13, 14  # the only entries of the name table that stay
OPEN_FONT_LICENCE = "This Font Software is licensed under the SIL Open Font License, Version 1.1."


@dataclass(frozen=True)
class Cut:
    """A font to make: of what, under which name, and what is kept of it."""

    source: str  # what it is cut from, for people
    reserved: str  # the name that must not remain
    family: str
    target: Path
    kept: tuple[tuple[int, int], ...]
    flavor: str | None = None  # of the file: None is TrueType


CUTS = {
    "6d0af5258997aec7354a6e340fc2325ba321c410ca48b3af858c8c3d6e92a324": Cut(
        "Pretendard-Regular.ttf of pretendard 1.3.9",
        "pretendard",
        "Jumok Hangul",
        PACKAGE / "fonts" / "JumokHangul-Regular.ttf",
        (
            *HANGUL,
            (0x2460, 0x24FF),  # ① ⓐ
            (0x3000, 0x303F),  # 、。「」 〜
            (0x3040, 0x30FF),  # kana
            (0x3200, 0x33FF),  # ㈜ ㎏ ㎡
            (0xFF00, 0xFFEF),  # ！ ～ ￦
        ),
    ),
    "48a28e97b34fc8e5b157657633670cd1b7de126cfc414da65ce9c3d5bc8be733": Cut(
        "NanumGothic.ttf of fonts-nanum 20200506",
        "nanum",
        "Jumok Hangul Web",
        PACKAGE / "viewer" / "static" / "JumokHangul.woff2",
        (
            *HANGUL,
            (0x0021, 0x007E),  # Latin letters and digits, so that lines are of one face
            (0x00A0, 0x00FF),
            (0x2010, 0x2027),  # – — ‘ ’ “ ” … ·
            (0x3001, 0x3011),  # 、。「」
            (0xFF01, 0xFF5E),  # ！ ～
        ),
        flavor="woff2",
    ),
}


def shrink(font: TTFont, kept: tuple[tuple[int, int], ...]) -> None:
    """Leave the kept characters: outlines only, no hints, no kerning, no glyph names."""
    options = subset.Options(
        hinting=False,
        layout_features=[],
        glyph_names=False,
        notdef_outline=True,
        name_IDs=[COPYRIGHT, LICENCE, LICENCE_ADDRESS],
        drop_tables=[
            *("GPOS", "GSUB", "GDEF", "DSIG", "vhea", "vmtx", "VORG", "BASE"),
            *(
                "kern",
                "FFTM",
                "TSI0",
                "TSI1",
                "TSI2",
                "TSI3",
                "TSI5",
            ),  # of the tools it was drawn with
        ],
    )
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in kept for code in range(first, last + 1)])
    subsetter.subset(font)


def rename(font: TTFont, cut: Cut) -> None:
    """Give the font its own name everywhere; the reserved one must not remain."""
    names = {
        1: cut.family,
        2: "Regular",
        3: f"{cut.family} Regular 1.0",
        4: f"{cut.family} Regular",
        5: "Version 1.0",
        6: f"{cut.family.replace(' ', '')}-Regular",
    }
    for number, text in names.items():
        font["name"].setName(text, number, 3, 1, 0x409)
    if "SIL Open Font License" not in str(font["name"].getDebugName(LICENCE)):
        font["name"].setName(OPEN_FONT_LICENCE, LICENCE, 3, 1, 0x409)
        font["name"].removeNames(LICENCE_ADDRESS)
    left = [str(record) for record in font["name"].names if cut.reserved in str(record).lower()]
    if left:
        raise SystemExit(f"the reserved name is still in the name table: {left}")


def main() -> None:
    """Read the source font named on the command line, check it, write the subset."""
    parser = argparse.ArgumentParser(description="make a Hangul font of the package")
    parser.add_argument("source", type=Path, help=" or ".join(c.source for c in CUTS.values()))
    source: Path = parser.parse_args().source
    found = hashlib.sha256(source.read_bytes()).hexdigest()
    if found not in CUTS:
        wanted = " or ".join(cut.source for cut in CUTS.values())
        raise SystemExit(f"{source} has sha256 {found}: take {wanted}")
    cut = CUTS[found]
    font = TTFont(source, recalcTimestamp=False)
    shrink(font, cut.kept)
    rename(font, cut)
    font.flavor = cut.flavor
    cut.target.parent.mkdir(exist_ok=True)
    font.save(cut.target)
    size = cut.target.stat().st_size
    print(f"{cut.target.name}: {len(font.getBestCmap()):,} characters, {size:,} bytes")


if __name__ == "__main__":
    main()
