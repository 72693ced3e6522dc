"""The page compared with BertViz: bytes, elements, load time, work of a hover, start-up.

    python benchmarks/viewer.py [--scripts FOLDER] [--hovers 50] [--rounds 5]

The model is a BERT-base of random weights, drawn large enough that heads look somewhere; both show
the same attention, in the machine's Chromium. A page of ours holds the weights of one layer whole
and those of the others as small pictures, unless it is asked for everything, which is weighed too;
BertViz's holds every weight. BertViz fetches require.js, d3 and jQuery when it is
shown: --scripts names a folder with copies of require.js, d3.min.js and jquery.min.js, in whatever
folders below; without it BertViz is only weighed. Work is what the main thread of the page does for
a hover, until the frame after it is painted (TaskDuration of Chromium's own account).
"""

import argparse
import gzip
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from playwright.sync_api import Browser, CDPSession, Page, Route, sync_playwright
from turns import heading

from jumok.interpret.bertviz import to_bertviz
from jumok.interpret.hf_trace.trace import trace_transformers
from jumok.interpret.trace import Trace
from jumok.viewer.page import render_page
from jumok.viewer.static_files import static_file

RESULTS = Path(__file__).parent / "results" / "viewer.txt"
COMMAND = "python benchmarks/viewer.py --scripts FOLDER"
SPREAD = 0.05  # of random weights: scores of a head spread by about 2
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
PATIENCE = 300_000  # milliseconds


@dataclass(frozen=True)
class Shown:
    """How a page came up."""

    ready: float  # seconds from the address to the frame with the picture
    elements: int
    work: list[float]  # seconds of the main thread, one a hover
    fetched: int  # bytes over the wire until nothing more came, but for
    font: int  # that of Korean letters, where the machine has none


