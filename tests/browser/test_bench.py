"""The bench of before and after: A, B and their difference, the effect of each head, all heads."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.interpret.head_patterns import PATTERNS, score_heads
from jumok.interpret.interventions import patch_heads, patch_hidden, sweep_heads
from jumok.interpret.trace import Trace
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import TraceRequest
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows
from tests.browser.test_views import traced
from tests.viewer.page_server import Server, served

TEXT, EDITED = "이 영화 정말 최고예요", "이 영화 정말 지루해요"
REORDERED = "정말 이 영화 최고예요"  # as many tokens as TEXT


@pytest.fixture(scope="module")
def live(review_run: Path) -> Iterator[Server]:
    model = LiveModel(jumok.load(review_run), run=review_run)
    with open_trace_store() as store:
        first = store.add(model.trace(TraceRequest((TEXT,))))
        with served(ServerContent(store, model.card, first, model)) as server:
            yield server


def ask(window: Window, text: str) -> None:
    field = window.page.locator("[data-role=live] textarea").first
    field.fill(text)
    field.press("Enter")


def side(window: Window, name: str) -> str:
    return window.page.locator(f"[data-role=side-{name}]").inner_text()


def answers(window: Window) -> list[list[float]]:
    rows = window.page.locator("[data-role=answers] tbody tr").all()
    return [
        [float(cell.inner_text().replace("−", "-")) for cell in row.locator("td").all()]
        for row in rows
    ]


def test_an_edited_word_beside_the_run_before(
    windows: Windows, live: Server, review_run: Path, tmp_path: Path
) -> None:
    model = jumok.load(review_run)
    before, after = jumok.trace(model, TEXT), jumok.trace(model, EDITED)
    with windows() as window:
        window.open(str(live.address), "v=compare&lang=en&L=0&H=1")
        assert "There is no run to compare with yet" in window.page.inner_text("[data-role=stage]")
        ask(window, EDITED)
        window.page.locator("[data-role=side-a]").wait_for()
        assert TEXT in side(window, "a")
        assert EDITED in side(window, "b")
        p, q = (
            each.info.classification.sequences[0].probabilities
            for each in (before, after)
            if each.info.classification
        )
        expected = [[a, b, b - a] for a, b in zip(p, q, strict=True)]
        np.testing.assert_allclose(answers(window), expected, atol=1e-4)
        rows = window.table(tmp_path)[1:]
        of_b, of_a = after.weights("encoder", 0)[1], before.weights("encoder", 0)[1]
        shared = [i for i, row in enumerate(rows) if row[4]]
        for row in rows:
            i, j = int(row[0]), int(row[1])
            assert float(row[5]) == pytest.approx(of_b[i, j], abs=1e-6)
            if row[4]:
                assert float(row[6]) == pytest.approx(float(row[5]) - float(row[4]), abs=1e-6)
        i = int(rows[shared[0]][0])  # the first tokens are those of both texts
        assert float(rows[shared[0]][4]) == pytest.approx(
            of_a[i, int(rows[shared[0]][1])], abs=1e-6
        )
        panels = window.page.locator(".compare-panel svg")
        assert panels.count() == 3
        panels.nth(2).hover()
        readout = window.page.locator("[data-role=readout]")
        window.wait_until_equal(lambda: "B − A" in readout.inner_text(), True, "both weights")
        assert not window.violations()


def test_a_muted_head_and_a_run_that_is_kept(windows: Windows, live: Server) -> None:
    with windows() as window:
        window.open(str(live.address), "v=compare&lang=en&L=0&H=1")
        window.page.locator("[data-role=keep]").click()
        window.page.locator("[data-role=side-a]").wait_for()
        window.page.locator("[data-role=mute-focused]").click()
        window.wait_until_equal(lambda: "muted encoder.0.1" in side(window, "b"), True, "muted")
        assert "muted" not in side(window, "a")
        changed = answers(window)
        ask(window, EDITED)
        window.wait_until_equal(lambda: EDITED in side(window, "b"), True, "the edited text")
        assert TEXT in side(window, "a")  # kept
        assert answers(window)[0][0] == changed[0][0]


def test_another_checkpoint_of_the_run(windows: Windows, live: Server) -> None:
    with windows() as window:
        window.open(str(live.address), "v=compare&lang=en")
        choice = window.page.locator("[data-role=checkpoint]")
        name = choice.locator("option").nth(1).get_attribute("value")
        assert name
        choice.select_option(name)
        window.page.locator("[data-role=side-b]").wait_for()
        window.wait_until_equal(lambda: name in side(window, "b"), True, "the checkpoint")
        assert name not in side(window, "a")
        window.wait_until_equal(
            lambda: f"cp={name}" in window.run("location.hash"), True, "the address"
        )
        window.page.go_back()
        window.wait_until_equal(lambda: choice.input_value(), "", "the final weights")


def test_the_sweep_is_that_of_python(
    windows: Windows, live: Server, review_run: Path, tmp_path: Path
) -> None:
    model = jumok.load(review_run)
    with windows() as window:
        window.open(str(live.address), "v=heads&lang=en")
        window.page.locator("[data-role=patch][disabled]").wait_for()  # there is no other run
        window.page.locator("[data-role=sweep]").click()
        window.page.locator("[data-role=effects-summary]").wait_for()
        header, *rows = window.table(tmp_path)
        effect = header.index("effect")
        expected = sweep_heads(model, TEXT)
        assert [float(row[effect]) for row in rows] == pytest.approx(
            [row["change"] for row in expected.rows()], abs=1e-6
        )
        assert expected.answer in window.page.inner_text("[data-role=effects-summary]")
        summary = window.page.inner_text("[data-role=effects-summary]")
        saved = window.export("html", tmp_path)
        svg = window.export("svg", tmp_path).read_text()
        assert svg.count("<title>encoder L0") == 2
        window.page.locator(".effects [data-head='encoder.0.1']").click()
        window.wait_until_equal(lambda: "H=1" in window.run("location.hash"), True, "the head")
        assert not window.violations()
        ask(window, REORDERED)
        window.wait_until_equal(
            lambda: window.page.locator("[data-role=effects-summary]").count(), 0, "a new text"
        )
        window.page.locator("[data-role=patch]:not([disabled])").click()
        window.page.locator("[data-role=effects-summary]").wait_for()
        found = [float(row[effect]) for row in window.table(tmp_path)[1:]]
        patched = patch_heads(model, REORDERED, TEXT)
        assert found == pytest.approx([row["change"] for row in patched.rows()], abs=1e-6)
    with windows() as offline:  # the measured effects are in the saved page
        offline.open(saved.as_uri())
        offline.page.locator("[data-role=effects-summary]").wait_for()
        assert offline.page.inner_text("[data-role=effects-summary]") == summary
        assert offline.page.locator("[data-role=sweep]").count() == 0
        assert [float(row[effect]) for row in offline.table(tmp_path)[1:]] == pytest.approx(
            [row["change"] for row in expected.rows()], abs=1e-6
        )
        again = offline.export("html", tmp_path / "again")
        assert offline.foreign_requests(saved.as_uri()) == []
    assert '"effects":' in again.read_text("utf-8")


def test_hidden_states_of_another_text_by_layer_and_token(
    windows: Windows, live: Server, review_run: Path, tmp_path: Path
) -> None:
    expected = patch_hidden(jumok.load(review_run), REORDERED, TEXT)
    with windows() as window:
        window.open(str(live.address), "v=heads&lang=en")
        ask(window, REORDERED)
        window.page.locator("[data-role=patch-hidden]:not([disabled])").click()
        window.page.locator("[data-role=effects-summary]").wait_for()
        assert "one input of a layer" in window.page.inner_text("[data-role=effects-summary]")
        header, *rows = window.table(tmp_path)
        assert header == ["side", "layer", "token", "piece", "change"]
        assert [float(row[4]) for row in rows] == pytest.approx(
            [row["change"] for row in expected.rows()], abs=1e-6
        )
        tokens = jumok.trace(jumok.load(review_run), REORDERED).info.tokens("source").pieces
        shown = [row[3] for row in rows[: len(tokens)]]
        assert shown == [piece.replace("▁", "␣") for piece in tokens]
        svg = window.export("svg", tmp_path).read_text()
        assert svg.count("<title>encoder L") == len(rows)
        assert not window.violations()
        window.page.locator(".effects [data-head='source.0.2']").click()
        window.wait_until_equal(
            lambda: "q=2" in window.run("location.hash").split("&"), True, "the token"
        )


@pytest.mark.parametrize("kind", ["classifier", "sequences"])
def test_heads_are_sorted_and_searched_by_pattern(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str
) -> None:
    path = traced(tmp_path, kind)
    scores = score_heads([Trace.open(path)], sequences=[0])
    with windows() as window:
        window.open(serve(path), "v=heads&lang=en")
        window.page.locator("[data-role=head-table]").wait_for()
        header, *rows = window.table(tmp_path)
        for name in PATTERNS:
            column = header.index(name)
            assert [float(row[column]) for row in rows] == pytest.approx(
                [each.scores[name] for each in scores], abs=1e-3
            )
        window.page.locator("[data-role=sort-heads]").select_option("separator")
        body = window.page.locator("[data-role=head-table] tbody tr")
        shown = [float(text) for text in body.locator("td:nth-child(7)").all_inner_texts()]
        assert shown == sorted(shown, reverse=True)
        least = window.page.locator("[data-role=least]")
        least.evaluate(
            """(slider) => {
                slider.value = 0.5;
                slider.dispatchEvent(new Event("input", { bubbles: true }));
            }"""
        )
        expected = sum(each.scores["separator"] >= 0.5 for each in scores)
        window.wait_until_equal(body.count, expected, "heads of at least 0.5")


def test_two_heads_of_a_saved_page(windows: Windows, tmp_path: Path) -> None:
    """Without a model, heads and texts of the trace are compared."""
    trace = Trace.open(traced(tmp_path, "classifier"))
    page = trace.html(
        tmp_path / "page.html", "v=compare&lang=en&L=1&H=1&pin=encoder.0.0", full=True
    )
    with windows() as window:
        window.page.goto(page.as_uri())
        window.page.locator("[data-role=side-a]").wait_for()
        window.page.locator("[data-role=compare-with]").select_option("head")
        assert "L0 H0" in side(window, "a")
        assert "L1 H1" in side(window, "b")
        a, b = trace.weights("encoder", 0)[0], trace.weights("encoder", 1)[1]
        rows = window.table(tmp_path)[1:]
        found = np.array([float(row[6]) for row in rows]).reshape(a.shape)
        np.testing.assert_allclose(found, b - a, atol=1e-6)


def test_an_address_of_the_first_view_opens_it(windows: Windows, live: Server) -> None:
    """The default view was left out of the address, and the view of the task opened instead."""
    with windows() as window:
        window.open(str(live.address), "v=lines&lang=en")
        window.page.wait_for_selector("[data-role=stage][data-view=lines]")
        window.page.locator("[data-role=tab][data-view=matrix]").click()
        window.page.locator("[data-role=tab][data-view=lines]").click()
        window.wait_until_equal(
            lambda: "v=lines" in window.run("location.hash"), True, "the address"
        )
        address = window.run("location.href")
    with windows() as window:
        window.open(address)
        window.page.wait_for_selector("[data-role=stage][data-view=lines]")
