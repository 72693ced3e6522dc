"""Colour ramps with 256 steps, interpolated in OKLab; the same as in the page.

A ramp is linear between its stops in OKLab (Ottosson 2020) and rounded to sRGB bytes; step i of
0 ... 255 is at i / 255. The stops are (lightness, chroma, hue in degrees), as in
web/src/draw/colours.ts; a test compares the two. The lightness of the ink ramp is monotonic, so
weights are readable in grey print and with colour blindness.
"""

from functools import lru_cache
from math import cos, radians, sin
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Shade: TypeAlias = Literal["light", "dark"]
Ramp: TypeAlias = Literal["ink", "diverging", "red_blue"]
Stop: TypeAlias = tuple[float, float, float]

PAPER: dict[Shade, Stop] = {"light": (0.988, 0.003, 95), "dark": (0.2, 0.008, 260)}
STOPS: dict[tuple[Ramp, Shade], tuple[Stop, ...]] = {
    # weights: paper (0) to ink (1)
    ("ink", "light"): (PAPER["light"], (0.74, 0.095, 245), (0.48, 0.12, 257), (0.22, 0.07, 265)),
    ("ink", "dark"): (PAPER["dark"], (0.44, 0.11, 257), (0.72, 0.115, 240), (0.97, 0.03, 215)),
    # signed numbers: purple (-) over paper to orange (+)
    ("diverging", "light"): (
        (0.36, 0.14, 295),
        (0.7, 0.1, 295),
        PAPER["light"],
        (0.76, 0.12, 62),
        (0.48, 0.12, 52),
    ),
    ("diverging", "dark"): (
        (0.86, 0.08, 300),
        (0.56, 0.15, 297),
        PAPER["dark"],
        (0.56, 0.12, 55),
        (0.88, 0.1, 80),
    ),
    # signed numbers of positions: red (-) to blue (+)
    ("red_blue", "light"): (
        (0.38, 0.15, 25),
        (0.72, 0.12, 30),
        PAPER["light"],
        (0.74, 0.095, 240),
        (0.38, 0.12, 255),
    ),
    ("red_blue", "dark"): (
        (0.86, 0.09, 35),
        (0.56, 0.17, 27),
        PAPER["dark"],
        (0.52, 0.12, 252),
        (0.88, 0.07, 230),
    ),
}

_TO_LMS = np.array(  # OKLab to cube roots of cone responses, and those to linear sRGB
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.291485548],
    ]
)
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


@lru_cache
def colour_table(ramp: Ramp, shade: Shade = "light") -> NDArray[np.uint8]:
    """The 256 colours of a ramp, (256, 3) bytes: red, green, blue.

    >>> colour_table("ink")[[0, 255]].tolist()
    [[252, 251, 249], [10, 24, 59]]
    """
    stops = STOPS[ramp, shade]
    points = np.array(
        [
            (light, chroma * cos(radians(hue)), chroma * sin(radians(hue)))
            for light, chroma, hue in stops
        ]
    )
    along = np.arange(256) / 255 * (len(stops) - 1)
    before = np.minimum(along.astype(int), len(stops) - 2)
    part = (along - before)[:, None]
    return _bytes_of_oklab(points[before] * (1 - part) + points[before + 1] * part)


def _bytes_of_oklab(lab: NDArray[np.float64]) -> NDArray[np.uint8]:
    """OKLab to sRGB bytes, (..., 3)."""
    linear = ((lab @ _TO_LMS.T) ** 3 @ _TO_RGB.T).clip(0.0, 1.0)
    curved = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    rounded: NDArray[np.uint8] = np.floor(255 * curved + 0.5).astype(np.uint8)
    return rounded
