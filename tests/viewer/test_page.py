"""Standalone pages: deterministic, without remote content, small, safe for hostile text."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from jumok.errors import InputError
from jumok.interpret.trace import Trace
from jumok.viewer import page
from jumok.viewer.compact import compact_trace
from jumok.viewer.page import (
    ALL_SCRIPTS,
    CORE_SCRIPTS,
    MAX_CORE_PAGE,
    _Page,
    csp_hash,
    render_page,
)
from jumok.viewer.view_state import ViewState
from tests.errors import raises
from tests.viewer.random_traces import HOSTILE, random_trace


class Elements(HTMLParser):
    """The elements of a page with their attributes and the text inside."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._inside = False
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))
        self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def script(self, name: str | None) -> str:
        """The content of the script with this id; None: the executed one."""
        (text,) = [
            text for tag, given, text in self.found if tag == "script" and given.get("id") == name
        ]
        return text

    @property
    def policy(self) -> dict[str, list[str]]:
        (content,) = [
            given["content"]
            for tag, given, _ in self.found
            if given.get("http-equiv") == "Content-Security-Policy"
        ]
        assert content is not None
        return {part.split()[0]: part.split()[1:] for part in content.split("; ")}


def unpacked(text: str) -> bytes:
    return gzip.decompress(base64.b64decode(text, validate=True))


def trace_in(page: bytes, folder: Path) -> Trace:
    path = folder / "embedded.safetensors"
    path.write_bytes(unpacked(Elements(page).script("trace")))
    return Trace.open(path)


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = random_trace(20, 12, 12, 8)
    saved = Trace.open(trace.save(tmp_path / "a.safetensors"))
    assert render_page(trace) == render_page(trace) == render_page(saved)


