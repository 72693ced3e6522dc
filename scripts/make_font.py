"""How `Jumok Hangul`, the font in the package, is made: a renamed subset of Pretendard.

    npm pack pretendard@1.3.9 && tar xzf pretendard-1.3.9.tgz
    python scripts/make_font.py package/dist/public/static/alternative/Pretendard-Regular.ttf

Pretendard is free under the SIL Open Font License, which reserves its name: a changed copy must be
called something else. What stays is what matplotlib's own DejaVu Sans lacks and Korean text uses.
The same source always gives the same bytes.
"""

import argparse
import hashlib
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont

SOURCE_SHA256 = "6d0af5258997aec7354a6e340fc2325ba321c410ca48b3af858c8c3d6e92a324"
FAMILY = "Jumok Hangul"
FOLDER = Path(__file__).resolve().parents[1] / "src" / "jumok" / "fonts"
KEPT = (
    (0x0020, 0x0020),  # the space, which every font needs
    (0x2460, 0x24FF),  # ① ⓐ
    (0x3000, 0x303F),  # 、。「」 〜
    (0x3040, 0x30FF),  # kana
    (0x3131, 0x318E),  # ㄱ ㅋ ㅠ: the compatibility jamo
    (0x3200, 0x33FF),  # ㈜ ㎏ ㎡
    (0xAC00, 0xD7A3),  # all 11,172 syllables
    (0xFF00, 0xFFEF),  # ！ ～ ￦
)
COPYRIGHT, LICENCE, LICENCE_ADDRESS = 0, 13, 14  # the only entries of the name table that stay


def shrink(font: TTFont) -> None:
    """Leave the KEPT characters: outlines only, no hints, no kerning, no glyph names."""
    options = subset.Options(
        hinting=False,
        layout_features=[],
        glyph_names=False,
        notdef_outline=True,
        name_IDs=[COPYRIGHT, LICENCE, LICENCE_ADDRESS],
        drop_tables=["GPOS", "GSUB", "GDEF", "DSIG", "vhea", "vmtx", "VORG", "BASE"],
    )
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in KEPT for code in range(first, last + 1)])
    subsetter.subset(font)


def rename(font: TTFont) -> None:
    """Give the font its own name everywhere; the reserved one must not remain."""
    names = {
        1: FAMILY,
        2: "Regular",
        3: "Jumok Hangul Regular 1.0",
        4: f"{FAMILY} Regular",
        5: "Version 1.0",
        6: "JumokHangul-Regular",
    }
    for number, text in names.items():
        font["name"].setName(text, number, 3, 1, 0x409)
    left = [str(record) for record in font["name"].names if "pretendard" in str(record).lower()]
    if left:
        raise SystemExit(f"the reserved name is still in the name table: {left}")


def main() -> None:
    """Read the source font named on the command line, check it, write the subset."""
    parser = argparse.ArgumentParser(description="make the Hangul font of the package")
    parser.add_argument("source", type=Path, help="Pretendard-Regular.ttf of pretendard 1.3.9")
    source: Path = parser.parse_args().source
    found = hashlib.sha256(source.read_bytes()).hexdigest()
    if found != SOURCE_SHA256:
        raise SystemExit(f"{source} has sha256 {found}, wanted {SOURCE_SHA256}: take 1.3.9")
    font = TTFont(source, recalcTimestamp=False)
    shrink(font)
    rename(font)
    target = FOLDER / "JumokHangul-Regular.ttf"
    font.save(target)
    print(f"{target.name}: {len(font.getBestCmap()):,} characters, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
