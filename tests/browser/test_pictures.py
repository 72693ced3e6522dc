"""Exported pictures show what the screen shows: pixels, texts and colours of each view."""

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.text import Text
from numpy.typing import NDArray
from PIL import Image

import jumok
from jumok.interpret.trace import Trace
from jumok.viewer.figure_requests import FigureRequest
from jumok.viewer.figures.figure import draw_figure
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import TraceRequest
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows
from tests.browser.test_views import traced
from tests.viewer.page_server import Server, served

TEXT = "겨울은 추워요."

# The texts that are drawn on each canvas since it was last cleared.
RECORD_TEXTS = """
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        (this.canvas.texts ??= []).push(text);
        return write.call(this, text, ...rest);
    };
    const width = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, "width");
    Object.defineProperty(HTMLCanvasElement.prototype, "width", {
        get: width.get,
        set(value) { this.texts = []; width.set.call(this, value); },
    });
"""
# All texts of a figure: of its canvases, of its SVG, of its other leaves.
READ_TEXTS = """(roots) => [...document.querySelectorAll(roots)].flatMap((root) =>
    [root, ...root.querySelectorAll("*")].flatMap((each) => {
        if (each.closest("option, select, label, button.choice, title")) return [];
        if (each instanceof HTMLCanvasElement) return each.texts ?? [];
        return [...each.childNodes].flatMap((child) => (child.nodeType === 3 ? [child.data] : []));
    }))"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    model = LiveModel(jumok.load("note", device="cpu"))
    path = model.make_trace(TraceRequest((TEXT,), decode={"beam": 3})).save(
        tmp_path_factory.mktemp("note") / "note.safetensors"
    )
    with open_trace_store() as store:
        content = ServerContent(store, model.card, store.register(path), model)
        with served(content) as server:
            yield server, path


def words(texts: list[str]) -> Counter[str]:
    """The words of texts."""
    return Counter(word for text in texts for word in text.split())


def has_text(window: Window, figure: str) -> bool:
    """Whether the figure is drawn."""
    return bool(words(window.run(READ_TEXTS, figure)))


def pixels(content: bytes, scale: int = 1) -> NDArray[np.int64]:
    """A PNG as (height, width, 3)."""
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB").reduce(scale)).astype(np.int64)


def difference(picture: NDArray[np.int64], screen: NDArray[np.int64]) -> float:
    """The fraction of pixels with a channel that differs by more than 48 of 255.

    The screenshot begins at a whole pixel, the figure maybe at a fraction: shifts by one are tried.
    """
    height, width = np.minimum(picture.shape[:2], screen.shape[:2]) - 2
    inner = screen[1 : 1 + height, 1 : 1 + width]
    shifted = (picture[y : y + height, x : x + width] for y in range(3) for x in range(3))
    return min(float((np.abs(each - inner).max(-1) > 48).mean()) for each in shifted)


# The state of each view, and the figure of the page that is exported.
FIGURES = {
    "flow": ".flow-scroll svg",
    "matrix&q=1&k=2": "[data-role=cells]",
    "lines&b=cross&q=2": ".lines-drawing",
    "neuron&q=1&k=2": ".neuron svg",
    "calculation&t=9&q=1&k=2": ".calculation-grid",
    "alignment&q=1&k=2": ".alignment-picture svg",
    "generation&t=2": ".generation-panels svg, .generation-tree svg",
    "masks&b=decoder": ".masks-tiles",
    "map": ".map-full canvas",
    "compare&compare.with=head&pin=encoder.0.1": ".compare-panel svg",
}


@pytest.mark.parametrize("language", ["ko", "en"])
def test_an_svg_has_the_texts_of_the_screen(
    windows: Windows, live: tuple[Server, Path], tmp_path: Path, language: str
) -> None:
    with windows() as window:
        window.page.add_init_script(RECORD_TEXTS)
        window.open(str(live[0].address), f"v=flow&lang={language}")
        for state, figure in FIGURES.items():
            window.show(f"v={state}&lang={language}")
            window.page.locator(figure).first.wait_for()
            window.wait_until_equal(partial(has_text, window, figure), True, state)
            root = ElementTree.parse(window.export("svg", tmp_path)).getroot()
            drawn = words([" ".join(x.itertext()) for x in root.iter() if x.tag.endswith("}text")])
            shown = words(window.run(READ_TEXTS, figure))
            assert not shown - drawn, state


def test_the_svg_of_an_explanation_has_the_texts_of_the_screen(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    address = serve(traced(tmp_path, "classifier"))
    with windows() as window:
        window.open(address, "v=explanation&lang=ko")
        window.page.locator(".explanation-word").first.wait_for()
        svg = window.export("svg", tmp_path).read_text("utf-8")
        for role in (".explanation-word bdi", ".explanation-word small", ".explanation svg text"):
            for text in window.page.locator(role).all_text_contents():
                for word in text.split():
                    assert word in svg
        legend = window.page.locator(".explanation .choices.hint").inner_text().split()
        assert all(number in svg for number in legend)


def colours_of(picture: NDArray[np.int64], fraction: float) -> set[tuple[int, int, int]]:
    """The colours of more than a fraction of the pixels, in steps of 8: of areas, not of edges."""
    codes = (picture.reshape(-1, 3) // 8) @ (1024, 32, 1)
    counts = np.bincount(codes)
    frequent = np.flatnonzero(counts > fraction * len(codes)).tolist()
    return {(code // 1024, code // 32 % 32, code % 32) for code in frequent}


def unlike(some: set[tuple[int, int, int]], others: set[tuple[int, int, int]]) -> list[str]:
    """Colours that differ by more than one step from all others, in hexadecimal."""
    table = np.array(sorted(others)).reshape(-1, 3)
    found = [one for one in some if np.abs(table - one).max(1).min() > 1]
    return ["#" + bytes(8 * channel for channel in one).hex() for one in found]


def test_a_png_has_the_colours_of_the_screen(
    windows: Windows, live: tuple[Server, Path], tmp_path: Path
) -> None:
    """One page, every view; positions and sizes may differ."""
    with windows(width=1600, height=1400) as window:
        window.open(str(live[0].address), "v=lines&lang=en&theme=light")
        for state, figure in FIGURES.items():
            window.show(f"v={state}&lang=en&theme=light")
            window.page.locator(figure).first.wait_for()
            window.page.wait_for_timeout(150)
            png = pixels(window.export("png", tmp_path).read_bytes(), scale=2)
            window.page.locator("[data-role=export] > button").click()  # closes the menu
            window.page.mouse.move(0, 0)
            shots = [pixels(each.screenshot()) for each in window.page.locator(figure).all()]
            screen = np.concatenate([shot.reshape(-1, 3) for shot in shots])
            assert unlike(colours_of(screen, 0.004), colours_of(png, 0.0002)) == [], state
            assert unlike(colours_of(png, 0.02), colours_of(screen, 0.0002)) == [], state


def test_the_pictures_of_effects_and_of_an_explanation_are_those_of_the_screen(
    windows: Windows, live: tuple[Server, Path], serve: Serve, tmp_path: Path
) -> None:
    def compare(window: Window, figure: str) -> None:
        png = pixels(window.export("png", tmp_path).read_bytes(), scale=2)
        window.page.locator("[data-role=export] > button").click()
        window.page.mouse.move(0, 0)
        screen = pixels(window.page.locator(figure).first.screenshot())
        assert unlike(colours_of(screen, 0.004), colours_of(png, 0.0002)) == []
        svg = ElementTree.parse(window.export("svg", tmp_path)).getroot()
        drawn = words([" ".join(x.itertext()) for x in svg.iter() if x.tag.endswith("}text")])
        assert not words(window.run(READ_TEXTS, figure)) - drawn

    with windows(width=1440, height=1400) as window:
        window.open(str(live[0].address), "v=map&lang=ko&theme=light")
        window.page.locator("[data-role=sweep]").click()
        window.page.locator(".effects svg").wait_for()
        compare(window, ".effects svg")
        address = serve(traced(tmp_path, "classifier"))
        window.open(address, "v=explanation&lang=ko&theme=light&explanation.without=0")
        window.page.locator(".explanation-word").first.wait_for()
        compare(window, ".explanation-text")
        compare(window, ".explanation svg")
        chosen = window.page.locator(".explanation select")
        other = {"0": "1", "1": "0"}[chosen.input_value()]
        chosen.select_option(other)
        with window.page.expect_request("**/api/figure") as asked:
            window.export("pdf", tmp_path)
        assert json.loads(asked.value.post_data or "")["label"] == int(other)


# A picture that has the size of the screen, and what else is exported with it: pixels from the top.
SAME_SIZE = {"flow": ".flow-scroll svg", "alignment&q=1&k=2": ".alignment-picture"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", SAME_SIZE)
def test_a_png_is_the_screenshot_of_its_figure(
    windows: Windows, live: tuple[Server, Path], tmp_path: Path, view: str, theme: str
) -> None:
    with windows(width=1440, height=900) as window:
        window.open(str(live[0].address), f"v={view}&lang=ko&theme={theme}")
        figure = window.page.locator(SAME_SIZE[view])
        figure.wait_for()
        window.page.mouse.move(0, 0)
        png = pixels(window.export("png", tmp_path).read_bytes(), scale=2)
        window.page.locator("[data-role=export] > button").click()  # closes the menu
        window.page.mouse.move(0, 0)
        window.show(f"v={view}&lang=ko&theme=light")  # the colours of exported pictures
        window.wait_until_equal(
            lambda: window.run("document.documentElement.dataset.theme"), "light", "the theme"
        )
        screen = pixels(figure.screenshot())
        assert difference(png, screen) < 0.015
        assert difference(png, screen[::-1]) > 0.03  # another picture differs


@pytest.mark.parametrize("view", ["matrix", "alignment"])
def test_a_pdf_has_the_numbers_the_labels_and_the_colours_of_the_screen(
    windows: Windows, live: tuple[Server, Path], tmp_path: Path, view: str
) -> None:
    server, path = live
    with windows() as window:
        window.page.add_init_script(RECORD_TEXTS)
        window.open(str(server.address), f"v={view}&b=cross&L=1&H=1&lang=ko&theme=light")
        figure = window.page.locator(FIGURES[f"{view}&q=1&k=2"]).first
        figure.wait_for()
        with window.page.expect_request("**/api/figure") as asked:
            window.export("pdf", tmp_path)
        request = json.loads(asked.value.post_data or "")
        drawn = draw_figure(Trace.open(path), FigureRequest.of_json(request))
        mesh = drawn.axes[0].collections[0]
        assert isinstance(mesh, QuadMesh)
        numbers = np.asarray(mesh.get_array())
        rows = window.table(tmp_path)[1 : 1 + len(numbers)]
        table = np.array([[float(cell) for cell in row[1:]] for row in rows])
        np.testing.assert_allclose(numbers, table, atol=1e-6)
        labels = [*drawn.axes[0].get_xticklabels(), *drawn.axes[0].get_yticklabels()]
        pieces = words([label.get_text() for label in labels])
        assert pieces
        assert not pieces - words(window.run(READ_TEXTS, FIGURES[f"{view}&q=1&k=2"]))
        if view == "alignment":
            return
        left, top, cell = (
            float(figure.get_attribute(f"data-{name}") or "nan") for name in ("left", "top", "cell")
        )
        window.page.keyboard.press("Escape")
        window.page.mouse.move(0, 0)
        screen = pixels(figure.screenshot())
        colours = 255 * mesh.to_rgba(numbers)[..., :3]
        for (row, column), weight in np.ndenumerate(numbers):
            x, y = left + (column + 0.5) * cell, top + (row + 0.1) * cell  # above the number
            assert np.abs(screen[int(y), int(x)] - colours[row, column]).max() <= 12, weight


def test_the_pdf_of_lines_has_the_tokens_and_the_counts_of_the_screen(
    windows: Windows, live: tuple[Server, Path], tmp_path: Path
) -> None:
    server, path = live
    figures = {"lines&b=cross&L=1&H=1&q=2": ".lines-drawing", "neuron&L=1&H=1&q=2": ".neuron svg"}
    with windows() as window:
        window.page.add_init_script(RECORD_TEXTS)
        window.open(str(server.address), "v=lines&lang=en")
        for state, figure in figures.items():
            window.show(f"v={state}&lang=en")
            window.wait_until_equal(partial(has_text, window, figure), True, state)
            with window.page.expect_request("**/api/figure") as asked:
                window.export("pdf", tmp_path)
            request = json.loads(asked.value.post_data or "")
            drawn = draw_figure(Trace.open(path), FigureRequest.of_json(request))
            texts = [text.get_text() for text in drawn.findobj(Text)]
            block = Trace.open(path).info.block(request["block"])
            for side in (block.queries, block.keys):
                pieces = Trace.open(path).info.tokens(side).pieces
                tokens = words([piece.replace("\u2581", "\u2423") for piece in pieces])
                assert not tokens - words(window.run(READ_TEXTS, figure)), state
                assert not tokens - words(texts), state
            if state.startswith("lines"):
                shown = re.findall(r"[\d.]+", window.page.locator(".lines-legend b").inner_text())
                written = re.findall(
                    r"[\d.]+", next(text for text in texts if " lines show " in text)
                )
                assert [float(number) for number in shown] == [float(n) for n in written]