def test_nothing_but_its_own_style_and_script_may_run() -> None:
    elements = Elements(render_page(random_trace()))
    loader, script = elements.script(None), unpacked(elements.script("packed-script")).decode()
    style = unpacked(elements.script("packed-style")).decode()
    assert elements.policy == {
        "default-src": ["'none'"],
        "script-src": [csp_hash(loader), csp_hash(script)],
        "style-src": [csp_hash(style)],
        "img-src": ["blob:", "data:"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["jumok"],
    }
    assert "@font-face" not in style


def test_a_page_contains_no_url() -> None:
    page = render_page(random_trace(pieces=HOSTILE, title=HOSTILE[0]))
    elements = Elements(page)
    namespace = re.compile(
        r"http://www\.w3\.org/(?:2000/svg|1999/xlink|1999/xhtml|1998/Math/MathML)"
    )
    texts = [page.decode(), *(
        unpacked(elements.script(name)).decode() for name in ("packed-script", "packed-style")
    )]  # fmt: skip
    for text in texts:
        assert "://" not in namespace.sub("", text)
    for tag, given, _ in elements.found:
        assert not {"src", "srcset", "action", "data"} & set(given), tag
        assert given.get("href", "data:,") == "data:,"


def test_hostile_text_does_not_change_the_markup() -> None:
    plain, hostile = (
        render_page(random_trace(pieces=p, title=p[0])) for p in (HOSTILE, ["plain"] * len(HOSTILE))
    )
    tags = [[tag for tag, _, _ in Elements(page).found] for page in (plain, hostile)]
    assert tags[0] == tags[1]


def test_a_small_trace_is_embedded_whole(tmp_path: Path) -> None:
    trace = random_trace()
    embedded = trace_in(render_page(trace), tmp_path)
    assert embedded.to_bytes() == trace.to_bytes()


def test_the_state_is_checked_and_the_token_left_out() -> None:
    page = Elements(render_page(random_trace(), "#token=secret&v=matrix&x=<script>"))
    assert json.loads(page.script("boot")) == {
        "mode": "embedded",
        "state": "v=matrix&x=%3Cscript%3E",
    }
    with raises(InputError, "page.not_a_whole_number"):
        render_page(random_trace(20, 12, 12, 8), "H=-1")


def test_many_heads_are_embedded_in_part(tmp_path: Path) -> None:
    trace = random_trace(32, 12, 12, 64)
    part = trace_in(render_page(trace, "L=3&pin=encoder.7.1"), tmp_path)
    for layer in (3, 7):
        exact = trace.weights("encoder", layer)
        assert np.abs(part.weights("encoder", layer) - exact).max() < 1e-3
    assert "encoder.0.q" not in part.names
    assert any("left out" in note for note in part.info.notes)
    assert trace_in(render_page(trace, full=True), tmp_path).to_bytes() == trace.to_bytes()


def ordinary_review() -> Trace:
    """40 pieces, 4 layers of 4 heads with the steps inside the layers, as a run of NSMC gives."""
    trace, rng = random_trace(40, 4, 4, 64), np.random.default_rng(1)
    steps = ("self_attention", "after_self_attention", "feed_forward", "after_feed_forward")
    arrays = {name: trace.tensor(name) for name in trace.names}
    for layer in range(4):
        for step in steps:
            arrays[f"source.steps.{layer}.{step}"] = rng.normal(size=(1, 40, 256))
        arrays[f"source.steps.{layer}.hidden"] = np.maximum(rng.normal(size=(1, 40, 1024)), 0)
        arrays[f"encoder.{layer}.mixed"] = rng.normal(size=(1, 4, 40, 64))
    return Trace.from_tensors(arrays, trace.info)


def test_the_page_of_an_ordinary_review_takes_800_kilobytes(tmp_path: Path) -> None:
    trace = ordinary_review()
    content = render_page(trace)
    assert len(content) <= 800_000
    assert len(render_page(trace, full=True)) > 2_500_000
    small = trace_in(content, tmp_path)
    for layer in range(4):  # all weights and what they are computed from
        for name in (f"encoder.{layer}.{part}" for part in ("weights", "q", "k")):
            exact, found = (each.tensor(name).astype(np.float32) for each in (trace, small))
            np.testing.assert_allclose(found, exact, atol=4e-3)
    flow = [f"source.hidden.{layer}" for layer in range(5)]
    parts = ("self_attention", "after_self_attention", "feed_forward")
    flow += [f"source.steps.{layer}.{part}" for layer in range(4) for part in parts]
    assert {*flow} <= {*small.names}
    for name in flow:  # within half a step of the largest number of the row
        exact = trace.tensor(name).astype(np.float32)
        scale = np.abs(exact).max(-1, keepdims=True)
        np.testing.assert_allclose(small.tensor(name) / scale, exact / scale, atol=1 / 254 + 1e-6)
        assert name in small.rounded
    assert np.array_equal(small.hidden("source", 1), small.tensor("source.hidden.1")[0])
    assert any("rounded to 8 bits" in note for note in small.info.notes)


def test_a_page_that_computes_every_number_again_has_the_whole_trace(tmp_path: Path) -> None:
    trace = ordinary_review()
    whole = trace_in(render_page(trace, "v=calculation"), tmp_path)
    assert whole.to_bytes() == trace.to_bytes()


def test_a_page_with_no_space_has_thumbnails_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MAX_FULL_PAGES", (0, 0))
    trace = random_trace(32, 12, 12, 64)
    part = trace_in(render_page(trace, "v=masks"), tmp_path)
    assert {name.partition(".")[2] for name in part.names} == {"entropy", "mask", "thumbnails"}
    assert np.array_equal(part.thumbnails("encoder"), trace.thumbnails("encoder"))


def test_fewer_layers_are_exact_if_all_shown_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = random_trace(32, 12, 12, 64)
    pins = "&pin=" + "~".join(f"encoder.{layer}.0" for layer in range(12))
    around = len(_Page(trace.info, "", ALL_SCRIPTS).render(""))
    monkeypatch.setattr(page, "MAX_FULL_PAGES", (0, around + 200_000))
    part = trace_in(render_page(trace, f"v=masks&L=3{pins}"), tmp_path)
    assert "encoder.3.weights" in part.names
    assert "encoder.11.weights" not in part.names


@pytest.mark.slow
@pytest.mark.parametrize("view", ["explanation", "neuron", "alignment", "generation"])
def test_a_page_holds_the_view_that_it_opens_on(view: str) -> None:
    trace = random_trace(32, 12, 12, 64)
    scripts = [
        unpacked(Elements(render_page(trace, f"v={v}")).script("packed-script"))
        for v in (view, "matrix")
    ]
    everything = _Page(trace.info, "", ALL_SCRIPTS).script.encode()
    few = _Page(trace.info, "", CORE_SCRIPTS).script.encode()
    assert scripts == [everything, few]


@pytest.mark.parametrize(
    ("view", "layers"),
    [
        ("matrix", [("encoder", 1)]),
        ("alignment", [("cross", 1), ("encoder", 1)]),
        ("generation", [("cross", 1), ("decoder", 1), ("encoder", 1)]),
    ],
)
def test_layers_that_a_view_reads_are_exact(view: str, layers: list[tuple[str, int]]) -> None:
    info = random_trace(sides=("source", "target")).info
    assert ViewState.parse(f"v={view}&b=encoder&L=1").layers(info) == layers


def test_thumbnails_are_as_exact_as_the_page_says(tmp_path: Path) -> None:
    trace = random_trace(32, 12, 12, 64)
    for limit in (10**6, 160_000, 120_000):
        path = tmp_path / "lean.safetensors"
        content = compact_trace(trace, [], limit)
        assert content is not None
        path.write_bytes(content)
        small = Trace.open(path)
        noted = [re.search(r"within (0\.\d+)", note) for note in small.info.notes]
        bounds = [float(match[1]) for match in noted if match]
        absent = [n for n in range(12) if f"encoder.{n}.weights" not in small.names]
        assert bool(bounds) == bool(absent)
        for layer in absent:
            read = (small.thumbnails("encoder")[layer] / 255.0) ** 2
            assert np.abs(read - trace.weights("encoder", layer)).max() <= bounds[0] + 5e-4


@pytest.mark.parametrize("limit", [120_000, 200_000, 500_000, 3_000_000])
def test_a_compact_trace_keeps_its_limit(limit: int) -> None:
    content = compact_trace(random_trace(32, 12, 12, 64), [("encoder", 0)], limit)
    assert content is not None
    assert len(base64.b64encode(gzip.compress(content, 9))) <= limit * 1.01


def test_a_compact_trace_may_not_fit() -> None:
    assert compact_trace(random_trace(32, 12, 12, 64), [("encoder", 0)], 60_000) is None


def test_a_page_of_144_heads_and_32_tokens_takes_220_kilobytes() -> None:
    assert len(render_page(random_trace(32, 12, 12, 64))) <= MAX_CORE_PAGE < 220_000
