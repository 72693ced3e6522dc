"""The bar of input and answer, and runs in the address: Reload, Back, Forward and copies."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from jumok.interpret.trace import Trace
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows
from tests.browser.test_views import traced
from tests.viewer.page_server import Server, served

TEXT = "이 영화 정말 최고예요"


@pytest.fixture(scope="module")
def servers(review_run: Path, reading_run: Path) -> Iterator[dict[str, Server]]:
    """A classifier and a sequence model with a text, and a classifier without one."""
    from jumok.tasks.runs.load import load
    from jumok.viewer.live_model import LiveModel
    from jumok.viewer.request_schema import TraceRequest

    reviews, readings = LiveModel(load(review_run)), LiveModel(load(reading_run))
    starts = {
        "reviews": (reviews, TEXT),
        "readings": (readings, "삼 일 오"),
        "empty": (reviews, ""),
    }
    with ExitStack() as running:
        store = running.enter_context(open_trace_store())
        result = {}
        for name, (model, text) in starts.items():
            first = store.add(model.trace(TraceRequest((text,)))) if text else None
            content = ServerContent(store, model.card, first, model)
            result[name] = running.enter_context(served(content))
        yield result


def ask(window: Window, text: str) -> None:
    field = window.page.locator("[data-role=live] textarea").first
    field.fill(text)
    field.press("Enter")


def words(window: Window) -> str:
    return window.page.locator("[data-role=live] textarea").first.input_value()


def tokens(window: Window) -> str:
    return str(window.run("document.querySelector('[data-role=strip]').textContent"))


def test_text_and_mutes_are_in_the_address(windows: Windows, servers: dict[str, Server]) -> None:
    with windows() as window:
        window.open(str(servers["reviews"].address), "v=matrix&L=0&H=1&q=1&k=2&lang=en")
        window.wait_until_equal(lambda: "최고" in words(window), True, "the first text")
        ask(window, "결말이 너무 지루해요")
        window.wait_until_equal(lambda: "결말" in tokens(window), True, "the new text")
        window.page.locator("[data-role=stage]").click(position={"x": 2, "y": 2})
        window.page.keyboard.press("m")
        unmute = window.page.get_by_role("button", name="unmute 1")
        unmute.wait_for()
        window.wait_until_equal(
            lambda: "mute=encoder.0.1" in str(window.run("location.hash")), True, "the mute"
        )
        copied = str(window.run("location.href"))
        window.page.reload()
        unmute.wait_for()
        assert words(window) == "결말이 너무 지루해요"
        with windows() as other:
            other.open(copied)
            other.page.get_by_role("button", name="unmute 1").wait_for()
            assert words(other) == "결말이 너무 지루해요"
        window.page.go_back()
        window.wait_until_equal(unmute.count, 0, "before the mute")
        assert words(window) == "결말이 너무 지루해요"
        window.page.go_back()
        window.wait_until_equal(lambda: "최고" in tokens(window), True, "the first text again")
        window.wait_until_equal(lambda: words(window), TEXT, "the first text in the field")
        window.page.go_forward()
        window.wait_until_equal(lambda: "결말" in tokens(window), True, "forward again")


def test_target_and_decoding_are_in_the_address(
    windows: Windows, servers: dict[str, Server]
) -> None:
    with windows() as window:
        window.open(str(servers["readings"].address), "v=generation&lang=en")
        stage = window.page.locator("[data-role=stage]")
        window.open_settings()
        window.page.get_by_label("decoding method").select_option("sample")
        window.wait_until_equal(
            lambda: "sample = true" in str(stage.text_content()), True, "sampling"
        )
        window.page.get_by_label("temperature").fill("1.7")
        window.wait_until_equal(
            lambda: "temperature = 1.7" in str(stage.text_content()), True, "the temperature, live"
        )
        window.page.reload()
        window.wait_until_equal(
            lambda: "temperature = 1.7" in str(stage.text_content()), True, "after F5"
        )
        window.open_settings()
        assert window.page.get_by_label("decoding method").input_value() == "sample"
        target = window.page.get_by_label("target")
        target.fill("3 1 5")
        target.press("Enter")
        window.wait_until_equal(lambda: "teacher forcing" in stage.inner_text(), True, "forced")
        window.page.reload()
        window.wait_until_equal(lambda: "teacher forcing" in stage.inner_text(), True, "after F5")
        window.open_settings()
        assert target.input_value() == "3 1 5"


def test_the_answer_comes_first(windows: Windows, servers: dict[str, Server], review_run: Path,
                                tmp_path: Path) -> None:  # fmt: skip
    import jumok

    traced = jumok.trace(jumok.load(review_run), TEXT)
    classified = Trace.open(traced.save(tmp_path / "a.safetensors")).info.classification
    assert classified is not None
    best = max(range(2), key=classified.sequences[0].probabilities.__getitem__)
    with windows(width=390, height=844) as window:
        window.open(str(servers["reviews"].address), "lang=en")
        answer = window.page.locator("[data-role=answer]")
        answer.wait_for()
        shown = answer.inner_text()
        assert shown.index(classified.labels[best]) < shown.index(classified.labels[1 - best])
        assert f"{classified.sequences[0].probabilities[best]:.4f}" in shown
        box = answer.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] < 400
        # a classifier opens on the explanation
        window.wait_until_equal(
            lambda: window.run("document.querySelector('[data-role=stage]').dataset.view"),
            "explanation",
            "the view of the task",
        )


def test_a_masked_language_model_answers_with_what_fills_the_mask(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    path = traced(tmp_path, "masked")
    info = Trace.open(path).info
    assert info.lens is not None
    pieces = info.tokens("source").pieces
    token = pieces.index("[MASK]")
    best = info.lens[-1][token][0]
    with windows(width=390, height=844) as window:
        window.open(serve(path), "v=lines&lang=en")
        first = window.page.locator("[data-role=answer] .chosen").first
        first.wait_for()
        assert first.inner_text().endswith(f"{best.probability:.2f}")
        first.click()
        window.page.wait_for_selector("[data-role=stage][data-view=flow]")
        window.wait_until_equal(lambda: f"q={token}" in window.run("location.hash"), True, "token")


def test_examples_are_clicked(windows: Windows, servers: dict[str, Server]) -> None:
    with windows() as window:
        window.page.goto(str(servers["empty"].address))
        examples = window.page.locator("[data-role=examples] button")
        examples.first.wait_for()
        assert examples.count() == 3
        window.page.wait_for_selector("[data-role=answer]")  # of the first one
        assert words(window) == examples.first.get_attribute("title")
        assert "x=" not in window.run("location.hash")  # not a run of the user
        text = examples.nth(1).get_attribute("title") or ""
        examples.nth(1).click()
        window.wait_until_equal(lambda: "x=" in window.run("location.hash"), True, "the run")
        assert words(window) == text
        window.page.locator("[data-role=live] textarea").first.focus()
        window.page.keyboard.press("Escape")
        assert window.run("document.activeElement.tagName") != "TEXTAREA"


def test_all_panels_show_the_same_head(windows: Windows, servers: dict[str, Server]) -> None:
    with windows(width=1440) as window:
        window.open(str(servers["readings"].address), "lang=en")
        place = window.page.locator(".inspector-place")
        strip = window.page.locator("[data-role=strip]")
        for view in ("alignment", "generation"):
            window.show(f"v={view}&b=encoder&lang=en")
            window.wait_until_equal(lambda: "cross" in place.inner_text().lower(), True, view)
            assert "queries" in strip.inner_text()  # two sides
        window.page.get_by_label("row").select_option("decoder")
        window.wait_until_equal(lambda: "decoder" in place.inner_text().lower(), True, "the row")


def test_pinned_heads_act_at_once(windows: Windows, addresses: dict[str, str]) -> None:
    with windows() as window:
        window.open(addresses["encoder"], "v=lines&lang=en")
        chosen = window.page.locator(".lines select").first
        chosen.wait_for()
        window.page.keyboard.press("p")
        window.wait_until_equal(chosen.input_value, "pinned", "the pinned head")
        window.page.keyboard.press("p")
        window.wait_until_equal(chosen.input_value, "focus", "no pinned head")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (720, 450), (768, 1024), (1024, 768)])
def test_an_encoder_decoder_fits_small_windows(
    windows: Windows, servers: dict[str, Server], width: int, height: int
) -> None:
    with windows(width=width, height=height) as window:
        for view in ("alignment", "generation", "neuron"):
            window.open(str(servers["readings"].address), f"v={view}&q=1&k=1")
            window.page.locator("[data-role=answer]").wait_for()
            assert window.run("document.documentElement.scrollWidth <= innerWidth"), view
            button = window.page.locator("[data-role=live] button[type=submit]").bounding_box()
            assert button is not None
            assert button["x"] + button["width"] <= width, view
            stage = window.page.locator("[data-role=stage]").bounding_box()
            assert stage is not None
            assert stage["width"] > 0.9 * width, view
            assert stage["height"] > 0.25 * height, view
