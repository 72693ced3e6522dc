"""The screenshots of the documentation: the page of the shipped model `note`, in fixed states.

All text is drawn with the bundled font, so that a picture is the same on every machine with the
same Chromium; `layout` is what other versions of Chromium can be compared by.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumok.tasks.runs.load import load
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import TraceRequest
from jumok.viewer.server import ServerContent
from jumok.viewer.static_files import static_file
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import Scheme, Window, window
from tests.viewer.page_server import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

IMAGES = Path(__file__).parents[2] / "docs" / "images"
RECORD = IMAGES / "view.json"  # Chromium's major version and the layouts of the pictures

TEXT, EDITED = "겨울은 추워요.", "여름은 더워요."

ONE_TEXT = TraceRequest((TEXT,))
LESSON = TraceRequest(())
BEAM = TraceRequest((TEXT,), decode={"beam": 3})

ONE_FONT = """
@font-face { font-family: "Bundled"; src: url("./JumokHangul.woff2") format("woff2"); }
:root { --font: "Bundled", sans-serif !important; --mono: "Bundled", sans-serif !important; }
"""

LAYOUT = """() => {
    const found = {};
    for (const each of document.querySelectorAll(
        "[data-role=header], [data-role=question], [data-role=answer], [data-role=map], " +
        "[data-role=stage], [data-role=inspector], [data-role=strip], .tabs, .about"
    )) {
        const { x, y, width, height } = each.getBoundingClientRect();
        const name = each.dataset.role ?? each.className;
        if (width && height) found[name] = [x, y, width, height].map(Math.round);
    }
    return found;
}"""

Box = Sequence[int]  # left, top, width, height


@dataclass(frozen=True)
class Picture:
    """One view in one state."""

    name: str
    state: str
    request: TraceRequest = ONE_TEXT
    scheme: Scheme = "light"
    size: tuple[int, int] = (1280, 800)
    act: Callable[[Window], None] | None = None  # gestures before the picture

    @property
    def view(self) -> str:
        """The view in the state."""
        return self.state.partition("&")[0].removeprefix("v=")


def run_again(window: Window) -> None:
    """Run the edited text."""
    field = window.page.locator("[data-role=live] textarea").first
    field.fill(EDITED)
    field.press("Enter")
    window.page.locator("[data-role=side-a]").wait_for()


def sweep(window: Window) -> None:
    """Mute each head in turn."""
    window.page.locator("[data-role=sweep]").click()
    window.page.locator("[data-role=effects-summary]").wait_for()
    window.page.locator("[data-role=head-table]").scroll_into_view_if_needed()


PICTURES = (
    Picture("view-flow", "v=flow&lang=en", size=(1440, 900)),
    Picture("view-flow-ko", "v=flow&lang=ko&t=9", size=(1440, 900)),
    Picture(
        "view-lines",
        "v=lines&lang=en&b=cross&L=1&H=0&pin=cross.1.0~cross.1.1&lines.heads=pinned",
    ),
    Picture("view-matrix", "v=matrix&lang=ko&b=cross&L=1&H=0&q=1&k=2"),
    Picture("view-neuron", "v=neuron&lang=en&L=1&H=1&q=3&k=2", scheme="dark"),
    Picture("view-alignment", "v=alignment&lang=en&u=word"),
    Picture("view-generation", "v=generation&lang=ko&b=cross&L=1&H=0&t=4", BEAM, "dark"),
    Picture("view-calculation", "v=calculation&lang=en&s=1&calculation.bug=zero", LESSON),
    Picture("view-compare", "v=compare&lang=ko&L=0&H=1", act=run_again),
    Picture("view-heads", "v=heads&lang=en&L=1&H=1&b=cross", size=(1280, 1100), act=sweep),
    Picture("view-narrow", "v=flow&lang=ko", scheme="dark", size=(390, 844)),
)


@contextmanager
def shown(browser: "Browser", picture: Picture) -> "Iterator[Window]":
    """A window that shows a picture."""
    live = LiveModel(load("note", "cpu"))
    request = picture.request if picture.request.texts else live.lesson(picture.request)
    width, height = picture.size
    with (
        open_trace_store() as store,
        served(ServerContent(store, live.card, store.add(live.trace(request)), live)) as server,
        window(browser, width, height, picture.scheme) as opened,
    ):
        use_one_font(opened.page)
        opened.open(str(server.address), picture.state)
        opened.page.wait_for_selector(
            f"[data-role=stage][data-view={picture.view}] > *", state="attached"
        )
        if picture.act is not None:
            picture.act(opened)
        opened.page.mouse.move(0, 0)
        opened.page.evaluate("document.activeElement?.blur()")
        wait_until_still(opened.page)
        yield opened


def use_one_font(page: "Page") -> None:
    """Draw everything with the bundled font."""

    def style(route: "Route") -> None:
        body = static_file("app.css").content.decode() + ONE_FONT
        route.fulfill(body=body, content_type="text/css")

    page.route("**/app.css", style)


def wait_until_still(page: "Page", tries: int = 40) -> bytes:
    """The pixels, after they have not changed for a third of a second."""
    before = b""
    for _ in range(tries):
        page.wait_for_timeout(350)
        now = page.screenshot()
        if now == before:
            return now
        before = now
    raise AssertionError("the page did not come to rest")


def layout(page: "Page") -> dict[str, Box]:
    """The boxes of the parts of the page."""
    found: dict[str, Box] = page.evaluate(LAYOUT)
    return found
