"""Pieces, scores and characters are shown as they are: bytes as letters, ranks as ranked."""

import re
from pathlib import Path

import pytest
from matplotlib.text import Text

import jumok
from jumok.decoding.beam import length_norm
from jumok.decoding.config import DecodingConfig
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import TraceRequest
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests import hf_folders
from tests.browser.conftest import Serve, Windows
from tests.browser.test_page import VIEWS
from tests.browser.test_pictures import RECORD_TEXTS
from tests.browser.test_views import traced
from tests.viewer.page_server import served
from tests.viewer.random_traces import random_trace

BYTE_LETTERS = re.compile("[\u0100-\u0143]")  # GPT-2's letters for bytes that are not printable
# These and its letters for the bytes from 0xA1 on, without the signs ± ² · ¼ ½ ¾ × ÷ of the page.
LETTERS = "[\u00a1-\u00b0\u00b3-\u00b6\u00b8-\u00bb\u00bf-\u00d6\u00d8-\u00f6\u00f8-\u0143]"
# The texts and attributes of all elements, and the texts of canvases, that contain such a letter.
FIND_LETTERS = """(letters) => {
    const found = [];
    const look = (text) => new RegExp(letters).test(text ?? "") && found.push(text);
    for (const each of document.querySelectorAll("body *")) {
        if (each.closest("script, style")) continue;
        for (const { value } of each.attributes) look(value);
        for (const child of each.childNodes) if (child.nodeType === 3) look(child.data);
        for (const text of each.texts ?? []) look(text);
    }
    return found;
}"""


