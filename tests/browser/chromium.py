"""A real browser: the installed Chromium, driven by Playwright."""

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
SECONDS = 60.0  # timeout; on an idle machine everything is immediate

# The same pixels on every machine, and no network traffic.
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--no-sandbox",  # containers have no sandbox of their own
)

Scheme = Literal["light", "dark"]


def executable() -> Path:
    """The browser; without one, tests are skipped, or fail if JUMOK_NEEDS_BROWSER is 1."""
    for name in NAMES:
        if found := shutil.which(name):
            return Path(found)
    sentence = "needs chromium on the PATH; for example apt install chromium"
    if os.environ.get(NEEDED) == "1":
        pytest.fail(sentence)
    pytest.skip(sentence)


@contextmanager
def launched() -> "Iterator[Browser]":
    """Run a browser within the context."""
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
    """A page in the browser, with its console messages and requests."""

    page: "Page"
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def open(self, address: str, state: str = "") -> "Window":
        """Open an address and wait until the page is ready."""
        join = "" if not state else "&" if "#" in address else "#"
        self.page.goto(f"{address}{join}{state}")
        self.page.wait_for_selector("[data-role=stage]", timeout=SECONDS * 1000)
        self.page.evaluate("document.fonts.ready")  # the layout is final after it
        return self

    def show(self, state: str) -> None:
        """Change the state in the address, like a user; the token stays."""
        self.page.evaluate(
            """(state) => {
                const token = /(?:^#|&)(token=[^&]*)/.exec(location.hash)?.[1];
                location.hash = [token, state].filter(Boolean).join("&");
            }""",
            state,
        )

    def wait_until_equal(self, found: Callable[[], object], expected: object, where: str) -> None:
        """Poll until `found()` is `expected`, for at most `SECONDS`."""
        end = time.monotonic() + SECONDS
        while (seen := found()) != expected:
            assert time.monotonic() < end, f"{where}: expected {expected}, got {seen}"
            self.page.wait_for_timeout(20)

    def open_settings(self) -> None:
        """Open the settings, unless they are open."""
        button = self.page.locator("[data-role=settings] > button")
        if button.get_attribute("aria-expanded") == "false":
            button.click()

    def inspector_value(self, name: str) -> str | None:
        """A number of the inspector in full precision; None if it is not shown."""
        found = self.page.locator(f"[data-role=inspector] [data-name={name}]")
        return found.get_attribute("data-value") if found.count() == 1 else None

    def number(self, name: str) -> float:
        """The same as a float; NaN if it is not shown."""
        return float(self.inspector_value(name) or "nan")

    def run(self, script: str, *arguments: object) -> Any:
        """Run a script in the page and return its result."""
        return self.page.evaluate(script, *arguments)

    def export(self, kind: str, folder: Path) -> Path:
        """Choose an item of the export menu and return the saved file."""
        menu = self.page.locator("[data-role=export]")
        if not menu.locator("[data-export]").count():
            menu.locator("> button").click()
        with self.page.expect_download() as download:
            menu.locator(f"[data-export={kind}]").first.click()
        path = folder / download.value.suggested_filename
        download.value.save_as(path)
        return path

    def table(self, folder: Path) -> list[list[str]]:
        """The rows of the CSV export of the current view."""
        text = self.export("csv", folder).read_text(encoding="utf-8-sig")
        return list(csv.reader(io.StringIO(text)))

    def foreign_requests(self, *own: str) -> list[str]:
        """Requests to other than the page's own addresses."""
        return [
            address for address in self.requests if not address.startswith(("data:", "blob:", *own))
        ]

    def violations(self) -> list[str]:
        """Accessibility violations found by axe."""
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
    allowed: Callable[[str], bool] = lambda message: False,
    language: str = "ko-KR",
) -> Iterator[Window]:
    """A new window; at the end its console must have no errors other than `allowed` ones."""
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
        errors = [each for each in seen.errors if not allowed(each)]
        assert not errors, "\n".join(errors)
    finally:
        context.close()


def _note(seen: Window, message: str, counts: bool) -> None:
    if counts:
        seen.errors.append(message)
