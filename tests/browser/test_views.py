"""The numbers of each view, recomputed with NumPy from its trace."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from jumok.interpret.trace import Trace
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows
from tests.interpret.hf_trace.test_trace import IDS, model_of
from tests.interpret.random_models import loaded_of, texts_of

POSITIONS = (
    "sinusoidal",
    "sinusoidal_halves",
    "learned",
    "rotary",
    "sinusoidal_rotary",
    "relative",
    "none",
)


def traced(folder: Path, kind: str, positions: str = "sinusoidal", **trace_options: object) -> Path:
    """The trace of a loud random model that reads two texts."""
    from jumok.interpret.tracing import trace

    random_trace = trace(loaded_of(kind, positions), texts_of(kind), **trace_options)  # type: ignore[arg-type]
    return random_trace.save(folder / f"{kind}-{positions}.safetensors")


def close(table: list[list[str]], name: str, expected: np.ndarray, at: float = 1e-5) -> None:  # type: ignore[type-arg]
    """A named column holds these numbers."""
    column = table[0].index(name)
    found = np.array([float(row[column]) for row in table[1:]])
    assert np.abs(found - expected).max() <= at * max(1, np.abs(expected).max()), name


def check_neuron(window: Window, trace: Trace, folder: Path, block: str, layer: int) -> None:
    """The neuron view of one query, number by number."""
    head, query = 1, min(2, len(trace.info.tokens(trace.info.block(block).queries)) - 1)
    window.show(f"v=neuron&b={block}&L={layer}&H={head}&q={query}&k=0")
    window.page.wait_for_selector("[data-role=stage][data-view=neuron]")
    window.wait_until_equal(
        lambda: window.inspector_value("weight") is not None, True, "the query is locked"
    )
    table = window.table(folder)
    described = trace.info.block(block)
    assert [int(row[0]) for row in table[1:]] == [query] * len(table[1:])
    q = trace.q(block, layer)[head, query]
    k = trace.k(block, layer)[head * described.key_heads // described.heads]
    dots = (k @ q).astype(np.float64)
    allowed = trace.mask(block)[query]
    bias = trace.bias(block, layer)
    close(table, "dot", dots)
    close(table, "scaled", dots * described.scale)
    close(table, "bias", np.zeros(len(k)) if bias is None else bias[head, query])
    close(table, "allowed", allowed.astype(float))
    close(table, "score", np.where(allowed, trace.scores(block, layer)[head, query], 0)
          + np.where(allowed, 0, [float(row[8]) for row in table[1:]]))  # fmt: skip
    close(table, "weight", trace.weights(block, layer)[head, query])
    close(table, "recomputed", trace.weights(block, layer)[head, query])


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        ("classifier", "sinusoidal"),
        ("language model", "rotary"),
        ("sequences", "relative"),
        ("encoder-decoder classifier", "learned"),
    ],
)
def test_a_neuron_is_computed_as_numpy_does(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str, positions: str
) -> None:
    path = traced(tmp_path, kind, positions)
    trace = Trace.open(path)
    with windows() as window:
        window.open(serve(path))
        for block in trace.info.blocks:
            for layer in range(block.layers):
                check_neuron(window, trace, tmp_path, block.name, layer)


def test_hovering_a_query_shows_its_keys_and_lines(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    """All queries are in a column; the lines of one lead to the keys it attends to."""
    path = traced(tmp_path, "language model", "rotary")
    trace = Trace.open(path)
    weights = trace.weights("decoder", 0)[0]  # (T, S)
    with windows(width=1440, height=900) as window:
        window.open(serve(path), "v=neuron&b=decoder&L=0&H=0&q=2&lang=en")
        page = window.page
        keys = page.locator(".neuron-keys")
        keys.wait_for()
        queries = keys.locator("svg > g").first.locator("text")
        assert queries.count() == len(trace.info.tokens("target"))
        row = 22  # pixels

        def point(x: float, query: int) -> str:
            """Point at a row, and return which query the view shows."""
            corner = keys.bounding_box()
            assert corner is not None
            page.mouse.move(corner["x"] + x, corner["y"] + (query + 0.3) * row)
            page.mouse.move(corner["x"] + x, corner["y"] + (query + 0.5) * row)
            return " ".join(page.locator(".neuron .choice").first.inner_text().split()[:2])

        for query in (5, 1):
            window.wait_until_equal(
                partial(point, 20, query), f"query {query}", "the hovered query"
            )
            options = page.locator("[role=option]").evaluate_all(
                "all => all.map(each => each.getAttribute('aria-label').split(' ').at(-1))"
            )
            assert [float(text) for text in options] == pytest.approx(weights[query], abs=6e-5)
            lines = page.locator("[data-role=neuron-lines] path").evaluate_all(
                "all => all.map(each => each.getAttribute('d').split('M').length - 1)"
            )
            assert sum(lines) == int((weights[query] >= 0.005).sum())
        assert point(500, 0) == "query 1"  # the pointer left the column towards the keys
        window.wait_until_equal(partial(point, 20, 3), "query 3", "the hovered query")
        page.mouse.down()
        page.mouse.up()
        window.wait_until_equal(lambda: "q=3" in page.url, True, "a click locks the query")


def test_scores_under_a_cap_are_computed_again(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    from jumok.interpret.hf_trace.trace import trace_transformers

    path = trace_transformers(model_of("gemma2"), IDS).save(tmp_path / "capped.safetensors")
    with windows() as window:
        window.open(serve(path), "v=neuron&L=1&H=1&q=2&k=1&lang=en")
        window.page.locator("dl.neuron-right").wait_for()
        assert ", tanh 3" in window.page.locator(".neuron-pair").inner_text()
        assert "3·tanh( q·k" in window.page.locator(".formula").inner_text()
        window.show("v=calculation&L=1&H=1&lang=en")
        steps = window.page.locator("[data-role=step]")
        steps.first.wait_for()

        def marks() -> str:
            return "".join(steps.all_inner_texts())

        window.wait_until_equal(lambda: "…" in marks(), False, "all steps are computed")
        assert "✗" not in marks()
        assert "✓" in steps.filter(has_text="softmax").inner_text()
        assert "✓" in steps.filter(has_text="×").inner_text()  # Gemma 2 has a scale of its own


def test_every_slip_of_the_fault_lab_does_damage(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    with windows() as window:
        window.open(serve(traced(tmp_path, "sequences")), "v=calculation&b=encoder")
        faults = window.page.locator("[data-role=bug]")
        faults.first.wait_for()
        assert faults.count() >= 4
        damage = window.page.locator("[data-role=bug-effect]")
        inspector_value = set()
        for number in range(faults.count()):
            faults.nth(number).click()
            window.wait_until_equal(
                lambda: bool(damage.count() and damage.inner_text().strip()), True, "the damage"
            )
            inspector_value.add(damage.inner_text())
            faults.nth(number).click()
        assert len(inspector_value) == faults.count()


def test_an_alignment_is_moved_by_one_where_rows_are_predictions(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    path = traced(tmp_path, "sequences", target=["3 1 5", "2 7"])
    trace = Trace.open(path)
    weights = trace.weights("cross", 1)[1]
    pieces = trace.info.tokens("target").pieces
    with windows() as window:
        window.open(serve(path), "v=alignment&b=cross&L=1&H=1&alignment.over=head&lang=en")
        rows = window.page.get_by_label("row =")
        found = {}
        for choice in ("read", "predicted"):
            rows.select_option(choice)
            table = window.table(tmp_path)
            found[choice] = np.array([[float(cell) for cell in row[1:]] for row in table[1:-1]])
        real = sum(trace.info.tokens("target").real)
        read = found["read"]
        assert np.abs(read[:real] - weights[:real, : read.shape[1]]).max() < 1e-6
        moved = found["predicted"]
        assert np.abs(moved - read[: len(moved)]).max() < 1e-6
        assert len(moved) < len(pieces)


def test_what_words_add_is_what_deleting_them_takes(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    path = traced(tmp_path, "classifier")
    answers = Trace.open(path).info.classification
    assert answers is not None
    explained = answers.sequences[0]
    best = int(np.argmax(explained.probabilities))
    with windows() as window:
        window.open(serve(path), "v=explanation")
        arguments = window.page.locator(".explanation-word")
        arguments.first.wait_for()
        assert arguments.count() == len(explained.words)
        table = window.table(tmp_path)
        for word in explained.words:
            takes = explained.probabilities[best] - word.without[best]
            assert any(
                abs(float(cell) - takes) < 1e-4
                for row in table
                if word.text in row
                for cell in row
                if cell.lstrip("+-").replace(".", "", 1).replace("e-", "", 1).isdigit()
            ), word.text
        arguments.first.click()
        assert arguments.first.get_attribute("aria-pressed") == "true"


def test_words_that_were_not_read_are_struck_through(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    """A text longer than the model's max_length: no contributions of unread words, and a note."""
    from jumok.interpret.tracing import trace

    text = "이 영화 정말 재미있어요 ㅋㅋ " * 3 + "배우 연기가 너무 아쉽고 지루했지만"
    path = trace(loaded_of("classifier"), text).save(tmp_path / "long.safetensors")
    info = Trace.open(path).info
    assert info.classification is not None
    n_truncated = info.tokens("source").truncated
    assert n_truncated > 0
    with windows() as window:
        window.open(serve(path), "v=explanation&lang=ko")
        words = window.page.locator(".explanation-word")
        words.first.wait_for()
        assert words.count() == len(info.classification.sequences[0].words) < len(text.split())
        struck = window.page.locator(".explanation-text del").all_inner_texts()
        assert "지루했지만" in "".join(struck)
        assert f"조각 {n_truncated}개를 읽지 않았습니다" in window.page.inner_text(".explanation")
        window.show("v=lines&lang=ko")
        note = window.page.locator("[data-role=notes]")
        assert f"조각 {n_truncated}개를 읽지 않음" in note.inner_text()


