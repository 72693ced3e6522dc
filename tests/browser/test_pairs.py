"""The page of a model for text pairs: each text has its own field."""

from tests.browser.chromium import Window
from tests.browser.conftest import Windows
from tests.interpret.random_models import PAIRS, loaded_of
from tests.viewer.page_server import served


def strip(window: Window) -> str:
    return str(window.run("document.querySelector('[data-role=strip]').textContent"))


def test_either_text_of_a_pair_is_edited(windows: Windows) -> None:
    from jumok.viewer.live_model import LiveModel
    from jumok.viewer.request_schema import TraceRequest
    from jumok.viewer.server import ServerContent
    from jumok.viewer.trace_store import open_trace_store

    model = LiveModel(loaded_of("pairs"))
    with open_trace_store() as store:
        first = store.add(model.trace(TraceRequest((PAIRS[0],))))
        with (
            served(ServerContent(store, model.card, first, model)) as server,
            windows() as window,
        ):
            window.open(str(server.address), "lang=en")
            one = window.page.get_by_label("input text")
            other = window.page.get_by_label("second text")
            assert [one.input_value(), other.input_value()] == PAIRS[0].split("\t")
            before, changed = strip(window), PAIRS[1].split("\t")[1]
            assert changed != other.input_value()
            other.fill(changed)
            other.press("Enter")
            window.wait_until_equal(lambda: strip(window) != before, True, "other tokens")
            assert [one.input_value(), other.input_value()] == [PAIRS[0].split("\t")[0], changed]
