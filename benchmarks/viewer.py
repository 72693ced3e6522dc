"""The page compared with BertViz: bytes, elements, load time, work of hovers and frames, start-up.

    PYTHONPATH=. python benchmarks/viewer.py [--scripts FOLDER] [--hovers 50] [--rounds 5]

The model is a BERT-base with random weights, large enough that attention is not uniform; both pages
show the same attention, in the installed Chromium. jumok's page contains the exact weights of one
layer and thumbnails of the others, or with `full` everything, which is measured too; BertViz's page
contains every weight. BertViz fetches require.js, d3 and jQuery: --scripts names a folder with
require.js, d3.min.js and jquery.min.js, at any depth; without it only the size of BertViz's page is
measured. Work is the time of the main thread for a hover until the next frame is painted
(TaskDuration of Chromium); that of a frame of the flow is the time from its first callback until
the task after painting. The first answer is timed with the shipped models, in one process: from the
loaded model to the painted answer, with the trace in between.
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
import threading
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
from jumok.interpret.tracing import trace as trace_pipeline
from jumok.tasks.registry import get_task
from jumok.tasks.runs.load import load
from jumok.viewer.live_model import LiveModel
from jumok.viewer.page import render_page
from jumok.viewer.request_schema import TraceRequest
from jumok.viewer.serve import listen, make_server
from jumok.viewer.server import OneTimeTokens, ServerContent
from jumok.viewer.static_files import VIEW_SCRIPTS, static_file
from jumok.viewer.trace_store import open_trace_store
from tests.tasks.tiny_jobs import LABELS, recipe, review_vocabulary

RESULTS = Path(__file__).parent / "results" / "viewer.txt"
COMMAND = "PYTHONPATH=. python benchmarks/viewer.py --scripts FOLDER"
SPREAD = 0.05  # of random weights; the scores of a head have a standard deviation of about 2
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
TIMEOUT = 60_000  # milliseconds


@dataclass(frozen=True)
class Shown:
    """Measurements of a page."""

    ready: float  # seconds from navigation to the first frame with the view
    elements: int
    work: list[float]  # seconds of the main thread per hover
    fetched: int  # bytes transferred in total, without the font
    font: int  # bytes of the Hangul font, for machines without one


def main() -> None:
    """Measure sizes, load times and hovers; print and write the results."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--scripts", type=Path)
    arguments.add_argument("--hovers", type=int, default=50)
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as home, browser() as chromium:
        lines = [heading(COMMAND, "bertviz", "transformers", "playwright")]
        lines.append(f"Chromium {chromium.version}, {os.cpu_count()} cores\n")
        lines += weights_of_pages(Path(home), given.scripts, chromium)
        lines += one_layer(Path(home), given.scripts, chromium, given.hovers, given.rounds)
        lines += long_text(Path(home), chromium, given.rounds)
        lines += script_and_style()
        lines += start(Path(home), given.rounds)
        lines += first_answer(chromium, given.rounds)
        lines += frames(Path(home), chromium, given.rounds)
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def weights_of_pages(home: Path, scripts: Path | None, chromium: Browser) -> list[str]:
    """1. 12 x 12 heads, 32 tokens: the size of the file."""
    trace = traced(layers=12, tokens=32)
    actual, whole, reference = render_page(trace), render_page(trace, full=True), head_view(trace)
    lines = ["1. A page of 12 x 12 heads x 32 tokens, bytes (wanted: 220,000 at most)"]
    lines.append(f"   jumok                    {len(actual):12,}")
    lines.append(f"   jumok, everything        {len(whole):12,}")
    lines.append(
        f"   BertViz head view        {len(reference):12,}, and three scripts from the network"
    )
    path = kept(home, "ours.html", actual)
    with page(chromium) as window:
        ready(window, path.as_uri(), ".lines-tokens")
        lines.append(f"   jumok opened from disk: {elements(window):,} elements")
    if scripts is not None:
        path = kept(home, "theirs.html", reference)
        with page(chromium, scripts) as window:
            ready(window, path.as_uri(), "#attention line")
            lines.append(f"   BertViz opened from disk: {elements(window):,} elements")
    review = ordinary_review()
    lines.append(
        f"   A page of a review of {len(review.info.tokens('source'))} pieces, 4 layers x 4 heads, "
        "d_model 256 (wanted: 800,000 at most)"
    )
    lines.append(f"   jumok                    {len(render_page(review)):12,}")
    lines.append(f"   jumok, everything        {len(render_page(review, full=True)):12,}")
    lines.append(f"   BertViz head view        {len(head_view(review)):12,}")
    return [*lines, ""]


