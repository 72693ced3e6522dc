"""The glossary behind `?`, and the lesson that is resumed and leads to the course."""

from pathlib import Path

import pytest

from tests.browser.conftest import Serve, Windows
from tests.browser.test_views import traced
from web.scripts.terms import terms, titles


@pytest.mark.parametrize("language", ["ko", "en"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_glossary_is_behind_the_question_mark(
    windows: Windows, addresses: dict[str, str], language: str, width: int
) -> None:
    with windows(width=width, height=844) as window:
        window.open(addresses["encoder"], f"lang={language}")
        window.page.keyboard.press("?")
        entries = window.page.locator("[data-role=glossary] > div")
        entries.first.wait_for()
        shown = entries.all_inner_texts()
        assert len(shown) == len(terms())
        assert window.run("document.querySelector('dialog.help').scrollTop") == 0
        for text, term in zip(shown, terms(), strict=True):
            assert term["term"][language] in text
            assert term["meaning"][language] in text
        entries.last.scroll_into_view_if_needed()
        assert window.run("document.documentElement.scrollWidth") <= width
        assert window.violations() == []
        window.page.keyboard.press("Escape")
        assert not window.page.locator("dialog.help").is_visible()


def test_the_lesson_is_resumed_and_leads_to_the_course(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    with windows() as window:
        window.open(serve(traced(tmp_path, "classifier")), "v=calculation&lang=ko&b=encoder&L=0")
        page = window.page
        step = page.locator("[data-role=step]").nth(6)
        address = step.evaluate(
            "async (step) => { step.click(); await null; return location.hash; }"
        )
        assert "t=6" in address.split("&")  # at once, so that any reload comes back here
        window.wait_until_equal(
            lambda: step.get_attribute("aria-current"), "step", "the step is shown"
        )
        title = page.locator(".calculation-head h2").inner_text()
        course = page.locator("[data-role=course]").inner_text()
        number = course.partition("jumok lesson ")[2].partition(":")[0]
        assert titles()[number]["ko"] in course
        page.reload()
        page.wait_for_selector("[data-role=stage]")
        window.wait_until_equal(
            page.locator(".calculation-head h2").inner_text, title, "the same step"
        )


def test_the_lesson_leads_from_the_encoder_through_the_decoder_to_the_answer(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    path = ["encoder.0", "encoder.1", "decoder.0", "cross.0", "decoder.1", "cross.1"]
    with windows() as window:
        window.open(serve(traced(tmp_path, "sequences")), "v=calculation&lang=en&b=encoder&L=0")
        page = window.page

        def place() -> str:
            state = dict(each.split("=") for each in window.run("location.hash")[1:].split("&"))
            return f"{state.get('b', 'encoder')}.{state.get('L', 0)}"

        page.locator("[data-role=step]").last.click()
        for number, expected in enumerate(path):
            window.wait_until_equal(place, expected, "the place")
            if number > 0:  # the steps of the tokens are not repeated within a side
                first = page.locator("[data-role=step][aria-current]").inner_text()
                assert ("tokenization" in first) == (expected == "decoder.0")
                page.locator("[data-role=step]").last.click()
            current = page.locator("[data-role=path] [aria-current]")
            assert current.all_inner_texts() == [f"L{expected[-1]}"]
            if number % 2:
                page.locator("[data-role=next]").click()
            else:
                window.run("document.activeElement.blur()")  # else Space presses the button
                page.locator("body").press("Space")
        page.wait_for_selector("[data-role=stage][data-view=generation]")
