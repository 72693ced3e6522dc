"""Screenshots of every view: all kinds of models, colour schemes, languages and window sizes.

The images are saved to the folder JUMOK_SCREENSHOTS if it is set. In any case each view must open
without errors and be accessible.
"""

import os
from pathlib import Path

import pytest

from tests.browser.chromium import Scheme, Window
from tests.browser.conftest import Serve, Windows
from tests.browser.test_page import VIEWS
from tests.browser.test_views import traced
from tests.viewer.random_traces import HOSTILE, random_trace

KINDS = {
    "classifier": ("classifier", "sinusoidal"),
    "language model": ("language model", "rotary"),
    "sequences": ("sequences", "relative"),
    "pairs": ("pairs", "learned"),
}
FOLDER = os.environ.get("JUMOK_SCREENSHOTS")


def take_screenshot(
    window: Window, view: str, state: str, name: str, accessible: bool = True
) -> None:
    """Open a view, check it, and save a screenshot where one is wanted."""
    window.show(f"v={view}&{state}")
    window.page.wait_for_selector(f"[data-role=stage][data-view={view}]")
    window.page.wait_for_timeout(200)
    if FOLDER:
        window.page.screenshot(path=Path(FOLDER) / f"{name}.png")
    assert window.run("document.querySelectorAll('*').length") <= 3_000
    assert window.page.locator("[data-role=stage] [role=alert]").count() == 0
    if accessible:
        assert window.violations() == [], name


@pytest.mark.parametrize(
    ("kind", "scheme", "language"),
    [  # every two of the values together
        ("classifier", "light", "ko"),
        ("classifier", "dark", "en"),
        ("language model", "light", "en"),
        ("language model", "dark", "ko"),
        ("sequences", "light", "ko"),
        ("sequences", "dark", "en"),
        ("pairs", "light", "en"),
        ("pairs", "dark", "ko"),
    ],
)
def test_every_view_of_every_kind(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str, scheme: Scheme, language: str
) -> None:
    name, positions = KINDS[kind]
    options = {"decode": {"beam": 3}} if name in ("sequences", "language model") else {}
    if name == "language model":
        options = {"decode": {"max_length": 3}}
    address = serve(traced(tmp_path, name, positions, **options))
    with windows(scheme=scheme) as window:
        window.open(address)
        for view in VIEWS:
            picture = f"{kind.replace(' ', '-')}-{view}-{scheme}-{language}"
            take_screenshot(window, view, f"lang={language}&q=2&k=1&L=1&H=1", picture)


@pytest.mark.parametrize(
    ("width", "height"), [(390, 844), (640, 400), (900, 700), (1920, 1080)]
)  # a phone; a small screen, or a window at 200 %; where drawers begin; a large screen
def test_every_size(
    windows: Windows, serve: Serve, tmp_path: Path, width: int, height: int
) -> None:
    address = serve(traced(tmp_path, "sequences"))
    with windows(width=width, height=height) as window:
        window.open(address)
        for view in VIEWS:
            take_screenshot(window, view, "q=2&k=1", f"size-{width}-{view}")
            assert window.run("document.documentElement.scrollWidth <= innerWidth"), view


def test_forced_colours(windows: Windows, serve: Serve, tmp_path: Path) -> None:
    address = serve(traced(tmp_path, "classifier"))
    with windows() as window:
        window.page.emulate_media(forced_colors="active")
        window.open(address)
        for view in VIEWS:
            take_screenshot(window, view, "q=2&k=1", f"colours-{view}", accessible=False)


@pytest.mark.parametrize("length", [64, 512])
def test_long_texts(windows: Windows, serve: Serve, tmp_path: Path, length: int) -> None:
    path = random_trace(length, layers=12, heads=12, d_head=8).save(tmp_path / "long.safetensors")
    with windows() as window:
        window.open(serve(path))
        for view in ("lines", "matrix", "neuron", "positions", "masks"):
            take_screenshot(window, view, "q=30&k=20&L=5&H=7", f"long-{length}-{view}")


def test_four_heads_side_by_side(windows: Windows, serve: Serve, tmp_path: Path) -> None:
    path = random_trace(24, layers=4, heads=4).save(tmp_path / "pinned.safetensors")
    pins = "pin=encoder.0.0~encoder.1.1~encoder.2.2~encoder.3.3"
    with windows(width=1920, height=1080) as window:
        window.open(serve(path))
        for view in ("lines", "matrix", "neuron"):
            take_screenshot(window, view, f"{pins}&q=3&k=4", f"pinned-{view}")


def test_hostile_texts_are_seen_as_they_are(windows: Windows, serve: Serve, tmp_path: Path) -> None:
    path = random_trace(pieces=HOSTILE, title=HOSTILE[0]).save(tmp_path / "hostile.safetensors")
    with windows() as window:
        window.open(serve(path))
        for view in ("lines", "matrix", "neuron", "masks"):
            take_screenshot(window, view, "q=4&k=9", f"hostile-{view}")
        assert window.run("window.pwned") is None
