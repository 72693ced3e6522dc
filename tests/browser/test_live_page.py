"""A saved page that runs its model from file://, with the numbers of `jumok.trace`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jumok
from jumok.interpret.interventions import sweep_heads
from jumok.interpret.trace import Trace
from jumok.tasks.pipeline.pipeline import Pipeline
from tests.browser.chromium import Window
from tests.browser.conftest import Windows
from tests.formats.test_web_generation import MODELS, generator

pytestmark = pytest.mark.usefixtures("compiled")

TOLERANCE = 2e-5  # float32 sums in another order, here and there in float64

RUN = """async (run) => {
  const session = jumok["state/session"];
  await session.showRun({ target: null, decode: {}, mute: [], checkpoint: null, ...run });
  if (session.sessionError.value) throw new Error(session.sessionError.value);
  const trace = session.currentTrace.value, tensors = {};
  for (const name of trace.entries.keys()) {
    const shape = trace.shape(name);
    const count = shape.reduce((product, n) => product * n, 1);
    tensors[name] = { shape, data: Array.from(await trace.readCached(name, 0, count)) };
  }
  return { info: trace.info, tensors };
}"""


def assert_same(found: Any, expected: Trace) -> None:
    """Every tensor and every number of the header."""
    tensors = found["tensors"]
    assert sorted(tensors) == list(expected.names)
    for name in expected.names:
        own = expected.tensor(name).astype(np.float64)
        page = np.array(tensors[name]["data"]).reshape(tensors[name]["shape"])
        assert page.shape == own.shape, name
        # a root just between two bytes may be rounded to either
        tolerance = 1 if name.endswith("thumbnails") else TOLERANCE * max(1, np.abs(own).max())
        assert np.abs(page - own).max(initial=0) <= tolerance, name
    wanted = json.loads(expected.info.to_json())
    for key in wanted.keys() - {"made"}:
        assert_close(found["info"][key], wanted[key], key)


def assert_close(page: Any, own: Any, path: str) -> None:
    if isinstance(own, dict):
        assert page.keys() == own.keys(), path
        # Bytes that are not a character have spans by alignment in Python, of one � each here.
        skipped = ("spans", "words") if "\ufffd" in str(own.get("text")) else ()
        for key in own.keys() - {*skipped}:
            assert_close(page[key], own[key], f"{path}.{key}")
    elif isinstance(own, list):
        assert len(page) == len(own), path
        if (
            own and isinstance(own[0], dict) and "probability" in own[0]
        ):  # ranks of nearly 0 may differ
            page, own = (
                [each for each in side if each["probability"] > 1e-4] for side in (page, own)
            )
        for i, (a, b) in enumerate(zip(page, own, strict=True)):
            assert_close(a, b, f"{path}[{i}]")
    elif isinstance(own, float):
        assert page == pytest.approx(own, abs=TOLERANCE, rel=TOLERANCE), path
    else:
        assert page == own, path


MUTE_EACH = """(() => {
  const { inPage, currentTrace } = jumok["state/session"];
  return inPage.muteEach(currentTrace.value.info);
})()"""
SEARCHES: list[dict[str, object]] = [
    {"beam": 4},
    {"beam": 3, "n_best": 3, "early_stopping": "never", "no_repeat_ngram": 2},
    {"beam": 2, "min_length": 9, "max_length": 12, "repetition_penalty": 1.3},
    {"sample": True, "temperature": 1.5, "seed": 3},
    {"sample": True, "top_k": 5, "top_p": 0.9, "min_p": 0.01, "temperature": 3.0},
    {"sample": True, "typical_p": 0.8, "temperature": 2.0, "repetition_penalty": 1.2},
]


@contextmanager
def opened(windows: Windows, page: Path, trace: Trace) -> Iterator[Window]:
    """The page of a trace from file://, with the network off."""
    trace.html(page, live=True)
    with windows(language="en-US") as window:
        window.page.context.set_offline(True)
        window.open(page.as_uri())
        window.wait_until_equal(window.page.locator("[data-role=live]").count, 1, "the form")
        yield window
        assert window.violations() == []
        assert window.foreign_requests(page.as_uri()) == []


def test_every_number_of_note(windows: Windows, tmp_path: Path) -> None:
    note, page = jumok.load("note", device="cpu"), tmp_path / "note.html"
    with opened(windows, page, jumok.trace(note, "겨울은 추워요.")) as window:
        assert page.stat().st_size <= 1_100_000
        for text in ("봄은 따뜻해요.", "감기 조심하세요. ㅋㅋ 뷁", " 여름은  더워요", "가을은"):
            found = window.page.evaluate(RUN, {"text": text})
            assert_same(found, jumok.trace(note, text))
        given = window.page.evaluate(RUN, {"text": "봄은 따뜻해요.", "target": "Spring is cold."})
        assert_same(given, jumok.trace(note, "봄은 따뜻해요.", target="Spring is cold."))
        mute = [("encoder", 0, 1), ("cross", 1, 0), ("decoder", 1, 1)]
        names = [f"{block}.{layer}.{head}" for block, layer, head in mute]
        muted = window.page.evaluate(RUN, {"text": "봄은 따뜻해요.", "mute": names})
        assert_same(muted, jumok.trace(note, "봄은 따뜻해요.", mute=mute))
        for decode in SEARCHES:
            found = window.page.evaluate(RUN, {"text": "여름은", "decode": decode})
            assert_same(found, jumok.trace(note, "여름은", decode=decode))
        found = window.page.evaluate(RUN, {"text": "봄은 따뜻해요.", "mute": names})
        effects = window.run(MUTE_EACH)
        mine = sweep_heads(note, "봄은 따뜻해요.", mute=mute).to_table()
        assert_close(effects, json.loads(json.dumps(mine)), "effects")