def test_byte_pieces_are_letters_in_candidates_and_beam_tree(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    hf_folders.gpt2(tmp_path / "model")
    model = jumok.load(tmp_path / "model")
    assert isinstance(model, Pipeline)
    path = trace(model.with_decoding(["max_length=6", "beam=3"]), "이 영화 정말 재미있어요").save(
        tmp_path / "trace.safetensors"
    )
    decoding = Trace.open(path).info.decoding
    assert decoding is not None
    pieces = [each.piece for step in decoding.steps for each in (*step.before, *step.beams)]
    assert any(map(BYTE_LETTERS.search, pieces))
    with windows() as window:
        window.open(serve(path), "v=generation&lang=en")
        window.page.locator(".generation-tree text").first.wait_for()
        for step in range(len(decoding.steps)):
            window.show(f"v=generation&lang=en&t={step}")
            window.page.get_by_text(f"{step + 1}/{len(decoding.steps)}").first.wait_for()
            shown = window.page.locator(".generation").text_content() or ""
            assert not BYTE_LETTERS.search(shown), shown
        for state, figure in (
            ("flow&q=3", "[data-role=zoom]"),
            ("flow&q=3", "[data-role=lens]"),
            ("calculation&t=0", ".calculation"),
        ):
            window.show(f"v={state}&lang=en")
            part = window.page.locator(figure)
            part.wait_for()
            assert not BYTE_LETTERS.search(part.inner_text()), figure


def test_no_letter_of_a_byte_is_anywhere(windows: Windows, tmp_path: Path) -> None:
    """Texts, tooltips, labels for screen readers, pictures and tables of all views."""
    hf_folders.gpt2(tmp_path / "model")
    model = jumok.load(tmp_path / "model")
    assert isinstance(model, Pipeline)
    live = LiveModel(model.with_decoding(["max_length=6", "beam=3"]))
    made = live.make_trace(TraceRequest(("이 영화 정말 재미있어요",)))
    assert any(map(BYTE_LETTERS.search, made.info.tokens("target").pieces))
    with (
        open_trace_store() as store,
        served(ServerContent(store, live.card, store.add(made.to_bytes()), live)) as server,
        windows(width=1440, height=900) as window,
    ):
        window.page.add_init_script(RECORD_TEXTS)
        window.open(str(server.address), "v=flow&lang=ko")
        menu = window.page.locator("[data-role=export]")
        for view in VIEWS:
            window.show(f"v={view}&lang=ko&q=3&k=1")
            window.page.locator(f"[data-role=stage][data-view={view}]").wait_for()
            window.page.wait_for_timeout(300)
            assert window.run(FIND_LETTERS, LETTERS) == [], view
            menu.locator("> button").click()
            kinds = menu.locator("[data-export]").evaluate_all(
                "all => all.map((each) => each.dataset.export)"
            )
            for kind in ("svg", "csv"):
                if kind in kinds:
                    saved = window.export(kind, tmp_path).read_text(encoding="utf-8-sig")
                    saved = re.sub(r"url\(data:[^)]*\)", "", saved)
                    assert not re.findall(LETTERS, saved), (view, kind)
            menu.locator("> button").click()
    for figure in ("attention", "lines", "neuron"):
        drawn = made.figure(figure, layer=1, head=1).findobj(Text)
        assert not [text.get_text() for text in drawn if re.search(LETTERS, text.get_text())]


def test_the_beam_tree_shows_the_score_that_ranks(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    settings = {"beam": 3, "length_penalty": 0.5}
    path = traced(tmp_path, "sequences", decode=settings)
    decoding = Trace.open(path).info.decoding
    assert decoding is not None
    config = DecodingConfig(beam=3, length_penalty=0.5)
    ended = [
        beam.score / float(length_norm(number + 1, config))
        for number, step in enumerate(decoding.steps)
        for beam in step.beams
        if beam.ended
    ]
    assert ended
    best = max(ended)
    with windows() as window:
        window.open(serve(path), "v=generation&lang=en")
        tree = window.page.locator(".generation-tree")
        tree.locator("text").first.wait_for()
        shown = (tree.text_content() or "").replace("\u2212", "-")
        assert f"= {best:.2f}" in shown
        assert "t^0.5" in window.page.locator(".generation").inner_text()


def test_a_space_piece_is_not_a_middle_dot(windows: Windows, serve: Serve, tmp_path: Path) -> None:
    path = random_trace(pieces=["▁", "·", "▁가", "나", "다"]).save(tmp_path / "t.safetensors")
    with windows() as window:
        window.open(serve(path), "v=generation&lang=en")
        tokens = window.page.locator("[data-role=strip] .token")
        assert tokens.all_text_contents()[1:4] == ["␣", "·", "␣가"]


def test_a_character_without_a_glyph_has_a_note(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    private = "\U000f1234"  # a private character: no font has it
    made = random_trace(pieces=["▁가", private, "나", "다", "라"])
    path = made.save(tmp_path / "t.safetensors")
    with windows() as window:
        window.open(serve(path), "lang=en")
        notes = window.page.locator("[data-role=notes]")
        notes.get_by_text("U+F1234").wait_for()
        assert "U+AC00" not in notes.inner_text()


def test_the_lesson_has_no_unknown_piece(review_run: Path, reading_run: Path) -> None:
    from jumok.tasks.runs.load import load
    from jumok.viewer.example_texts import unknown_pieces
    from jumok.viewer.live_model import LiveModel
    from jumok.viewer.request_schema import TraceRequest

    for run in (review_run, reading_run):
        pipeline = load(run)
        texts = LiveModel(pipeline).lesson(TraceRequest(())).texts
        assert len(texts) == 2
        assert sum(unknown_pieces(pipeline, text) for text in texts) == 0


@pytest.mark.parametrize("width", [1440, 1024])
def test_the_masked_columns_of_the_calculation_are_seen(
    windows: Windows, serve: Serve, tmp_path: Path, width: int
) -> None:
    path = random_trace(length=14, layers=1, sides=("target",)).save(tmp_path / "t.safetensors")
    with windows(width=width, height=900) as window:
        window.open(serve(path), "v=calculation&lang=en")
        names = window.page.locator("[data-role=step]")
        names.first.wait_for()
        texts = names.all_inner_texts()  # the marks before the names change while they are computed
        index = next(i for i, text in enumerate(texts) if text.endswith("mask"))
        window.show(f"v=calculation&lang=en&t={index}")
        masked = window.page.locator(".calculation-hidden").last
        masked.wait_for()
        cut = window.run(
            """() => {
                const grid = document.querySelector(".calculation-work .calculation-grid");
                const box = grid.getBoundingClientRect();
                const hidden = [...grid.querySelectorAll(".calculation-hidden")];
                const right = Math.max(...hidden.map((e) => e.getBoundingClientRect().right));
                return right - (box.left + grid.clientWidth);
            }"""
        )
        assert cut <= 1


def test_the_caption_of_a_picture_is_in_the_language_of_the_page(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    with windows() as window:
        window.open(serve(traced(tmp_path, "sequences")), "v=lines&lang=ko")
        window.page.locator(".lines").wait_for()
        saved = window.export("svg", tmp_path).read_text(encoding="utf-8")
        assert "인코더 L1 H0" in saved  # of the last layer
