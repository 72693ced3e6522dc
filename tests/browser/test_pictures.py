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
from tests.browser.documentation_pictures import use_one_font, wait_until_still
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
    "heads": ".map-full canvas",
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
        window.open(str(live[0].address), "v=heads&lang=ko&theme=light")
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
        with window.page.expect_request("**/api/figure") as sent:
            window.export("pdf", tmp_path)
        assert json.loads(sent.value.post_data or "")["label"] == int(other)


# A picture that has the size of the screen, and what else is exported with it: pixels from the top.
SAME_SIZE = {
    "flow": ".flow-scroll svg",
    "alignment&q=1&k=2": ".alignment-picture",
    "lines&b=cross&L=1&H=1&q=2": ".lines-drawing",
    "matrix&q=1&k=2": "[data-role=cells]",
    "neuron&L=1&H=1&q=2": ".neuron-keys",
}
TOP = {"neuron&L=1&H=1&q=2": 41}  # pixels of the picture above the figure


@pytest.mark.parametrize(("view", "theme"), [*((v, "dark") for v in SAME_SIZE), ("flow", "light")])
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
        png = png[TOP.get(view, 0) :]
        assert difference(png, screen) < 0.02  # edges of letters; numbers differ by processor
        assert difference(png, screen[::-1]) > 0.03  # another picture differs


# What is drawn on each canvas since it was last cleared: paths; texts and where they begin, are
# centred or end.
RECORD_SHAPES = """
    const width = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, "width");
    Object.defineProperty(HTMLCanvasElement.prototype, "width", {
        get: width.get,
        set(value) { this.places = []; this.paths = []; width.set.call(this, value); },
    });
    window.Path2D = class extends Path2D {
        constructor(d) { super(d); this.d = d; }
    };
    const stroke = CanvasRenderingContext2D.prototype.stroke;
    CanvasRenderingContext2D.prototype.stroke = function (...path) {
        if (path[0]) this.canvas.paths?.push(path[0].d);
        return stroke.apply(this, path);
    };
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...rest) {
        const ascent = (baseline) => {
            this.textBaseline = baseline;
            return this.measureText("x").actualBoundingBoxAscent;
        };
        const baseline = this.textBaseline;
        const down = ascent("alphabetic") - ascent(baseline);
        this.textBaseline = baseline;
        const at = new DOMPoint(x, y + down).matrixTransform(this.getTransform());
        this.canvas.places?.push([text, at.x, at.y]);
        return write.call(this, text, x, y, ...rest);
    };
"""
# Of a figure: where each text begins, is centred or ends; the boxes of rectangles; and paths.
READ_SHAPES = """async (root) => {
    await document.fonts.ready;
    const figure = document.querySelector(root);
    const { left, top } = figure.getBoundingClientRect();
    const all = (name) => [...figure.querySelectorAll(name)];
    return {
        texts: all("text").map((each) => {
            const [x, y] = ["x", "y"].map((name) => Number(each.getAttribute(name) ?? 0));
            const at = new DOMPoint(x, y).matrixTransform(each.getScreenCTM());
            return [each.textContent, at.x - left, at.y - top];
        }).concat(all("canvas").flatMap((each) => {
            const box = each.getBoundingClientRect();
            const at = ([text, x, y]) => [text, x + box.left - left, y + box.top - top];
            return (each.places ?? []).map(at);
        })),
        boxes: all("rect").map((each) => {
            const box = each.getBoundingClientRect();
            return ["", box.left - left, box.top - top, box.right - left, box.bottom - top];
        }),
        paths: all("path").map((each) => each.getAttribute("d"))
            .concat(all("canvas").flatMap((each) => each.paths ?? [])),
    };
}"""
SHAPES = {
    "lines&b=cross&L=1&H=1&q=2": ".lines-drawing",
    "lines&b=encoder&L=1&H=1&lines.layout=arcs&q=2": ".lines-drawing",
    "lines&b=encoder&lines.heads=all": ".lines-drawing",
    "neuron&L=1&H=1&q=3&k=2": ".neuron-across",
    "neuron&b=cross&L=0&H=0": ".neuron-across",
    "matrix&b=cross&q=1&k=2": ".matrix-panels",
    "matrix&matrix.zoom=2&matrix.x=1.5&matrix.y=1": ".matrix-panels",
    "matrix&pin=encoder.0.1~encoder.1.0": ".matrix-panels",
}


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_texts_and_lines_of_an_svg_are_where_they_are_on_the_screen(
    windows: Windows, live: tuple[Server, Path], tmp_path: Path, theme: str, width: int
) -> None:
    """All texts and bars within a pixel, and the same lines; fonts may have other widths."""
    with windows(width=width, height=900) as window:
        window.page.add_init_script(RECORD_SHAPES)
        use_one_font(window.page)
        file = window.page.context.new_page()
        for state, root in SHAPES.items():
            window.page.goto("about:blank")
            window.open(str(live[0].address), f"v={state}&lang=ko&theme={theme}")
            window.page.locator(root).first.wait_for()
            wait_until_still(window.page)
            screen = window.run(READ_SHAPES, root)
            file.goto(window.export("svg", tmp_path).as_uri())
            saved = file.evaluate(READ_SHAPES, "svg")
            assert screen["texts"], state
            for kind in ("texts", "boxes"):
                for text, *box in screen[kind]:
                    same = [place for other, *place in saved[kind] if other == text]
                    offsets = [np.abs(np.subtract(box, place)).max() for place in same]
                    assert min(offsets, default=np.inf) <= 1, (state, text, box, saved[kind])
            missing = set(screen["paths"]) - set(saved["paths"])
            assert not missing, (state, missing)


def test_a_printed_picture_is_a_page_of_its_size(
    windows: Windows, live: tuple[Server, Path], tmp_path: Path
) -> None:
    with windows(width=1440, height=900) as window:
        window.page.add_init_script("window.print = () => (window.printed = true)")
        window.open(str(live[0].address), "v=heads&lang=en")
        window.page.locator("[data-role=sweep]").click()
        window.page.locator(".effects svg").wait_for()
        root = ElementTree.parse(window.export("svg", tmp_path)).getroot()
        menu = window.page.locator("[data-role=export]")
        assert menu.locator("[data-export=pdf]").count() == 0  # the figure has no effects
        menu.locator("[data-export=print]").click()
        window.wait_until_equal(lambda: window.run("window.printed"), True, "printing")
        pdf = window.page.pdf(prefer_css_page_size=True, print_background=True)
        boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
        size = [0.75 * float(root.attrib[side]) for side in ("width", "height")]  # points
        assert len(boxes) == 1
        assert [float(side) for side in boxes[0]] == pytest.approx(size, abs=1)
        assert b"/FontFile2" in pdf  # letters, not an image
        window.run("dispatchEvent(new Event('afterprint'))")
        assert window.page.locator(".printed").count() == 0


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
        with window.page.expect_request("**/api/figure") as sent:
            window.export("pdf", tmp_path)
        request = json.loads(sent.value.post_data or "")
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
            with window.page.expect_request("**/api/figure") as sent:
                window.export("pdf", tmp_path)
            request = json.loads(sent.value.post_data or "")
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