def main() -> None:
    """Weigh, show, hover, print and keep."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--scripts", type=Path)
    words.add_argument("--hovers", type=int, default=50)
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as home, browser() as chromium:
        lines = [heading(COMMAND, "bertviz", "transformers", "playwright")]
        lines.append(f"Chromium {chromium.version}, {os.cpu_count()} cores\n")
        lines += weights_of_pages(Path(home), given.scripts, chromium)
        lines += one_layer(Path(home), given.scripts, chromium, given.hovers, given.rounds)
        lines += long_text(Path(home), chromium, given.rounds)
        lines += script_and_style()
        lines += start(Path(home), given.rounds)
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def weights_of_pages(home: Path, scripts: Path | None, chromium: Browser) -> list[str]:
    """1. 12 x 12 heads, 32 tokens: the size of the file."""
    trace = traced(layers=12, tokens=32)
    ours, whole, theirs = render_page(trace), render_page(trace, full=True), head_view(trace)
    lines = ["1. A page of 12 x 12 heads x 32 tokens, bytes (wanted: 200,000 at most)"]
    lines.append(f"   jumok                    {len(ours):12,}")
    lines.append(f"   jumok, everything        {len(whole):12,}")
    lines.append(
        f"   BertViz head view        {len(theirs):12,}, and three scripts from the network"
    )
    path = kept(home, "ours.html", ours)
    with page(chromium) as window:
        ready(window, path.as_uri(), ".lines-tokens")
        lines.append(f"   jumok opened from disk: {elements(window):,} elements")
    if scripts is not None:
        path = kept(home, "theirs.html", theirs)
        with page(chromium, scripts) as window:
            ready(window, path.as_uri(), "#attention line")
            lines.append(f"   BertViz opened from disk: {elements(window):,} elements")
    return [*lines, ""]


def one_layer(
    home: Path, scripts: Path | None, chromium: Browser, hovers: int, rounds: int
) -> list[str]:
    """2. One layer of 12 heads, 256 tokens: elements, time until it is there, hover."""
    trace = traced(layers=1, tokens=256)
    file = trace.save(home / "one.safetensors")
    title = "2. One layer x 12 heads x 256 tokens (wanted: 3,000 elements, 1 s, 16 ms)"
    lines = [title, f"   {'':<24} {'elements':>9} {'ready':>9} {'hover: median':>14} {'max':>10}"]
    found = several(file, chromium, hovers, rounds)
    lines.append(_row(f"jumok (median of {rounds})", found))
    if scripts is not None:
        path = kept(home, "theirs.html", head_view(trace))
        with page(chromium, scripts) as window:
            few = min(hovers, 10)  # they take seconds
            theirs = hovered(window, path.as_uri(), "#attention line", THEIRS, few)
            lines.append(_row("BertViz head view (once)", theirs))
    return [*lines, ""]


def _row(name: str, shown: Shown) -> str:
    middle, most = statistics.median(shown.work), max(shown.work)
    return (
        f"   {name:<24} {shown.elements:9,} {shown.ready:7.2f} s "
        f"{1000 * middle:11.1f} ms {1000 * most:7.1f} ms"
    )


def long_text(home: Path, chromium: Browser, rounds: int) -> list[str]:
    """3. 12 x 12 heads, 512 tokens: what is fetched at first, and when it can be used."""
    trace = traced(layers=12, tokens=512)
    file = trace.save(home / "long.safetensors")
    found = several(file, chromium, 10, rounds)
    every = 12 * 12 * 512 * 512
    written = len(json.dumps(trace.weights("encoder", 0)[0].tolist())) / 512**2 * every
    work = statistics.median(found.work)
    return [
        "3. 12 x 12 heads x 512 tokens (wanted: 1 MB at first, usable within 1.5 s)",
        f"   jumok: {found.fetched:,} bytes at first, and {found.font:,} of a font where the "
        f"machine has no Korean letters; usable after {found.ready:.2f} s (median of {rounds}), "
        f"{found.elements:,} elements, hover {1000 * work:.1f} ms; the file is "
        f"{file.stat().st_size:,} bytes",
        f"   BertViz would write {written / 1e6:,.0f} MB of numbers into its page, more than a "
        "string of V8 holds (537 M characters)",
        "",
    ]


def several(file: Path, chromium: Browser, hovers: int, rounds: int) -> Shown:
    """A trace shown again and again, each time by a server and a page that know nothing yet."""
    found = []
    for _ in range(rounds):
        with viewing(file) as address, page(chromium) as window:
            found.append(hovered(window, address, ".lines-tokens", OURS, hovers))
    return Shown(
        statistics.median(shown.ready for shown in found),
        max(shown.elements for shown in found),
        [work for shown in found for work in shown.work],
        max(shown.fetched for shown in found),
        max(shown.font for shown in found),
    )


def script_and_style() -> list[str]:
    """4. What the page's script and style weigh on the way."""
    sizes = [len(gzip.compress(static_file(name).content)) for name in ("app.js", "app.css")]
    return [
        f"4. Script and style, zipped: {sum(sizes):,} bytes (wanted: 60,000 at most): app.js "
        f"{sizes[0]:,}, app.css {sizes[1]:,}",
        "",
    ]


def start(home: Path, rounds: int) -> list[str]:
    """5. From the start of the process to the first byte of the page."""
    file = traced(layers=2, tokens=32).save(home / "short.safetensors")
    times = []
    for _ in range(rounds + 1):  # the first warms the page cache
        begin = time.perf_counter()
        with viewing(file) as address:
            caller = http.client.HTTPConnection("127.0.0.1", port_of(address))
            caller.request("GET", "/")
            caller.getresponse().read(1)
            times.append(time.perf_counter() - begin)
            caller.close()
    imported = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "jumok", "view", str(file), "--export", "x.y"],
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    torch_there = bool(re.search(r"\|\s+torch$", imported, re.MULTILINE))
    return [
        "5. jumok view FILE, from the start of the process to the first byte (wanted: 0.6 s)",
        f"   {min(times[1:]):.2f} s at best, {statistics.median(times[1:]):.2f} s median of "
        f"{rounds}; torch imported: {'yes' if torch_there else 'no'}",
    ]


