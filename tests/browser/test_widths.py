"""Nothing of the page is cut off or covered at the widths of phones, tablets and laptops."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.chromium import Window
from tests.browser.documentation_pictures import Picture, shown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BOXES = """(names) => names.map((name) => {
    const { left, right, top, bottom } = document.querySelector(name).getBoundingClientRect();
    return [left, right, top, bottom];
})"""
CUT_CELLS = """() => [...document.querySelectorAll(".calculation-cell")]
    .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
    .map(({ textContent }) => textContent)"""


@pytest.fixture(scope="module")
def note(browser: "Browser") -> Iterator[Window]:
    """The page of `note`."""
    with shown(browser, Picture("flow", "v=flow&lang=en")) as opened:
        opened.page.unroute("**/app.css")  # the fonts of users, not those of the pictures
        opened.page.reload()
        yield opened


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024)])
def test_the_export_menu_is_on_the_screen(note: Window, width: int, height: int) -> None:
    note.page.set_viewport_size({"width": width, "height": height})
    note.show("v=heads&lang=en")
    note.page.locator("[data-role=sweep]").click()
    note.page.locator("[data-role=effects-summary]").wait_for()
    note.page.locator("[data-role=export] > button").click()
    menu = note.page.locator(".export-menu")
    assert "jumok heads" in menu.inner_text()  # the figure for papers has no effects of heads
    ((left, right, top, _),) = note.run(BOXES, [".export-menu"])
    assert 0 <= left < right <= width
    assert top >= 0
    note.page.keyboard.press("Escape")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024)])
def test_the_numbers_of_a_step_are_above_the_bug_lab(note: Window, width: int, height: int) -> None:
    note.page.set_viewport_size({"width": width, "height": height})
    for step in (4, 12, 15, 0):
        note.show(f"v=calculation&lang=en&t={step}")
        note.page.locator(f"li:nth-child({step + 1}) > [data-role=step][aria-current]").wait_for()
        note.page.locator(".calculation-grid").wait_for()
        note.page.wait_for_timeout(100)
        grid, bugs, steps, current = note.run(
            BOXES,
            [
                ".calculation-grid",
                ".calculation-bugs",
                ".calculation-steps",
                "[data-role=step][aria-current]",
            ],
        )
        assert grid[3] <= bugs[2], step
        assert grid[3] - grid[2] > 40, step
        assert steps[0] - 1 <= current[0] < current[1] <= steps[1] + 1, step


def test_no_number_of_a_step_is_cut_off(note: Window) -> None:
    for width in (1024, 1280, 1440):
        note.page.set_viewport_size({"width": width, "height": 900})
        for step in (4, 6):
            note.show(f"v=calculation&lang=en&t={step}")
            note.page.locator(f"li:nth-child({step + 1}) > [aria-current]").wait_for()
            note.page.locator(".calculation-grid [role=gridcell]").first.wait_for()
            note.page.wait_for_timeout(100)
            assert note.run(CUT_CELLS) == [], (width, step)


def test_the_flow_of_a_small_translator_fits_a_phone(note: Window) -> None:
    note.page.set_viewport_size({"width": 390, "height": 844})
    note.show("v=flow&lang=en")
    note.page.locator(".flow-scroll svg").wait_for()
    note.page.wait_for_timeout(100)
    content, box = note.run(
        "(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])"
        "(document.querySelector('.flow-scroll'))"
    )
    assert content <= box