TEXTS = ("감기 ㅋㅋ 뷁", "각낵 닥락", "\u1100\u1161\u11a8 나👍", "가 가")


@pytest.mark.parametrize("name", list(MODELS)[::3])
def test_every_number_of_random_models(windows: Windows, tmp_path: Path, name: str) -> None:
    """Byte pieces, rotary positions, norms before sublayers, continuations."""
    model, decode = generator(name), {"max_length": 14}
    with opened(windows, tmp_path / "page.html", jumok.trace(model, "가나")) as window:
        for text in TEXTS:
            found = window.page.evaluate(RUN, {"text": text, "decode": decode})
            assert_same(found, jumok.trace(model, text, decode=decode))
        long = window.page.evaluate(RUN, {"text": "가나" * 9, "decode": {"max_length": 60}})["info"]
        own = jumok.trace(model, "가나" * 9, decode={"max_length": 60}).info
        assert long["sides"]["target"][0]["ids"] == list(own.tokens("target").ids)


def test_every_number_of_a_classifier(windows: Windows, tmp_path: Path, review_run: Path) -> None:
    model = jumok.load(review_run, device="cpu")
    assert isinstance(model, Pipeline)
    texts = ("이 영화 정말 재미있어요 ㅋㅋ", "별로", "연기가 " * 12)
    with opened(windows, tmp_path / "page.html", jumok.trace(model, "화면이 좋았어요")) as window:
        for text in texts:
            assert_same(window.page.evaluate(RUN, {"text": text}), jumok.trace(model, text))
        muted = window.page.evaluate(RUN, {"text": texts[0], "mute": ["encoder.0.1"]})
        assert_same(muted, jumok.trace(model, texts[0], mute=[("encoder", 0, 1)]))


LINKS = {  # what the page cannot show, and its notice
    "v=matrix&L=9&q=99&u=letter&zoom=2": ["L=9", "q=99", "u=letter", "zoom=2"],
    "x=가을은&mute=encoder.9.0": ["encoder.9.0"],
    "x=가을은&cp=step-5": ["step-5"],
    "x=가을은&d=beam:0": ["beam=0"],
    "x=가을은&d=beams:4": ["beams"],
    "x=%20": ["Type a text"],
}


def test_a_saved_page_names_what_it_cannot_show(windows: Windows, tmp_path: Path) -> None:
    note, page = jumok.load("note", device="cpu"), tmp_path / "note.html"
    answer = note("겨울은 추워요.").output  # type: ignore[attr-defined]
    with opened(windows, page, jumok.trace(note, "겨울은 추워요.")) as window:
        alert = window.page.locator("[role=alert]")
        for state, parts in LINKS.items():
            window.page.goto("about:blank")
            window.open(page.as_uri(), state)
            alert.first.wait_for()
            said = alert.first.inner_text()
            assert [part for part in parts if part not in said] == [], said
            assert answer in window.page.locator("[data-role=answer]").inner_text()
        window.page.goto("about:blank")
        window.open(page.as_uri(), "v=matrix&L=1&q=2&u=word&x=가을은&d=sample:true~seed:7")
        window.page.get_by_text("seed 7").wait_for()
        assert alert.count() == 0
        window.page.get_by_role("textbox", name="input text").fill(" ")
        alert.wait_for()
        assert "Type a text" in alert.inner_text()


def test_the_form_of_a_saved_page(windows: Windows, tmp_path: Path) -> None:
    """Typed text, its answer and the address of the run."""
    note = jumok.load("note", device="cpu")
    page = tmp_path / "note.html"
    with opened(windows, page, jumok.trace(note, "겨울은 추워요.")) as window:
        field = window.page.get_by_role("textbox", name="input text")
        field.fill("봄은 따뜻해요.")
        field.press("Enter")
        answer = note("봄은 따뜻해요.").output  # type: ignore[attr-defined]
        decoding = 'jumok["state/session"].currentTrace.value.info.decoding'
        window.wait_until_equal(lambda: window.run(f"{decoding}.output"), answer, "the new trace")
        window.page.get_by_role("button", name="settings").click()
        options = window.page.locator("[data-role=settings] select option").all_inner_texts()
        assert "decoding: beam search" in options
        assert "decoding: sampling" in options
        field.fill("감기 조심하세요.")  # without Enter
        answer = note("감기 조심하세요.").output  # type: ignore[attr-defined]
        window.wait_until_equal(lambda: window.run(f"{decoding}.output"), answer, "while typing")
        window.page.keyboard.press("Escape")
        window.run("document.activeElement.blur()")
        window.page.keyboard.press("?")
        size = window.page.locator("[data-role=page-size]").inner_text()
        assert int(size.split()[0]) == pytest.approx(page.stat().st_size / 1000, abs=20)
        assert "kernel 1" in size
        address = window.page.url
    with windows(language="en-US") as window:  # the address has the run
        window.open(address)
        window.wait_until_equal(lambda: window.run(f"{decoding}.output"), answer, "the same trace")
