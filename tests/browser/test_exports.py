"""Exports of the page: standalone file, images, tables; and its display in notebooks."""

import base64
import csv
import io
import re
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from fontTools.ttLib import TTFont

import jumok
from jumok.interpret.trace import Trace
from jumok.tasks.registry import get_task
from jumok.viewer.page import render_page
from tests.browser.chromium import Window
from tests.browser.conftest import Windows
from tests.tasks.tiny_jobs import LABELS, recipe, review_vocabulary
from tests.viewer.random_traces import HOSTILE, random_trace

FONT_RULE = r"@font-face\{font-family:'Jumok Hangul';src:url\(data:font/ttf;base64,([\w+/=]+)\)\}"
STATE = "v=matrix&b=cross&L=1&H=2&q=3&k=4"


def numbers(window: Window) -> dict[str, float]:
    window.wait_until_equal(lambda: window.inspector_value("weight") is not None, True, "a weight")
    return {name: window.number(name) for name in ("weight", "score", "value-norm", "entropy")}


def test_the_page_of_a_server_is_kept_and_opens_alike(
    windows: Windows, addresses: dict[str, str], tmp_path: Path
) -> None:
    with windows() as window:
        expected = numbers(window.open(addresses["encoder_decoder"], STATE))
        path = window.export("html", tmp_path)
    with windows() as kept:
        kept.open(path.as_uri())
        assert kept.run("location.hash") == f"#{STATE}"
        assert numbers(kept) == expected
        kept.show("v=lines&b=decoder&L=0&H=1&q=5&k=2")
        kept.wait_until_equal(lambda: numbers(kept) != expected, True, "another head")
        elsewhere = numbers(kept)
        again = kept.export("html", tmp_path / "again")
        assert kept.foreign_requests(path.as_uri()) == []
    with windows() as second:  # a kept page keeps itself
        assert numbers(second.open(again.as_uri())) == elsewhere


def test_a_small_page_computes_its_rounded_numbers_again(windows: Windows, tmp_path: Path) -> None:
    vocabulary = review_vocabulary()
    size = {"n_layers": 4, "n_heads": 4, "d_model": 256, "d_ff": 1024}
    plan = recipe("classification", size).with_vocabulary(len(vocabulary))
    task = get_task(plan.task)
    network = task.build_model(plan.model, LABELS)
    device = torch.device("cpu")
    pipeline = task.pipeline(network, vocabulary, plan, LABELS, device)
    trace = jumok.trace(pipeline, "이 영화 정말 재미있어요 " * 6)
    page = tmp_path / "page.html"
    page.write_bytes(render_page(trace))
    assert page.stat().st_size <= 800_000
    with windows() as window:
        window.open(page.as_uri(), "v=calculation&lang=en")
        window.page.wait_for_function(
            "() => [...document.querySelectorAll('[data-role=step]')].every((step) =>"
            " /[✓✗·]/.test(step.textContent))"
        )
        texts = window.page.locator("[data-role=step]").all_inner_texts()
        assert sum("✓" in text for text in texts) >= 5
        assert not [text for text in texts if "✗" in text]
        notes = window.page.locator("[data-role=notes]").inner_text()
        assert "vectors and steps rounded to 8 bits" in notes
        for view in ("flow", "explanation", "neuron"):
            window.show(f"v={view}&lang=en")
            window.page.wait_for_selector(f"[data-role=stage][data-view={view}]")
            assert window.page.locator("[data-role=stage] [role=alert]").count() == 0


