"""The page in a real browser: correct numbers, private, hostile text, the view it opens on."""

import random
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from jumok.interpret.trace import Trace
from jumok.viewer.colours import colour_table
from jumok.viewer.page import render_page
from tests.browser.chromium import Window
from tests.browser.conftest import KINDS, Serve, Windows
from tests.browser.test_views import traced
from tests.viewer.random_traces import HOSTILE, random_trace

VIEWS = (
    "flow", "lines", "matrix", "neuron", "calculation", "alignment", "generation", "positions",
    "masks", "explanation", "compare", "heads",
)  # fmt: skip
CELLS = 30  # looked at in each trace


def kept(path: Path, folder: Path, state: str = "", full: bool = False) -> str:
    """The address of a page in one file, made of a trace."""
    file = folder / "page.html"
    file.write_bytes(render_page(Trace.open(path), state, full))
    return file.as_uri()


def places(trace: Trace, number: int) -> list[tuple[str, int, int, int, int]]:
    """Random cells: block, layer, head, query, key; each block has its share."""
    rng = random.Random(number)
    found = []
    for i in range(number):
        block = trace.info.blocks[i % len(trace.info.blocks)]
        T, S = len(trace.info.tokens(block.queries)), len(trace.info.tokens(block.keys))
        layer, head = rng.randrange(block.layers), rng.randrange(block.heads)
        found.append((block.name, layer, head, rng.randrange(T), rng.randrange(S)))
    return found


def look_through(window: Window, trace: Trace) -> None:
    """Compare the inspector with the trace at random cells."""
    for block, layer, head, query, key in places(trace, CELLS):
        window.show(f"v=matrix&b={block}&L={layer}&H={head}&q={query}&k={key}")
        weight = trace.weights(block, layer)[head, query, key]
        norm = trace.value_norms(block, layer)[head, key]
        score = trace.scores(block, layer)[head, query, key]
        window.wait_until_equal(
            lambda: (window.number("weight"), window.number("score")),
            (pytest.approx(weight, rel=1e-6, abs=1e-9), pytest.approx(score, rel=1e-4, abs=1e-5)),
            f"weight and score of {block}.{layer}.{head}, query {query}, key {key}",
        )
        assert window.number("value-norm") == pytest.approx(norm, rel=1e-6)
        row = trace.weights(block, layer)[head, query]
        assert float(window.inspector_value("rank") or "nan") == 1 + int((row > weight).sum())
        seen = trace.mask(block)[query, key]
        assert (window.inspector_value("mask") == "unmasked") == bool(seen)


@pytest.mark.parametrize("kind", KINDS)
def test_the_inspector_shows_the_numbers_of_the_trace(
    windows: Windows, addresses: dict[str, str], traces: dict[str, Path], kind: str
) -> None:
    with windows() as window:
        look_through(window.open(addresses[kind]), Trace.open(traces[kind]))


def test_a_page_in_one_file_opens_from_disk(
    windows: Windows, traces: dict[str, Path], tmp_path: Path
) -> None:
    path = traces["encoder_decoder"]
    address = kept(path, tmp_path, "v=matrix&b=cross&L=1&H=2")
    with windows() as window:
        window.open(address)
        assert window.run("location.hash") == "#v=matrix&b=cross&L=1&H=2"
        look_through(window, Trace.open(path))
        assert window.foreign_requests(address) == []
        assert window.requests == [address]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_pixel_is_the_colour_of_its_weight(
    windows: Windows, addresses: dict[str, str], traces: dict[str, Path], scheme: str
) -> None:
    ramp = colour_table("ink", scheme)
    trace = Trace.open(traces["encoder_decoder"])
    with windows(scheme=scheme) as window:
        window.open(addresses["encoder_decoder"], "v=matrix&b=cross&L=0&H=0")
        for block, layer, head, query, key in places(trace, 30):
            if not trace.mask(block)[query, key]:
                continue  # hatched
            window.show(f"v=matrix&b={block}&L={layer}&H={head}")
            weight = trace.weights(block, layer)[head, query, key]
            expected = ramp[round(255 * float(np.sqrt(weight)))].tolist()
            window.wait_until_equal(
                partial(pixel, window, query, key),
                expected,
                f"{block}.{layer}.{head}, query {query}, key {key}",
            )


def pixel(window: Window, query: int, key: int) -> list[int]:
    """The colour near the corner of a cell of the matrix, where no number stands."""
    found = window.run(
        """([query, key]) => {
            const canvas = document.querySelector("[data-role=cells]");
            const { left, top, cell } = canvas.dataset;
            const ratio = canvas.width / canvas.clientWidth;
            const at = (from, index) => Math.round((Number(from) + (index + 0.1) * cell) * ratio);
            const dot = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
            dot.drawImage(canvas, -at(left, key), -at(top, query));
            return [...dot.getImageData(0, 0, 1, 1).data].slice(0, 3);
        }""",
        [query, key],
    )
    return [int(each) for each in found]


@pytest.mark.parametrize("served_page", [True, False], ids=["served", "kept"])
def test_hostile_text_is_text(
    windows: Windows, serve: Serve, tmp_path: Path, served_page: bool
) -> None:
    path = random_trace(pieces=HOSTILE, title=HOSTILE[0]).save(tmp_path / "hostile.safetensors")
    address = serve(path) if served_page else kept(path, tmp_path)
    with windows() as window:
        window.open(address)
        for view in VIEWS:
            for unit in ("piece", "syllable", "word"):
                window.show(f"v={view}&u={unit}")
                window.page.wait_for_selector(f"[data-role=stage][data-view={view}]")
                window.page.wait_for_timeout(50)
        assert window.run("window.pwned") is None
        inside = "document.querySelectorAll('[data-role=stage] img, [onerror], [onload]').length"
        assert window.run(inside) == 0
        strip = window.run("document.querySelector('[data-role=strip]').textContent")
        for text in ("</script><script>window.pwned=1</script>", "&lt;b&gt;", "{{7*7}}", "שלום"):
            assert text in strip
        assert window.foreign_requests(address.partition("#")[0]) == []


@pytest.mark.parametrize(
    ("kind", "view"),
    [
        ("classifier", "explanation"),
        ("sequences", "alignment"),
        ("language model", "generation"),
        ("tagging", "lines"),
    ],
)
def test_a_page_opens_on_the_whole_model_and_a_saved_one_on_the_view_of_its_task(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str, view: str
) -> None:
    path = traced(tmp_path, kind)
    served = serve(path)
    whole = "explanation" if kind == "classifier" else "flow"
    for address, first in ((served, whole), (kept(path, tmp_path), view)):
        with windows() as window:
            shown = partial(window.page.get_attribute, "[data-role=stage]", "data-view")
            window.open(address, "lang=en" if address == served else "")
            window.wait_until_equal(shown, first, address)
            if kind == "sequences" and address != served:
                assert "u=word" in window.run("location.hash")
                assert window.page.locator("[role=tab][aria-selected=true]").count() == 1
            window.page.locator("[data-role=tab][data-view=lines]").click()
            window.wait_until_equal(lambda: "v=lines" in window.run("location.hash"), True, kind)
            window.page.reload()  # keeps the chosen view
            window.page.wait_for_selector("[data-role=stage]")
            window.wait_until_equal(shown, "lines", address)
            if first != "lines":
                window.page.go_back()
                window.wait_until_equal(shown, first, "Back")
