"""Three questions of a newcomer, each answered in at most two gestures from the first screen.

What did the model answer? Which word decided? What does head L1 H1 do?
"""

from pathlib import Path

import numpy as np
import pytest

from jumok.interpret.trace import Trace
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows
from tests.browser.test_views import traced

SIZES = [(1440, 900), (390, 844)]


class Gestures:
    """Clicks and scrolls in a window, counted."""

    def __init__(self, window: Window) -> None:
        self.page, self.count = window.page, 0

    def click(self, selector: str, position: tuple[float, float] | None = None) -> None:
        self.count += 1
        target = self.page.locator(selector).last
        if position is None:
            target.click()
        else:
            target.click(position={"x": position[0], "y": position[1]})

    def scroll_to(self, selector: str) -> None:
        """One scroll, if the element is not yet within the window."""
        box = self.page.locator(selector).first.bounding_box()
        height = self.page.viewport_size["height"]  # type: ignore[index]
        if box is not None and box["y"] + box["height"] > height:
            self.count += 1
            self.page.locator(selector).first.scroll_into_view_if_needed()


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_what_did_it_answer(
    windows: Windows, serve: Serve, tmp_path: Path, width: int, height: int
) -> None:
    for kind in ("classifier", "sequences", "language model"):
        path = traced(tmp_path, kind)
        info = Trace.open(path).info
        if info.classification is not None:
            p = info.classification.sequences[0].probabilities
            expected = info.classification.labels[int(np.argmax(p))]
        else:
            assert info.decoding is not None
            expected = info.decoding.output.strip()
        with windows(width=width, height=height) as window:
            window.open(serve(path), "lang=en")
            answer = window.page.locator("[data-role=answer]")
            answer.wait_for()
            assert "".join(expected.split()) in "".join(answer.inner_text().split())
            box = answer.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= height  # without any gesture


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_which_word_decided(
    windows: Windows, serve: Serve, tmp_path: Path, width: int, height: int
) -> None:
    path = traced(tmp_path, "classifier")
    classification = Trace.open(path).info.classification
    assert classification is not None
    one = classification.sequences[0]
    best = int(np.argmax(one.probabilities))
    effects = [abs(one.probabilities[best] - word.without[best]) for word in one.words]
    decided = "".join(one.words[int(np.argmax(effects))].text.split())
    with windows(width=width, height=height) as window:
        window.open(serve(path), "lang=en")
        window.page.locator("[data-role=stage]").wait_for()
        gestures = Gestures(window)
        gestures.click("[role=tab] >> text=explanation")
        words = window.page.locator(".explanation-word")
        words.first.wait_for()
        gestures.scroll_to(".explanation-word")
        assert gestures.count <= 2
        shown = {}
        for whole, effect in words.evaluate_all(
            "all => all.map((e) => [e.textContent, e.querySelector('small').textContent])"
        ):
            word = "".join(whole.removesuffix(effect).split())
            shown[word] = abs(float(effect.replace("\u2212", "-")))
        assert max(shown, key=shown.__getitem__) == decided


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("kind", ["classifier", "language model"])
def test_what_does_a_head_do(
    windows: Windows, serve: Serve, tmp_path: Path, width: int, height: int, kind: str
) -> None:
    path = traced(tmp_path, kind)
    block = Trace.open(path).info.blocks[0].name
    with windows(width=width, height=height) as window:
        window.open(serve(path), "lang=en" if kind == "classifier" else "v=flow&lang=en")
        gestures = Gestures(window)
        if width < 1180:
            gestures.click("[data-role=header] button.narrow >> nth=0")
        elif kind == "language model":  # the flow takes the place of the map
            gestures.click("[role=tab] >> text=lines")
        picture = window.page.locator(f"[data-role=map] [data-block={block}] canvas").last
        picture.wait_for()
        left, top, cell = (
            float(picture.get_attribute(f"data-{name}") or "nan")
            for name in ("left", "top", "cell")
        )
        where = (left + 1.5 * cell, top + 1.5 * cell)
        gestures.click(f"[data-role=map] [data-block={block}] canvas", where)
        window.page.wait_for_selector("[data-role=stage][data-view=lines]")
        assert gestures.count <= 2
        window.wait_until_equal(lambda: "L=1&H=1" in window.page.url, True, "head L1 H1")
        box = window.page.locator(".lines").bounding_box()
        assert box is not None
        assert box["y"] < height  # the lines of the head are within the window


@pytest.mark.parametrize("language", ["ko", "en"])
def test_all_tabs_are_within_a_window_of_768_pixels(
    windows: Windows, serve: Serve, tmp_path: Path, language: str
) -> None:
    with windows(width=768, height=1024) as window:
        window.open(serve(traced(tmp_path, "classifier")), f"v=lines&lang={language}")
        for tab in window.page.locator("[role=tab]").all():
            box = tab.bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 768, tab.inner_text()


def test_the_chosen_tab_and_all_encodings_are_visible_on_a_phone(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    with windows(width=390, height=844) as window:
        window.open(serve(traced(tmp_path, "classifier")), "v=heads&lang=ko")
        chosen = window.page.locator("[role=tab][aria-selected=true]")
        box = chosen.bounding_box()
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
        window.show("v=positions&lang=ko")
        steps = window.page.locator(".positions-ladder button")
        steps.first.wait_for()
        for step in steps.all():
            box = step.bounding_box()
            assert box is not None
            assert 0 <= box["x"] <= box["x"] + box["width"] <= 390, step.inner_text()


@pytest.mark.parametrize("language", ["ko", "en"])
def test_the_buttons_of_the_header_are_in_one_row_on_a_phone(
    windows: Windows, serve: Serve, tmp_path: Path, language: str
) -> None:
    with windows(width=390, height=844) as window:
        window.open(serve(traced(tmp_path, "classifier")), f"lang={language}")
        rows = window.page.locator(".actions > button, .actions .export > button").evaluate_all(
            "all => all.map((each) => Math.round(each.getBoundingClientRect().top))"
        )
        assert len(rows) >= 6
        assert max(rows) - min(rows) <= 4


def test_the_numbers_of_the_neuron_view_are_within_768_pixels(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    with windows(width=768, height=1024) as window:
        window.open(serve(traced(tmp_path, "classifier")), "v=neuron&lang=en&q=1&k=2")
        last = window.page.locator(".neuron svg text", has_text="softmax").first
        last.wait_for()
        box = last.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 768