def ordinary_review() -> Trace:
    """The trace of a classifier of the size that the recipe of NSMC has, with random weights."""
    vocabulary = review_vocabulary()
    size = {"n_layers": 4, "n_heads": 4, "d_model": 256, "d_ff": 1024, "max_length": 64}
    plan = recipe("classification", size).with_vocabulary(len(vocabulary))
    task, labels = get_task("classification"), LABELS
    torch.manual_seed(1)
    network = task.build_model(plan.model, labels)
    pipeline = task.pipeline(network, vocabulary, plan, labels, torch.device("cpu"))
    return trace_pipeline(pipeline, 6 * "이 영화 정말 재미있어요 ")


def one_layer(
    home: Path, scripts: Path | None, chromium: Browser, hovers: int, rounds: int
) -> list[str]:
    """2. One layer of 12 heads, 256 tokens: elements, load time, hover."""
    trace = traced(layers=1, tokens=256)
    file = trace.save(home / "one.safetensors")
    title = "2. One layer x 12 heads x 256 tokens (wanted: 3,000 elements, 1 s, 16 ms)"
    lines = [title, f"   {'':<24} {'elements':>9} {'ready':>9} {'hover: median':>14} {'max':>10}"]
    found = several(file, chromium, hovers, rounds)
    lines.append(_row(f"jumok (median of {rounds})", found))
    if scripts is not None:
        path = kept(home, "theirs.html", head_view(trace))
        with page(chromium, scripts) as window:
            few = min(hovers, 10)  # each takes seconds
            reference = hovered(window, path.as_uri(), "#attention line", THEIRS, few)
            lines.append(_row("BertViz head view (once)", reference))
    return [*lines, ""]


def _row(name: str, shown: Shown) -> str:
    middle, most = statistics.median(shown.work), max(shown.work)
    return (
        f"   {name:<24} {shown.elements:9,} {shown.ready:7.2f} s "
        f"{1000 * middle:11.1f} ms {1000 * most:7.1f} ms"
    )


def long_text(home: Path, chromium: Browser, rounds: int) -> list[str]:
    """3. 12 x 12 heads, 512 tokens: bytes fetched at first, and time until usable."""
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
    """A trace shown repeatedly, each time by a new server and a new page."""
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
    """4. The compressed size of the page's script and style."""

    def zipped(*names: str) -> int:
        return sum(len(gzip.compress(static_file(name).content)) for name in names)

    first = zipped("app.js", "app.css")
    return [
        f"4. Script and style, zipped: first load {first:,} bytes (wanted: 70,000 at most), all "
        f"{first + zipped(*VIEW_SCRIPTS):,} (wanted: 150,000 at most)",
        "",
    ]


def start(home: Path, rounds: int) -> list[str]:
    """5. From the start of the process to the first byte of the page."""
    file = traced(layers=2, tokens=32).save(home / "short.safetensors")
    times = []
    for _ in range(rounds + 1):  # the first one fills the page cache
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
        "",
    ]


def first_answer(chromium: Browser, rounds: int) -> list[str]:
    """6. From the loaded model to the painted answer: trace, server, page."""
    lines = ["6. From the loaded model to the painted answer (wanted: 1.0 s)"]
    for name, text in (("note", "겨울은 추워요."), ("ko-small", "이 영화는 정말 [MASK].")):
        model = LiveModel(load(name, "cpu"))
        times = [_answered(model, text, chromium) for _ in range(rounds)]
        lines.append(
            f"   {name:<9} first in the process {times[0]:.2f} s, median of {rounds} "
            f"{statistics.median(times):.2f} s"
        )
    return [*lines, ""]


def _answered(model: LiveModel, text: str, chromium: Browser) -> float:
    with page(chromium) as window, open_trace_store() as store:
        begin = time.perf_counter()
        first = store.add(model.trace(TraceRequest((text,))))
        listener, address = listen("127.0.0.1", 0, None)
        content = ServerContent(store, model.card, first, model)
        server = make_server(address, content, OneTimeTokens())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        ready(window, str(address), "[data-role=answer]")
        seconds = time.perf_counter() - begin
        server.should_exit = True
        thread.join()
        listener.close()
    return seconds


