"""Takes the screenshots of the documentation: the page of the shipped model in a real browser.

    python scripts/screenshots.py [--only view-lines] [--reviews RUN]
    python scripts/screenshots.py --every FOLDER [--model note] [--text TEXT] [--only flow]

`--reviews`, a run of the recipe of the README with 200 labelled reviews, is needed for
view-explanation only, which no test compares. `--every` takes none of them, but every view of a
model in Korean and English, in a window of 1440 x 900 and, in full length, on a phone. Needs
Chromium. Look at the images before you commit them.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import jumok
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import TraceRequest
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import launched, window
from tests.browser.documentation_pictures import IMAGES, PICTURES, RECORD, TEXT, layout, shown
from tests.browser.test_page import VIEWS
from tests.viewer.page_server import served

REVIEW = "배우들의 연기는 좋았지만 이야기가 너무 지루했어요"
SIZES = ((1440, 900), (390, 844))


def main() -> None:
    """Take all pictures, or those whose name contains `--only`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--reviews", type=Path)
    parser.add_argument("--every", type=Path)
    parser.add_argument("--model", default="note")
    parser.add_argument("--text", default=TEXT)
    options = parser.parse_args()
    if options.every is not None:
        every_view(options.every, options.model, options.text, options.only)
        return
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {"layouts": {}}
    with launched() as browser:
        record["chromium"] = int(browser.version.partition(".")[0])
        for picture in PICTURES:
            if options.only in picture.name:
                with shown(browser, picture) as opened:
                    record["layouts"][picture.name] = layout(opened.page)
                    opened.page.screenshot(path=str(IMAGES / f"{picture.name}.png"))
                print(picture.name, flush=True)
        if options.reviews is not None:
            with live_page(options.reviews, REVIEW) as address, window(browser) as opened:
                opened.open(address, "v=explanation&lang=ko&explanation.without=5")
                opened.page.wait_for_timeout(2000)
                opened.page.screenshot(path=str(IMAGES / "view-explanation.png"))
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


@contextmanager
def live_page(model: str | Path, text: str) -> Iterator[str]:
    """The address of the live page of a model that has read a text."""
    live = LiveModel(jumok.load(model))
    with open_trace_store() as store:
        trace = store.add(live.trace(TraceRequest((text,))))
        with served(ServerContent(store, live.card, trace, live)) as server:
            yield str(server.address)


def every_view(folder: Path, model: str, text: str, only: str) -> None:
    """Pictures FOLDER/MODEL-VIEW-WIDTH-LANGUAGE.png."""
    folder.mkdir(parents=True, exist_ok=True)
    with launched() as browser, live_page(model, text) as address:
        for width, height in SIZES:
            with window(browser, width, height) as opened:
                opened.open(address)
                for view in VIEWS:
                    for language in ("ko", "en"):
                        name = f"{Path(model).name}-{view}-{width}-{language}"
                        if only not in name:
                            continue
                        opened.show(f"v={view}&lang={language}")
                        opened.page.wait_for_selector(f"[data-role=stage][data-view={view}]")
                        opened.page.wait_for_timeout(700)
                        path = str(folder / f"{name}.png")
                        opened.page.screenshot(path=path, full_page=width < 1000)


if __name__ == "__main__":
    main()
