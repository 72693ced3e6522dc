"""The screenshots of the documentation are what the page shows.

After an intended change: python scripts/screenshots.py, and look at the images.
"""

import io
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from tests.browser.documentation_pictures import IMAGES, PICTURES, RECORD, Picture, layout, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LEVELS = 24  # of 255: smaller differences are those of antialiasing
FRACTION = 0.01  # of the pixels: digits depend on the processor
PIXELS = 3  # of a box of the layout


def test_eleven_pictures_are_recorded() -> None:
    assert len(PICTURES) == 11
    layouts = json.loads(RECORD.read_text())["layouts"]
    assert set(layouts) == {picture.name for picture in PICTURES}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_the_page_looks_as_in_the_documentation(browser: "Browser", picture: Picture) -> None:
    record = json.loads(RECORD.read_text())
    with shown(browser, picture) as opened:
        found, expected = layout(opened.page), record["layouts"][picture.name]
        assert found.keys() == expected.keys()
        for name, box in expected.items():
            assert np.abs(np.subtract(found[name], box)).max() <= PIXELS, (name, found[name], box)
        if int(browser.version.partition(".")[0]) != record["chromium"]:
            return  # another version draws other pixels
        pixels = Image.open(io.BytesIO(opened.page.screenshot())).convert("RGB")
    kept = Image.open(IMAGES / f"{picture.name}.png").convert("RGB")
    assert pixels.size == kept.size == picture.size
    changes = np.abs(np.asarray(pixels, np.int16) - np.asarray(kept, np.int16)).max(-1)
    assert (changes > LEVELS).mean() <= FRACTION


def test_a_small_change_of_the_page_is_found(browser: "Browser") -> None:
    """The bars are strict enough for a button of another colour."""
    (picture,) = (each for each in PICTURES if each.name == "view-narrow")
    kept = np.asarray(Image.open(IMAGES / "view-narrow.png").convert("RGB"), np.int16)
    with shown(browser, picture) as opened:
        opened.run("document.querySelector('.primary').style.background = 'crimson'")
        opened.run("document.querySelector('.header').style.background = 'crimson'")
        pixels = Image.open(io.BytesIO(opened.page.screenshot())).convert("RGB")
    changes = np.abs(np.asarray(pixels, np.int16) - kept).max(-1)
    assert (changes > LEVELS).mean() > FRACTION
