"""A real browser: the machine's own Chromium, led by Playwright, which fetches none of its own."""

import csv
import io
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NEEDED = "JUMOK_NEEDS_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60.0  # for what happens at once on a machine that has nothing else to do

# The same pixels on every machine, and no talk with anybody.
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--no-sandbox",  # containers have no room for another
)

Scheme = Literal["light", "dark"]


def executable() -> Path:
    """The browser; without one a test is skipped, or fails where JUMOK_NEEDS_BROWSER is 1."""
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    sentence = "needs a browser: no chromium on the PATH; for example apt install chromium"
    if os.environ.get(NEEDED) == "1":
        pytest.fail(sentence)
    pytest.skip(sentence)


@contextmanager
def launched() -> "Iterator[Browser]":
    """A browser that runs within."""
    path = executable()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Window:
    """A page in the browser, and everything it complained of or asked for."""

    page: "Page"
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, address: str, state: str = "") -> "Window":
        """Go to an address and wait for the page to be there."""
        join = "" if not state else "&" if "#" in address else "#"
        self.page.goto(f"{address}{join}{state}")
        self.page.wait_for_selector("[data-role=stage]", timeout=SECONDS * 1000)
        self.page.evaluate("document.fonts.ready")  # after it nothing moves under the pointer
        return self

    def show(self, state: str) -> None:
        """Change the state in the address, as a person who edits it does; the token stays."""
        self.page.evaluate(
            """(state) => {
                const token = /(?:^#|&)(token=[^&]*)/.exec(location.hash)?.[1];
                location.hash = [token, state].filter(Boolean).join("&");
            }""",
            state,
        )

    def wait_until_equal(self, found: Callable[[], object], wanted: object, where: str) -> None:
        """Ask again and again, for `SECONDS` at most, until what is found is what is wanted."""
        end = time.monotonic() + SECONDS
        while (seen := found()) != wanted:
            assert time.monotonic() < end, f"{where}: {seen} was found, {wanted} was wanted"
            self.page.wait_for_timeout(20)

    def told(self, name: str) -> str | None:
        """A number of the inspector in full precision, None while it is not there."""
        found = self.page.locator(f"[data-role=inspector] [data-name={name}]")
        return found.get_attribute("data-value") if found.count() == 1 else None

    def number(self, name: str) -> float:
        """The same as a number; NaN while it is not there."""
        return float(self.told(name) or "nan")

    def run(self, script: str, *words: object) -> Any:
        """What a script in the page returns."""
        return self.page.evaluate(script, *words)

    def export(self, kind: str, folder: Path) -> Path:
        """The file that a press on an item of the export menu saves."""
        menu = self.page.locator("[data-role=export]")
        if not menu.locator("[data-export]").count():
            menu.locator("> button").click()
        with self.page.expect_download() as download:
            menu.locator(f"[data-export={kind}]").first.click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def table(self, folder: Path) -> list[list[str]]:
        """The rows of the table that the view in front exports."""
        text = self.export("csv", folder).read_text(encoding="utf-8-sig")
        return list(csv.reader(io.StringIO(text)))

    def strangers(self, *own: str) -> list[str]:
        """Requests that left the page's own addresses."""
        return [
            address for address in self.requests if not address.startswith(("data:", "blob:", *own))
        ]

    def violations(self) -> list[str]:
        """What axe finds: the rule, and where."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']} ({each['impact']}): {each['nodes'][0]['target']} "
            f"{each['nodes'][0].get('failureSummary', '')}"
            for each in found
        ]


@contextmanager
def window(
    browser: "Browser",
    width: int = 1280,
    height: int = 800,
    scheme: Scheme = "light",
    allowed: Callable[[str], bool] = lambda complaint: False,
    language: str = "ko-KR",
) -> Iterator[Window]:
    """A fresh window; at the end it must have complained of nothing but what is `allowed`."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        locale=language,
        accept_downloads=True,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1000)
    seen = Window(page)
    page.on("console", lambda m: _note(seen, f"{m.type}: {m.text}", m.type in ("error", "warning")))
    page.on("pageerror", lambda error: _note(seen, f"thrown: {error}", True))
    page.on(
        "dialog", lambda dialog: (_note(seen, f"dialog: {dialog.message}", True), dialog.dismiss())
    )
    page.on("request", lambda request: seen.requests.append(request.url))
    try:
        yield seen
        complaints = [each for each in seen.complaints if not allowed(each)]
        assert not complaints, "\n".join(complaints)
    finally:
        context.close()


def _note(seen: Window, complaint: str, counts: bool) -> None:
    if counts:
        seen.complaints.append(complaint)
