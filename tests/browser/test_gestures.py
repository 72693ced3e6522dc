"""Interaction with the page: hovering, locking, keys, the map, zoom, settings, drawers."""

from pathlib import Path

import pytest

from jumok.interpret.aggregate import DisplayOptions, display_weights, token_groups
from jumok.interpret.trace import Trace
from tests.browser.chromium import Window
from tests.browser.conftest import Windows

MAP_LEFT, MAP_TOP, MAP_CELL = 22, 16, 44  # of the map's picture, with three heads across


def state_of(window: Window) -> dict[str, str]:
    """The state in the address, a moment later than on the page."""
    pairs = str(window.run("location.hash")).removeprefix("#").split("&")
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def expect_address(window: Window, **expected: str | None) -> None:
    """Wait until the URL has this value; None: the key is absent."""
    window.wait_until_equal(
        lambda: {key: state_of(window).get(key) for key in expected}, expected, "the address"
    )


def press(window: Window, *keys: str) -> None:
    for key in keys:
        window.page.keyboard.press(key)


@pytest.fixture
def page(addresses: dict[str, str]) -> str:
    return addresses["encoder_decoder"]


def test_hovering_shows_numbers_and_a_click_locks(windows: Windows, page: str) -> None:
    with windows() as window:
        window.open(page, "v=matrix&b=encoder")
        token = window.page.locator("[data-role=strip] [data-piece='3']").first
        token.hover()
        window.wait_until_equal(
            lambda: window.inspector_value("entropy") is not None, True, "the row"
        )
        expect_address(window, q=None)
        window.page.mouse.move(5, 5)
        window.wait_until_equal(lambda: window.inspector_value("entropy"), None, "the pointer left")
        token.click()
        token.click(modifiers=["Shift"])
        window.page.mouse.move(5, 5)
        window.wait_until_equal(
            lambda: window.inspector_value("weight") is not None, True, "both locked"
        )
        expect_address(window, q="3", k="3")
        press(window, "Escape")
        window.wait_until_equal(lambda: window.inspector_value("weight"), None, "freed")
        expect_address(window, q=None, k=None)


def test_the_keyboard_reaches_everything(windows: Windows, page: str) -> None:
    with windows() as window:
        window.open(page, "v=matrix&b=encoder&L=0")
        press(window, "]", ".", ".", "b")
        expect_address(window, b="decoder", L="1", H="2")
        press(window, "[", ",")
        expect_address(window, H="1")
        press(window, "ArrowDown", "ArrowDown", "ArrowRight", "l")
        expect_address(window, q="1", k="1")
        press(window, "w", "s", "v", "c")
        expect_address(window, u="syllable", sp="dim", m="values", sc="linear")
        press(window, "2")
        expect_address(window, v="lines")
        press(window, "5")
        expect_address(window, v="neuron")
        press(window, "p")
        expect_address(window, pin="decoder.0.1")
        press(window, "t", "t")
        expect_address(window, theme="dark")
        press(window, "?")
        window.page.get_by_role("dialog").wait_for()
        press(window, "Escape")
        assert window.page.get_by_role("dialog").count() == 0
        press(window, "/")
        window.page.get_by_role("searchbox").wait_for()
        window.page.keyboard.type("c L1 H2")
        press(window, "Enter")
        expect_address(window, b="cross", L="1", H="2")


def test_the_map_selects_and_pins_heads(windows: Windows, page: str) -> None:
    def place(layer: int, head: int) -> dict[str, float]:
        return {"x": MAP_LEFT + MAP_CELL * (head + 0.5), "y": MAP_TOP + MAP_CELL * (layer + 0.5)}

    with windows() as window:
        window.open(page, "v=matrix")
        block = window.page.locator("[data-role=map] [data-block=cross] canvas").last
        block.click(position=place(1, 2))  # type: ignore[arg-type]
        expect_address(window, b="cross", L="1", H="2")
        for head in range(3):
            block.click(position=place(0, head), modifiers=["Shift"])  # type: ignore[arg-type]
        expect_address(window, pin="cross.0.0~cross.0.1~cross.0.2")
        assert window.page.locator("[data-role=cells]").count() == 3


def test_the_matrix_is_pointed_at_and_zoomed(
    windows: Windows, page: str, traces: dict[str, Path]
) -> None:
    weights = Trace.open(traces["encoder_decoder"]).weights("encoder", 0)[0]
    with windows() as window:
        window.open(page, "v=matrix&b=encoder&L=0")
        cells = window.page.locator("[data-role=cells]")
        cells.wait_for()
        place = {
            name: float(cells.get_attribute(f"data-{name}") or "nan")
            for name in ("left", "top", "cell")
        }
        box = cells.bounding_box()
        assert box is not None
        query, key = 4, 7
        at = (
            box["x"] + place["left"] + (key + 0.5) * place["cell"],
            box["y"] + place["top"] + (query + 0.5) * place["cell"],
        )
        window.page.mouse.move(*at)
        window.wait_until_equal(
            lambda: window.number("weight"), pytest.approx(weights[query, key]), "hovered"
        )
        window.page.mouse.down()
        window.page.mouse.up()
        expect_address(window, q="4", k="7")
        window.page.mouse.wheel(0, -300)
        window.wait_until_equal(
            lambda: float(cells.get_attribute("data-cell") or 0) > place["cell"], True, "zoomed"
        )
        window.page.mouse.wheel(0, 3000)
        window.wait_until_equal(
            lambda: float(cells.get_attribute("data-cell") or 0), place["cell"], "whole again"
        )


