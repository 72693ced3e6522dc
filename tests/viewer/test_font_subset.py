"""The font of standalone pages, and the one of the server."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from fontTools.ttLib import TTFont

import jumok.viewer
from jumok.viewer.font_subset import UNITS_PER_EM, subset

STATIC = Path(jumok.viewer.__file__).parent / "static"
WOFF2 = STATIC / "JumokHangul.woff2"


def test_the_font_has_the_characters_and_the_space() -> None:
    font = TTFont(io.BytesIO(subset("겨울은 춥다. ㅋㅋ\x00\u202e\ud800漢A")))
    assert {chr(code) for code in font.getBestCmap()} == set("겨울은춥다ㅋ ")
    assert set(TTFont(io.BytesIO(subset(""))).getBestCmap()) == {32}  # the space alone is one, too


def test_a_letter_of_the_subset_is_drawn_as_in_the_whole_font() -> None:
    from jumok.fonts import FONT_FILE

    with TTFont(io.BytesIO(subset("뷁"))) as small, TTFont(FONT_FILE) as whole:
        outlines = [font["glyf"][font.getBestCmap()[ord("뷁")]] for font in (small, whole)]
        scale = whole["head"].unitsPerEm / UNITS_PER_EM
    drawn, wanted = (np.array(outline.coordinates) for outline in outlines)
    assert np.abs(drawn * scale - wanted).max() <= scale / 2


def test_the_licence_is_in_the_font() -> None:
    names = TTFont(io.BytesIO(subset("가")))["name"]
    assert names.getDebugName(1) == "Jumok Hangul"
    assert "SIL Open Font License" in names.getDebugName(13)


def test_the_order_of_a_text_changes_nothing() -> None:
    assert subset("주목 하세요") == subset("요세하 목주주")


def test_the_font_of_the_page_is_small_and_licensed() -> None:
    data = WOFF2.read_bytes()
    assert data[:4] == b"wOF2"
    assert struct.unpack(">I", data[8:12])[0] == len(data) < 260_000
    licence = (STATIC / "JumokHangul-OFL.txt").read_text(encoding="utf-8")
    assert "NAVER" in licence
    assert "SIL OPEN FONT LICENSE Version 1.1" in licence


def test_the_font_of_the_page_has_every_syllable() -> None:
    pytest.importorskip("brotli", reason="WOFF2 is read with the package brotli")
    font = TTFont(WOFF2)
    codes = set(font.getBestCmap())
    assert codes.issuperset(range(0xAC00, 0xD7A4))
    assert codes.issuperset(map(ord, "ㄱㅋㅠ Aa0~·…–“”、。「」！"))
    assert not [record for record in font["name"].names if "nanum" in str(record).lower()]
    assert "SIL Open Font License" in font["name"].getDebugName(13)