def test_a_beam_is_played_back_step_by_step(windows: Windows, serve: Serve, tmp_path: Path) -> None:
    path = traced(tmp_path, "sequences", decode={"beam": 3})
    decoding = Trace.open(path).info.decoding
    assert decoding is not None
    with windows() as window:
        window.open(serve(path), "v=generation&lang=en")
        slider = window.page.locator("[data-role=stage] input[type=range]")
        slider.wait_for()
        assert slider.get_attribute("max") == str(len(decoding.steps))
        stage = window.page.locator("[data-role=stage]")
        for number, step in enumerate(decoding.steps):
            window.show(f"v=generation&lang=en&t={number}")
            window.wait_until_equal(slider.input_value, str(number + 1), "the step")
            shown = stage.inner_text()
            if step.chosen is not None:
                log = f"{step.chosen.log_probability:.3f}".replace("-", "\u2212")
                assert f"log p {log}" in shown, f"step {number}"
        window.show("v=generation&lang=en")
        window.page.locator("body").press("Space")
        window.wait_until_equal(slider.input_value, "2", "one step on")


def test_masks_are_those_of_the_trace(windows: Windows, serve: Serve, tmp_path: Path) -> None:
    path = traced(tmp_path, "language model", decode={"max_length": 2})
    with windows() as window:
        window.open(serve(path), "v=masks&b=decoder&lang=en")
        verdict_text = window.page.locator("[data-role=cell-details]")
        verdict_text.wait_for()
        window.page.locator("[data-role=visible]").check()
        before = verdict_text.inner_text()
        window.page.locator("[data-role=visible]").uncheck()
        window.wait_until_equal(
            lambda: verdict_text.inner_text() != before, True, "the other convention"
        )
        window.page.locator("[data-role=sequence]").nth(1).click()
        window.wait_until_equal(
            lambda: (
                window.page.locator("[data-role=sequence]").nth(1).get_attribute("aria-pressed")
            ),
            "true",
            "the other text",
        )


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_ladder_of_positions_is_climbed(
    windows: Windows, serve: Serve, tmp_path: Path, positions: str
) -> None:
    with windows() as window:
        window.open(serve(traced(tmp_path, "classifier", positions)), "v=positions")
        rungs = window.page.locator("[data-role=encoding]")
        rungs.first.wait_for()
        for number in range(rungs.count()):
            rungs.nth(number).click()
            window.page.wait_for_timeout(100)
            for slider in window.page.locator("[data-role^=slider-]").all():
                slider.focus()
                slider.press("ArrowRight")
            verdict = window.page.locator("[data-role=verdict]")
            assert not verdict.count() or "✓" in verdict.inner_text()
            assert window.page.locator("[data-role=stage] [role=alert]").count() == 0


def test_a_short_window_says_why_a_view_is_empty(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    """A view without data has a sentence, also where descriptions are left out for their height."""
    with windows(width=720, height=450) as window:
        window.open(serve(traced(tmp_path, "sequences")), "v=explanation&lang=en")
        window.page.get_by_text("Only classifiers have an explanation.").wait_for()
