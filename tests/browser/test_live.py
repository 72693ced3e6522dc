"""The page of a model: editing the text and muting heads, without effect on other windows."""

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import Window
from tests.browser.conftest import Windows
from tests.viewer.page_server import Server, served

TEXT = "이 영화 정말 최고예요"


@pytest.fixture(scope="module")
def live(review_run: Path) -> Iterator[Server]:
    from jumok.tasks.runs.load import load
    from jumok.viewer.live_model import LiveModel
    from jumok.viewer.request_schema import TraceRequest

    model = LiveModel(load(review_run))
    with open_trace_store() as store:
        first = store.add(model.trace(TraceRequest((TEXT,))))
        with served(ServerContent(store, model.card, first, model)) as server:
            yield server


def ask(window: Window, text: str) -> None:
    field = window.page.locator("[data-role=live] textarea").first
    field.fill(text)
    field.press("Enter")


def strip(window: Window) -> str:
    return str(window.run("document.querySelector('[data-role=strip]').textContent"))


def test_an_edited_text_is_traced_again(windows: Windows, live: Server) -> None:
    with windows() as window:
        window.open(str(live.address), "v=matrix&L=0&H=1&q=1&k=2")
        window.wait_until_equal(
            lambda: window.inspector_value("weight") is not None, True, "a weight"
        )
        before = window.inspector_value("weight")
        ask(window, "결말이 너무 지루해요")
        window.wait_until_equal(lambda: "결말" in strip(window), True, "the new text")
        window.wait_until_equal(
            lambda: window.inspector_value("weight") in (None, before), False, "weights"
        )
        assert "최고" not in strip(window)
        assert window.foreign_requests(live.address.origin) == []


def test_a_muted_head_attends_to_nothing_until_it_is_back(windows: Windows, live: Server) -> None:
    with windows() as window:
        window.open(str(live.address), "v=matrix&L=0&H=1&q=1&k=2")
        window.wait_until_equal(lambda: (window.number("weight") or 0) > 0, True, "a weight")
        before = window.number("weight")
        window.page.locator("[data-role=stage]").click(position={"x": 2, "y": 2})
        window.page.keyboard.press("m")
        window.wait_until_equal(lambda: window.number("weight"), 0.0, "the muted head")
        with windows() as other:  # who looks at the same model sees it whole
            other.open(str(live.address), "v=matrix&L=0&H=1&q=1&k=2")
            other.wait_until_equal(lambda: other.number("weight"), before, "the head elsewhere")
        window.page.keyboard.press("m")
        window.wait_until_equal(lambda: window.number("weight"), before, "the head is back")


def test_a_word_is_left_out_and_a_head_muted_from_the_explanation(
    windows: Windows, live: Server, tmp_path: Path
) -> None:
    with windows() as window:
        window.open(str(live.address), "v=explanation&lang=en&L=0&H=1")
        arguments = window.page.locator(".explanation-word")
        arguments.first.wait_for()
        assert arguments.count() == 4
        (_, (_, *_), *rows) = window.table(tmp_path)
        foretold = next([float(p) for p in row[1:3]] for row in rows if row[0] == "영화")
        arguments.nth(1).click()
        window.page.get_by_role("button", name="run again without this word").click()
        window.wait_until_equal(arguments.count, 3, "a word less")
        assert "영화" not in strip(window)
        assert window.page.get_by_label("input text").input_value() == "이 정말 최고예요"
        (_, (_, *now), *_) = window.table(tmp_path)
        assert [float(p) for p in now[:2]] == pytest.approx(foretold, abs=1e-6)
        window.page.locator("body").press("m")
        unmute = window.page.get_by_role("button", name="unmute 1")
        unmute.wait_for()
        window.show("v=matrix&lang=en&L=0&H=1&q=1&k=2")
        window.wait_until_equal(lambda: window.number("weight"), 0.0, "the muted head")
        unmute.click()
        window.wait_until_equal(lambda: (window.number("weight") or 0) > 0, True, "it is back")
        assert "영화" not in strip(window)  # it is the text of the page that is read again


def test_a_head_is_muted_from_the_map(windows: Windows, live: Server) -> None:
    with windows() as window:
        window.open(str(live.address), "v=matrix&lang=en&q=1&k=2")
        window.wait_until_equal(lambda: (window.number("weight") or 0) > 0, True, "a weight")
        grid = window.page.locator("[data-role=map] [role=grid]").first
        grid.focus()
        grid.press("ArrowRight")
        grid.press("m")
        window.wait_until_equal(lambda: window.number("weight"), 0.0, "the muted head")
        assert "H1" in window.page.locator(".inspector-place").inner_text()
        assert "muted" in window.page.locator("[data-role=notes]").inner_text()


def test_an_error_is_shown_and_the_page_keeps_working(windows: Windows, live: Server) -> None:
    def expected(message: str) -> bool:
        return "400 (Bad Request)" in message

    with windows(allowed=expected) as window:
        window.open(str(live.address))
        ask(window, "a\0b")
        window.page.wait_for_selector("[role=alert]")
        alert = window.page.locator("[role=alert]").first.inner_text()
        assert "NUL" in alert
        assert "없어야" in alert  # in the language of the page
        ask(window, "배우들이 좋았어요")
        window.wait_until_equal(lambda: "배우" in strip(window), True, "the next text")


def test_a_page_without_its_token_shows_an_error(windows: Windows, live: Server) -> None:
    def expected(message: str) -> bool:
        return "401 (Unauthorized)" in message

    with windows(allowed=expected) as window:
        window.page.goto(live.address.origin)
        window.page.wait_for_selector("[role=alert]")
        alert = window.page.locator("[role=alert]").first.inner_text()
        assert "토큰이 맞아야 합니다" in alert  # in the language of the page


def test_a_page_from_elsewhere_gets_nothing(windows: Windows, live: Server) -> None:
    """A page of another origin on this machine: it can neither ask nor read nor frame."""
    script = """async ([origin, token]) => {
        const tried = {};
        const attempt = async (name, init) => {
            try {
                const answer = await fetch(origin + name, init);
                tried[name] = `${answer.type} ${answer.status}`;
            } catch (error) {
                tried[name] = "failed";
            }
        };
        await attempt("", {});
        await attempt("app.js", { mode: "no-cors" });
        await attempt("api/model", { headers: { "X-Jumok-Token": token } });
        await attempt("api/trace", {
            method: "POST", mode: "no-cors", body: "{}", headers: { "Content-Type": "text/plain" },
        });
        return tried;
    }"""
    with windows(allowed=lambda message: True) as window:
        window.page.route("http://elsewhere.example/", lambda route: route.fulfill(body="<p>"))
        window.page.goto("http://elsewhere.example/")
        tried = window.run(script, [live.address.origin, live.address.token])
        # the POST is sent without reading rights, and refused by the server
        assert tried.pop("api/trace") in ("failed", "opaque 0")
        assert set(tried.values()) == {"failed"}
    caller = http.client.HTTPConnection("127.0.0.1", live.address.port)
    caller.request("POST", "/api/trace", b"{}", {"Origin": "http://elsewhere.example"})
    assert caller.getresponse().status == 403
    caller.close()