def traced(layers: int, tokens: int) -> Trace:
    """A trace of a BERT of random weights that reads `tokens` tokens."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=layers, initializer_range=SPREAD)
    ids = torch.randint(1000, 30_000, (1, tokens), generator=torch.Generator().manual_seed(1))
    return trace_transformers(BertModel(config), ids)


def head_view(trace: Trace) -> bytes:
    """BertViz's own page of the same attention."""
    from bertviz import head_view

    given = to_bertviz(trace)
    content = head_view(**given, html_action="return").data
    return f"<!doctype html><meta charset='utf-8'><body>{content}</body>".encode()


@contextmanager
def browser() -> Iterator[Browser]:
    """The machine's Chromium."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("there is no chromium on the PATH; install it")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@contextmanager
def page(chromium: Browser, scripts: Path | None = None) -> Iterator[Page]:
    """A window whose network requests are answered from a folder, or fail."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    window = context.new_page()
    window.set_default_timeout(PATIENCE)

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/")[2].replace("require.min.js", "require.js")
        found = next(scripts.rglob(name), None) if scripts else None
        if found is None:
            route.abort()
        else:
            route.fulfill(path=found, content_type="text/javascript")

    window.route(re.compile(r"^https:"), answer)
    yield window
    context.close()


@contextmanager
def viewing(file: Path) -> Iterator[str]:
    """`jumok view` of a trace in a process of its own; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "jumok", "view", str(file), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def port_of(address: str) -> int:
    """The port in an address."""
    match = re.search(r":(\d+)/", address)
    assert match is not None
    return int(match[1])


def kept(home: Path, name: str, content: bytes) -> Path:
    """A page on disk."""
    path = home / name
    path.write_bytes(content)
    return path


def elements(window: Page) -> int:
    """How many elements the page has now."""
    return int(window.evaluate("document.querySelectorAll('*').length"))


PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
OURS = ".lines-tokens[data-side=query] [role=option]"
THEIRS = "#left text"


def ready(window: Page, address: str, picture: str) -> float:
    """Seconds from the address until the picture is there and painted."""
    window.goto(address, wait_until="commit")
    window.wait_for_selector(picture, state="attached")
    return (
        float(window.evaluate(f"async () => {{ await ({PAINTED})(); return performance.now() }}"))
        / 1000
    )


def hovered(window: Page, address: str, picture: str, tokens: str, hovers: int) -> Shown:
    """Open a page, then point at one token after another."""
    session = window.context.new_cdp_session(window)
    session.send("Performance.enable")
    session.send("Network.enable")
    names: dict[str, str] = {}
    arrived: dict[str, int] = {}
    session.on(
        "Network.requestWillBeSent",
        lambda event: names.update({event["requestId"]: event["request"]["url"]}),
    )
    session.on(
        "Network.loadingFinished",
        lambda event: arrived.update({event["requestId"]: event["encodedDataLength"]}),
    )
    seconds = ready(window, address, picture)
    window.wait_for_timeout(3000)
    fonts = [size for name, size in arrived.items() if names[name].endswith(".woff2")]
    fetched, font = int(sum(arrived.values()) - sum(fonts)), int(sum(fonts))
    count = elements(window)
    places = window.evaluate(
        """(tokens) => [...document.querySelectorAll(tokens)]
            .map((token) => token.getBoundingClientRect())
            .filter(({ top, bottom }) => top > 100 && bottom < innerHeight - 100)
            .map(({ left, top, width, height }) => [left + width / 2, top + height / 2])""",
        tokens,
    )
    work = []
    for number in range(hovers):
        x, y = places[(7 * number) % len(places)]
        before = worked(session)
        window.mouse.move(x, y)
        window.evaluate(PAINTED)
        work.append(worked(session) - before)
    return Shown(seconds, count, work, fetched, font)


def worked(session: CDPSession) -> float:
    """Seconds that the page's main thread has worked so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


if __name__ == "__main__":
    main()
