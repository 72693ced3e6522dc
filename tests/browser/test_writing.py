"""The page of a generating model: default settings, chosen settings, forced targets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import Window
from tests.browser.conftest import Windows
from tests.viewer.page_server import Server, served


@pytest.fixture(scope="module")
def writer(reading_run: Path) -> Iterator[Server]:
    """A server as `jumok view RUN TEXT --decode beam=3` has it."""
    from jumok.tasks.runs.load import load
    from jumok.viewer.live_model import LiveModel
    from jumok.viewer.request_schema import TraceRequest

    model = LiveModel(load(reading_run), {"beam": 3})
    with open_trace_store() as store:
        first = store.add(model.trace(TraceRequest(("삼 일 오",), decode={"beam": 3})))
        with served(ServerContent(store, model.card, first, model)) as server:
            yield server


def settings(window: Window) -> str:
    """The description of the decoding method in the generation view."""
    return str(window.run("document.querySelector('[data-role=stage]').textContent"))


def run(window: Window) -> None:
    window.page.locator("[data-role=live] button[type=submit]").click()


def test_decoding_settings_hold_until_changed(windows: Windows, writer: Server) -> None:
    with windows() as window:
        window.open(str(writer.address), "v=generation&lang=en")
        window.wait_until_equal(lambda: "beam = 3" in settings(window), True, "the beam")
        window.open_settings()
        way = window.page.get_by_label("decoding method")
        way.select_option("sample")
        run(window)
        window.wait_until_equal(lambda: "sample = true" in settings(window), True, "the draw")
        way.select_option("own")
        run(window)
        window.wait_until_equal(lambda: "beam = 3" in settings(window), True, "the beam again")


def test_a_forced_target(windows: Windows, writer: Server) -> None:
    with windows() as window:
        window.open(str(writer.address), "v=generation&lang=en")
        window.open_settings()
        window.page.get_by_label("target").fill("3 1 5")
        assert window.page.get_by_label("decoding method").is_disabled()
        run(window)
        window.wait_until_equal(lambda: "teacher forcing" in settings(window), True, "the target")