@pytest.mark.parametrize(
    ("state", "how"),
    [
        ("u=word", DisplayOptions(unit="word")),
        ("sp=renormalise", DisplayOptions(specials="renormalise")),
        ("m=values", DisplayOptions(measure="values")),
        ("u=word&sp=renormalise", DisplayOptions(unit="word", specials="renormalise")),
    ],
)
def test_the_picture_is_what_python_makes_of_the_weights(
    windows: Windows, page: str, traces: dict[str, Path], state: str, how: DisplayOptions
) -> None:
    trace = Trace.open(traces["encoder_decoder"])
    read = trace.info.tokens("source")
    weights, norms = trace.weights("encoder", 1), trace.value_norms("encoder", 1)
    table = display_weights(weights, norms, read, read, how)[2]
    found = token_groups(read, how.unit)
    row, column = (next(i for i, group in enumerate(found) if piece in group) for piece in (3, 5))
    with windows() as window:
        window.open(page, f"v=matrix&b=encoder&L=1&H=2&q=3&k=5&{state}")
        name = "weight" if how == DisplayOptions(unit=how.unit) else "displayed"
        window.wait_until_equal(
            lambda: window.number(name), pytest.approx(table[row, column], rel=1e-5), state
        )


def test_hovered_lines_show_their_weight(windows: Windows, page: str) -> None:
    with windows() as window:
        window.open(page, "v=lines&b=cross")
        token = window.page.locator(".lines-tokens [role=option]").nth(2)
        token.hover()
        window.wait_until_equal(
            lambda: window.inspector_value("drawn") is not None, True, "the share drawn"
        )
        before = window.number("drawn")
        assert 0.85 <= before <= 1
        window.show("v=lines&b=cross&lines.mass=0.3")
        window.wait_until_equal(
            lambda: 0.3 <= window.number("drawn") < before, True, "fewer lines, a smaller share"
        )


def test_language_and_theme_are_chosen(windows: Windows, page: str) -> None:
    with windows() as window:
        window.open(page)
        assert window.run("document.documentElement.lang") == "ko"
        window.page.get_by_role("button", name="English").click()
        expect_address(window, lang="en")
        assert window.run("document.documentElement.lang") == "en"
        ground = "getComputedStyle(document.body).backgroundColor"
        light = window.run(ground)
        window.page.get_by_role("button", name="theme").click()
        window.page.get_by_role("button", name="light").click()
        window.wait_until_equal(lambda: window.run(ground) != light, True, "dark")


@pytest.mark.parametrize(
    ("browser_says", "state", "shown"),
    [("en-GB", "", "en"), ("ko-KR", "", "ko"), ("de-DE", "", "en"), ("en-US", "lang=ko", "ko")],
)
def test_a_page_begins_in_the_language_of_the_browser(
    windows: Windows, page: str, browser_says: str, state: str, shown: str
) -> None:
    with windows(language=browser_says) as window:
        window.open(page, state)
        assert window.run("document.documentElement.lang") == shown
        other = {"ko": "English", "en": "한국어"}[shown]
        window.page.get_by_role("button", name=other).click()
        chosen = {"ko": "en", "en": "ko"}[shown]
        expect_address(window, lang=chosen)
        window.page.reload()
        window.wait_until_equal(
            lambda: window.run("document.documentElement.lang"), chosen, "after a new start"
        )


def test_a_narrow_window_has_drawers(windows: Windows, page: str) -> None:
    with windows(width=390, height=844) as window:
        window.open(page)
        inspector = window.page.locator("[data-role=inspector]")
        assert not inspector.is_visible()
        window.page.locator("button.narrow").nth(1).click()
        inspector.wait_for(state="visible")
        press(window, "Escape")
        inspector.wait_for(state="hidden")
        wide = "document.documentElement.scrollWidth <= innerWidth"
        assert window.run(wide)


def test_back_and_forward(windows: Windows, page: str) -> None:
    """A state that is copied elsewhere shows the same; what was typed wrongly is passed over."""
    with windows() as window:
        window.open(page, "v=neuron&b=cross&L=1&H=2&q=4&k=6&u=word&lang=en")
        window.wait_until_equal(
            lambda: window.inspector_value("weight") is not None, True, "a weight"
        )
        weight, copied = window.inspector_value("weight"), str(window.run("location.href"))
        with windows() as other:
            other.open(copied)
            other.wait_until_equal(
                lambda: other.inspector_value("weight"), weight, "the same weight"
            )
        window.show("v=nowhere&L=99&H=-1&q=many&b=middle&pin=a.b.c&zoom=&=&&&%zz")
        window.page.wait_for_selector("[data-role=stage]")
        window.page.wait_for_timeout(300)
        assert window.page.locator("[data-role=stage]").count() == 1