def test_an_svg_is_a_picture_and_nothing_else(windows: Windows, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(render_page(random_trace(pieces=HOSTILE[:12], title=HOSTILE[0])))
    with windows() as window:
        for view in ("lines", "matrix", "neuron"):
            window.open(page.as_uri(), f"v={view}&q=2&k=3")
            window.page.reload()
            window.page.wait_for_selector(f"[data-role=stage][data-view={view}]")
            root = ElementTree.parse(window.export("svg", tmp_path)).getroot()
            names = {element.tag.rpartition("}")[2] for element in root.iter()}
            assert not names & {"script", "foreignObject", "a", "iframe"}, view
            for element in root.iter():
                if element.tag.endswith("}style"):
                    assert re.fullmatch(FONT_RULE, element.text or ""), view
                for name, value in element.attrib.items():
                    assert not name.lower().startswith("on"), view
                    if name.rpartition("}")[2] == "href":
                        assert value.startswith("data:image/png"), view


@pytest.mark.parametrize("kept", [False, True])
def test_an_svg_brings_the_hangul_that_it_shows(
    windows: Windows, addresses: dict[str, str], tmp_path: Path, kept: bool
) -> None:
    with windows() as window:
        window.open(addresses["encoder_decoder"], STATE)
        if kept:
            page = window.export("html", tmp_path)
            window.page.goto("about:blank")
            window.open(page.as_uri(), STATE)
            window.wait_until_equal(
                lambda: window.inspector_value("weight") is not None, True, "a weight"
            )
        svg = window.export("svg", tmp_path).read_text("utf-8")
    found = re.search(FONT_RULE, svg)
    assert found
    with TTFont(io.BytesIO(base64.b64decode(found[1]))) as font:
        letters = set(font.getBestCmap())
    shown = {ord(letter) for letter in re.sub(r"<[^>]*>", "", svg) if "가" <= letter <= "힣"}
    assert shown
    assert shown <= letters
    if not kept:  # a server makes a font of these letters alone
        assert len(letters) < len(shown) + 20


def test_the_pdf_of_lines_has_the_pinned_heads(
    windows: Windows, addresses: dict[str, str], tmp_path: Path
) -> None:
    with windows() as window:
        window.open(addresses["encoder_decoder"], "v=lines&b=cross&lines.mass=0.5")
        with window.page.expect_request("**/api/figure") as request:
            window.export("pdf", tmp_path)
        assert request.value.post_data_json["figure"] == "lines"
        window.show("v=lines&b=cross&lines.heads=pinned&pin=cross.0.1~cross.1.2")
        window.page.wait_for_timeout(300)
        with window.page.expect_request("**/api/figure") as request:
            pdf = window.export("pdf", tmp_path).read_bytes()
    expected = {"pins": [["cross", 0, 1], ["cross", 1, 2]], "block": "cross"}
    assert expected.items() <= request.value.post_data_json.items()
    assert pdf.startswith(b"%PDF-")


def test_a_table_holds_the_weights(
    windows: Windows, addresses: dict[str, str], traces: dict[str, Path], tmp_path: Path
) -> None:
    with windows() as window:
        window.open(addresses["encoder_decoder"], STATE)
        text = window.export("csv", tmp_path).read_text("utf-8-sig")
    (_, *keys), *rows = csv.reader(io.StringIO(text))
    table = np.array([[float(cell) for cell in cells] for _, *cells in rows])
    weights = Trace.open(traces["encoder_decoder"]).weights("cross", 1)[2]
    assert len(keys) == weights.shape[1]
    assert np.abs(table - weights).max() < 1e-6


def test_no_cell_of_a_table_is_a_formula(windows: Windows, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    pieces = ["=cmd|'/C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1"]
    page.write_bytes(render_page(random_trace(pieces=pieces, title="../../etc/passwd")))
    with windows() as window:
        path = window.open(page.as_uri(), "v=matrix").export("csv", tmp_path)
        assert path.name == "etc-passwd-matrix.csv"
        for row in csv.reader(io.StringIO(path.read_text("utf-8-sig"))):
            assert not [cell for cell in row[:1] if cell[:1] in tuple("=+-@\t")]


def test_two_cells_of_a_notebook_are_drawn_side_by_side(windows: Windows, tmp_path: Path) -> None:
    """As nbconvert writes them: the HTML of both cells in one document, opened from disk."""
    shown = [random_trace(title=title, seed=seed).show("v=matrix&q=1&k=2") for seed, title in
             enumerate(("first", "second"))]  # fmt: skip
    bundles = [cell._repr_mimebundle_()[0] for cell in shown]  # type: ignore[attr-defined]
    notebook = tmp_path / "notebook.html"
    cells = "".join(f"<div>{bundle['text/html']}</div>" for bundle in bundles)
    notebook.write_text(f"<!doctype html><meta charset='utf-8'>{cells}", encoding="utf-8")
    with windows(width=1400, height=1400) as window:
        window.page.goto(notebook.as_uri())
        frames = window.page.frames[1:]
        assert len(frames) == 2
        for frame, title in zip(frames, ("first", "second"), strict=True):
            frame.wait_for_selector("[data-role=inspector] [data-name=weight]")
            assert frame.locator("[data-role=header] h1").inner_text() == title
            assert frame.evaluate("self.origin") == "null"
            colours = """() => {
                const { width, height } = document.querySelector("[data-role=cells]");
                const g = document.querySelector("[data-role=cells]").getContext("2d");
                const shown = g.getImageData(0, 0, width, height).data;
                return new Set(new Uint32Array(shown.buffer)).size;
            }"""
            assert frame.evaluate(colours) > 10
        assert window.foreign_requests(notebook.as_uri(), "about:srcdoc") == []
    for bundle in bundles:
        assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG")


def test_a_frame_cannot_reach_its_notebook(windows: Windows, tmp_path: Path) -> None:
    page = render_page(random_trace(pieces=HOSTILE)).decode()
    notebook = tmp_path / "notebook.html"
    notebook.write_text(
        '<!doctype html><meta charset="utf-8"><p id="secret">secret</p>'
        '<iframe sandbox="allow-scripts allow-downloads" width="1000" height="600" '
        f'srcdoc="{escape(page)}"></iframe>',
        encoding="utf-8",
        errors="replace",
    )
    with windows() as window:
        window.page.goto(notebook.as_uri())
        frame = window.page.frames[1]
        frame.wait_for_selector("[data-role=stage]")
        reach = "() => { try { return parent.document.title } catch (error) { return error.name } }"
        assert frame.evaluate(reach) == "SecurityError"
        assert window.run("window.pwned") is None
