"""The site in Chromium: search in Korean, no foreign request, accessible, small."""

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from jumok.course import lessons
from tests.browser.conftest import Windows
from tests.course.queries import QUERIES
from tests.test_docstrings import PUBLIC

ROOT = Path(__file__).resolve().parents[2]
MAX_BYTES = 12_000_000  # 10.5 MB with sixteen lessons in two languages; a page of code is 10 kB
pytestmark = pytest.mark.timeout(1200)  # the first test waits for the build of the site
NAMES = [lesson.path.stem for lesson in lessons()]
PAGES = (
    "index.html",
    "lessons/index.html",
    "lessons/03_attention.html",
    "en/lessons/05_masks.html",
    "guides/learn.html",
    "guides/troubleshooting.html",
    "reference/notes.html",
    "reference/glossary.html",
    "api/jumok.nn.html",
    "_modules/jumok/nn/attention.html",
    "search.html?q=%EB%A7%88%EC%8A%A4%ED%81%AC",
)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *arguments: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    if any(find_spec(name) is None for name in ("sphinx", "furo", "myst_parser", "latex2mathml")):
        pytest.skip('needs the extra "docs": pip install ".[docs]"')
    out = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "site" / "build.py", "--out", out],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return out


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site over HTTP."""
    handler = functools.partial(QuietHandler, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_size_and_pages(site: Path) -> None:
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) <= MAX_BYTES
    for name in NAMES:
        assert (site / "lessons" / f"{name}.html").is_file()
        assert (site / "en" / "lessons" / f"{name}.html").is_file()


def test_the_reference_has_every_public_name(site: Path) -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (site / "api").glob("*.html"))
    missing = [
        name
        for name, item in PUBLIC.items()
        if f'id="{item.__module__}.{item.__qualname__}"' not in pages  # type: ignore[attr-defined]
    ]
    assert missing == []


def test_search_in_korean(windows: Windows, address: str) -> None:
    wrong = {}
    known = {query: pages for query, pages in QUERIES.items() if len(QUERIES) == 40}
    assert len(known) == 40
    with windows() as seen:
        seen.page.goto(f"{address}search.html")
        for query, pages in known.items():
            found = search(seen.page, query)[:3]
            if not set(found) & set(pages):
                wrong[query] = found
    assert not wrong


def search(page, query: str) -> list[str]:  # type: ignore[no-untyped-def]
    """The names of the pages that the search finds, in its order."""
    page.wait_for_function("Search._index !== null")
    found: list[list[str]] = page.evaluate(
        "(query) => Search._performSearch(...Search._parseQuery(query)).reverse()", query
    )
    names = dict.fromkeys(row[0] for row in found)
    return list(names)


@pytest.mark.parametrize(
    ("page", "scheme", "width"),
    [  # each page in both schemes and widths, which go together in two ways
        (page, ("light", "dark")[(i + wide) % 2], (390, 1440)[wide])
        for i, page in enumerate(PAGES)
        for wide in (0, 1)
    ],
)
def test_no_foreign_request_and_no_violation(
    windows: Windows, address: str, page: str, scheme: str, width: int
) -> None:
    with windows(scheme=scheme, width=width) as seen:
        seen.page.goto(address + page)
        seen.page.wait_for_load_state("networkidle")
        assert seen.page.locator("article").first.is_visible()
        assert not seen.foreign_requests(address)
        assert seen.violations() == []
        assert seen.run("document.documentElement.scrollWidth - innerWidth") <= 0
        language = "en" if page.startswith(("en/", "reference/", "api/", "_modules/")) else "ko"
        assert seen.run("document.documentElement.lang") == language
        if language == "ko":
            assert seen.page.get_by_text("On this page", exact=True).count() == 0


@pytest.mark.parametrize("width", [390, 1280])
def test_a_lesson_shows_its_page(windows: Windows, address: str, width: int) -> None:
    with windows(width=width) as seen:
        seen.page.goto(f"{address}lessons/03_attention.html")
        frame = seen.page.frame_locator("iframe.trace")
        seen.page.locator("iframe.trace").scroll_into_view_if_needed()
        frame.locator("[data-role=stage]").wait_for()
        overflow = seen.run("document.documentElement.scrollWidth - innerWidth")
        assert overflow <= 0
        answer = seen.page.locator("details.answer").first
        assert not answer.locator("pre").first.is_visible()
        answer.locator("summary").click()
        assert answer.locator("pre").first.is_visible()