def frames(home: Path, chromium: Browser, rounds: int) -> list[str]:
    """7. The work of the main thread for a frame while the flow is played."""
    file = traced(layers=12, tokens=64).save(home / "flow.safetensors")
    medians, most = [], []
    for _ in range(rounds):
        with viewing(file) as address, page(chromium) as window:
            window.emulate_media(reduced_motion="no-preference")
            ready(window, f"{address}&v=flow", ".flow svg")
            window.wait_for_timeout(1000)
            window.locator("[data-role=play]").click()
            work = sorted(window.evaluate(FRAME_WORK, 120))
            medians.append(statistics.median(work))
            most.append(work[int(0.95 * len(work))])
    return [
        "7. The flow played, 12 layers x 64 tokens: work of the main thread for a frame (wanted: "
        "8 ms)",
        f"   median {statistics.median(medians):.1f} ms, 95th percentile "
        f"{statistics.median(most):.1f} ms (120 frames, medians of {rounds})",
    ]


def traced(layers: int, tokens: int) -> Trace:
    """A trace of a BERT with random weights on `tokens` tokens."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(num_hidden_layers=layers, initializer_range=SPREAD)
    ids = torch.randint(1000, 30_000, (1, tokens), generator=torch.Generator().manual_seed(1))
    return trace_transformers(BertModel(config), ids)


def head_view(trace: Trace) -> bytes:
    """BertViz's page of the same attention."""
    from bertviz import head_view

    given = to_bertviz(trace)
    content = head_view(**given, html_action="return").data
    return f"<!doctype html><meta charset='utf-8'><body>{content}</body>".encode()


@contextmanager
def browser() -> Iterator[Browser]:
    """The installed Chromium."""
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
    window.set_default_timeout(TIMEOUT)

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
    """Run `jumok view` of a trace in its own process; yields the address."""
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
    """Save a page."""
    path = home / name
    path.write_bytes(content)
    return path


def elements(window: Page) -> int:
    """The number of elements of the page."""
    return int(window.evaluate("document.querySelectorAll('*').length"))


PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# Milliseconds from the first callback of a frame to the first task after it: callbacks, style,
# layout and paint.
FRAME_WORK = """(count) => new Promise((done) => {
    const [work, channel, request] = [[], new MessageChannel(), requestAnimationFrame];
    let begin = null;
    channel.port1.onmessage = () => {
        work.push(performance.now() - begin);
        begin = null;
        if (work.length < count) return;
        window.requestAnimationFrame = request;
        done(work);
    };
    window.requestAnimationFrame = (callback) => request((now) => {
        if (begin === null) {
            begin = performance.now();
            channel.port2.postMessage(null);
        }
        callback(now);
    });
})"""
OURS = ".lines-tokens[data-side=query] [role=option]"
THEIRS = "#left text"


def ready(window: Page, address: str, picture: str) -> float:
    """Seconds from navigation until the view is painted."""
    window.goto(address, wait_until="commit")
    window.wait_for_selector(picture, state="attached")
    return (
        float(window.evaluate(f"async () => {{ await ({PAINTED})(); return performance.now() }}"))
        / 1000
    )


def hovered(window: Page, address: str, picture: str, tokens: str, hovers: int) -> Shown:
    """Open a page, then hover over one token after another."""
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
    locations = window.evaluate(
        """(tokens) => [...document.querySelectorAll(tokens)]
            .map((token) => token.getBoundingClientRect())
            .filter(({ top, bottom }) => top > 100 && bottom < innerHeight - 100)
            .map(({ left, top, width, height }) => [left + width / 2, top + height / 2])""",
        tokens,
    )
    work = []
    for number in range(hovers):
        x, y = locations[(7 * number) % len(locations)]
        before = worked(session)
        window.mouse.move(x, y)
        window.evaluate(PAINTED)
        work.append(worked(session) - before)
    return Shown(seconds, count, work, fetched, font)


def worked(session: CDPSession) -> float:
    """Seconds of work of the page's main thread so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


if __name__ == "__main__":
    main()
