"""Takes the screenshots of the documentation: the page of the shipped model in a real browser.

    python scripts/screenshots.py [--only view-lines] [--headlines RUN]

`--headlines`, a run of `jumok train ynat`, is needed for view-explanation only, which no test
compares. Needs Chromium. Look at the images before you commit them.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import jumok
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import TraceRequest
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.browser.chromium import launched, window
from tests.browser.documentation_pictures import IMAGES, PICTURES, RECORD, layout, shown
from tests.viewer.page_server import served

HEADLINE = "삼성전자 새로운 반도체 공장 미국에 짓는다"


def main() -> None:
    """Take all pictures, or those whose name contains `--only`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--headlines", type=Path)
    options = parser.parse_args()
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {"layouts": {}}
    with launched() as browser:
        record["chromium"] = int(browser.version.partition(".")[0])
        for picture in PICTURES:
            if options.only in picture.name:
                with shown(browser, picture) as opened:
                    record["layouts"][picture.name] = layout(opened.page)
                    opened.page.screenshot(path=str(IMAGES / f"{picture.name}.png"))
                print(picture.name, flush=True)
        if options.headlines is not None:
            live = LiveModel(jumok.load(options.headlines))
            with (
                open_trace_store() as store,
                served(
                    ServerContent(
                        store, live.card, store.add(live.trace(TraceRequest((HEADLINE,)))), live
                    )
                ) as server,
                window(browser) as opened,
            ):
                opened.open(str(server.address), "v=explanation&lang=ko&explanation.without=0")
                opened.page.wait_for_timeout(2000)
                opened.page.screenshot(path=str(IMAGES / "view-explanation.png"))
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
