"""Takes the screenshots of the documentation: the page in a real browser.

    python scripts/screenshots.py --numbers RUN --headlines RUN [--only view-lines]

`--numbers` is a run of `jumok train numbers`, `--headlines` one of `jumok train ynat`. Needs
Chromium. Look at the images before you commit them.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.browser.chromium import Scheme, launched, window

SHORT = "세 시에 만나요."
SENTENCE = "오후 세 시 삼십 분에 만나요."
MEETING = "회의는 십일월 이십일 오후 세 시 삼십 분에 시작합니다."
HEADLINE = "삼성전자 새로운 반도체 공장 미국에 짓는다"


@dataclass(frozen=True)
class Screenshot:
    """One view of the page in one state."""

    name: str
    run: Literal["numbers", "headlines"]
    arguments: Sequence[str]  # of `jumok view`
    state: str
    scheme: Scheme = "light"
    size: tuple[int, int] = (1280, 800)


SCREENSHOTS = (
    Screenshot(
        "view-lines",
        "numbers",
        [SENTENCE],
        "v=lines&lang=en&L=1&H=1&q=4&pin=encoder.1.0~encoder.1.1~encoder.1.3&lines.heads=pinned",
    ),
    Screenshot(
        "view-matrix", "numbers", [MEETING], "v=matrix&lang=ko&b=cross&L=1&H=2&u=word&q=1&k=1"
    ),
    Screenshot(
        "view-neuron",
        "numbers",
        ["--lesson"],
        "v=neuron&lang=en&L=1&H=1&q=3&k=2",
        "dark",
    ),
    Screenshot(
        "view-alignment",
        "numbers",
        [MEETING],
        "v=alignment&lang=en&L=1&u=word&alignment.over=layer&alignment.rows=predicted",
        size=(1280, 860),
    ),
    Screenshot(
        "view-generation",
        "numbers",
        [SHORT, "--decode", "beam=3"],
        "v=generation&lang=ko&b=cross&L=1&H=2&t=2",
        "dark",
        (1280, 1000),
    ),
    Screenshot(
        "view-calculation",
        "numbers",
        ["--lesson"],
        "v=calculation&lang=en&calculation.bug=zero",
    ),
    Screenshot(
        "view-explanation", "headlines", [HEADLINE], "v=explanation&lang=ko&explanation.without=0"
    ),
    Screenshot("view-narrow", "headlines", [HEADLINE], "v=explanation&lang=ko", "dark", (390, 780)),
)


def take(screenshot: Screenshot, run: Path, out: Path) -> None:
    """Serve the run as `jumok view` does and save what a window shows."""
    command = [sys.executable, "-m", "jumok", "view", str(run), *screenshot.arguments]
    server = subprocess.Popen([*command, "--no-browser"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = server.stdout.readline().strip()
        width, height = screenshot.size
        with (
            launched() as browser,
            window(browser, scheme=screenshot.scheme, width=width, height=height) as opened,
        ):
            opened.open(address)
            opened.show(screenshot.state)
            view = screenshot.state.partition("&")[0].removeprefix("v=")
            opened.page.wait_for_selector(f"[data-role=stage][data-view={view}]")
            opened.page.wait_for_timeout(3000)
            opened.page.screenshot(path=str(out / f"{screenshot.name}.png"))
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def main() -> None:
    """Take all screenshots, or those whose name contains `--only`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--numbers", type=Path, required=True)
    parser.add_argument("--headlines", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    options = parser.parse_args()
    for screenshot in SCREENSHOTS:
        if options.only in screenshot.name:
            take(screenshot, getattr(options, screenshot.run), options.out)
            print(options.out / f"{screenshot.name}.png", flush=True)


if __name__ == "__main__":
    main()
