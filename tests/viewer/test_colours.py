"""Colour ramps: equal to those of the page, and monotonic in lightness."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from jumok.viewer.colours import STOPS, Shade, colour_table

PAGE = Path(__file__).parents[2] / "web" / "src" / "draw" / "colours.golden.json"


def test_the_page_has_the_same_tables() -> None:
    """Its own test compares its tables with the same file."""
    ours = {f"{ramp} {shade}": colour_table(ramp, shade).tobytes().hex() for ramp, shade in STOPS}
    assert json.loads(PAGE.read_text(encoding="utf-8")) == ours


@pytest.mark.parametrize("shade", ["light", "dark"])
def test_the_ink_ramp_is_monotonic(shade: Shade) -> None:
    colours = colour_table("ink", shade)
    steps = np.diff(lightness(colours))
    assert (steps < 0).all() if shade == "light" else (steps > 0).all()
    assert len(np.unique(colours, axis=0)) == 256
    grey = colours @ np.array([0.2126, 0.7152, 0.0722])  # as a printer sees it
    assert abs(grey[-1] - grey[0]) > 190


def lightness(colours: NDArray[np.uint8]) -> NDArray[np.float64]:
    """OKLab's L of sRGB bytes, by Ottosson's matrices from sRGB (not the inverse of ours)."""
    s = colours / 255
    linear = np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4)
    to_lms = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    lms = np.cbrt(linear @ np.array(to_lms).T)
    return np.asarray(lms @ np.array([0.2104542553, 0.7936177850, -0.0040720468]))


def test_signed_ramps_are_palest_in_the_middle() -> None:
    for ramp in ("diverging", "red_blue"):
        light = lightness(colour_table(ramp))
        assert 126 <= int(light.argmax()) <= 129
        assert (np.diff(light[:127]) > 0).all()
        assert (np.diff(light[129:]) < 0).all()
