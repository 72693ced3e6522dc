"""The flow: the numbers of the trace in one picture, played, scrubbed and zoomed into."""

from pathlib import Path

import numpy as np
import pytest

from jumok.interpret.trace import Trace
from tests.browser.conftest import Serve, Windows
from tests.browser.test_views import traced
from tests.viewer.random_traces import random_trace

KINDS = ("classifier", "language model", "sequences")


@pytest.mark.parametrize("kind", KINDS)
def test_the_flow_shows_the_numbers_of_the_trace(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str
) -> None:
    path = traced(tmp_path, kind)
    trace = Trace.open(path)
    with windows() as window:
        window.open(serve(path), "v=flow&lang=en")
        window.page.locator(".flow svg").first.wait_for()
        header, *rows = window.table(tmp_path)
        table = [dict(zip(header, row, strict=True)) for row in rows]
        for block in trace.info.blocks:
            sublayer = "cross" if block.name == "cross" else "attention"
            for layer in range(block.layers):
                weights = trace.weights(block.name, layer, 0).mean(axis=0)  # (T, S)
                of_layer = [
                    row
                    for row in table
                    if (row["side"], row["layer"], row["sublayer"])
                    == (block.queries, str(layer), sublayer)
                ]
                assert len(of_layer) == weights.shape[0]
                for token, row in enumerate(of_layer):
                    for link in row["attends"].split():
                        key, weight = link.split(":")
                        assert float(weight) == pytest.approx(weights[token, int(key)], abs=1e-4)
        side = trace.info.blocks[0].queries
        stream, change = (
            trace.tensor(f"{side}.hidden.0")[0],
            trace.tensor(f"{side}.steps.0.self_attention")[0],
        )
        ratio = np.linalg.norm(change, axis=-1) / np.linalg.norm(stream, axis=-1)
        shown = [
            float(row["added"])
            for row in table
            if (row["side"], row["layer"], row["sublayer"]) == (side, "0", "attention")
        ]
        assert shown == pytest.approx(ratio.tolist(), rel=1e-4)


def test_the_flow_is_played_and_zoomed_to_one_multiplication_and_back(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    with windows(width=1440, height=900) as window:
        window.open(serve(traced(tmp_path, "sequences")), "v=flow&lang=en")
        moment = window.page.locator("[data-role=moment]")
        window.wait_until_equal(lambda: "whole" in moment.inner_text(), True, "the whole model")
        window.page.keyboard.press(" ")
        window.wait_until_equal(lambda: "tokens" in moment.inner_text(), True, "the first moment")
        play = window.page.locator("[data-role=play]")
        play.click()
        window.wait_until_equal(lambda: "feed-forward" in moment.inner_text(), True, "playing")
        play.click()
        window.show("v=flow&lang=en&b=encoder&L=1&q=2")
        heads = window.page.locator("[data-role=zoom-head]")
        heads.first.wait_for()
        assert heads.count() == 2
        heads.nth(1).click()
        window.page.wait_for_selector("[data-role=stage][data-view=neuron]")
        place = window.page.locator(".inspector-place")
        assert "L1 H1" in place.inner_text()
        window.wait_until_equal(
            lambda: "v=neuron" in window.run("location.hash"), True, "the address"
        )
        window.page.go_back()
        window.page.wait_for_selector("[data-role=stage][data-view=flow] svg")


def test_the_flow_of_a_deep_model_is_small_and_smooth(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    path = random_trace(64, layers=12, heads=12, d_head=8).save(tmp_path / "deep.safetensors")
    with windows(width=1440, height=900) as window:
        window.page.emulate_media(reduced_motion="no-preference")
        window.open(serve(path), "v=flow&lang=en")
        window.page.locator(".flow svg").first.wait_for()
        assert window.run("document.querySelectorAll('*').length") <= 3_000
        window.page.locator("[data-role=play]").click()
        work = window.run(
            """() => new Promise((done) => {
                const [seen, before] = [[], performance.now];
                const real = requestAnimationFrame;
                window.requestAnimationFrame = (f) => real((now) => {
                    const start = performance.now();
                    f(now);
                    seen.push(performance.now() - start);
                    if (seen.length === 60) done(seen.sort((a, b) => a - b)[30]);
                });
            })"""
        )
        print(f"median main-thread work of a frame: {work:.2f} ms")
        assert work <= 8


@pytest.mark.parametrize("kind", ["language model", "sequences", "masked"])
def test_the_logit_lens_of_every_layer_is_shown(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str
) -> None:
    path = traced(tmp_path, kind)
    info = Trace.open(path).info
    assert info.lens is not None
    with windows(width=1440, height=900) as window:
        window.open(serve(path), f"v=flow&lang=en&b={info.blocks[0].name}&L=0&H=0")
        window.page.locator("[data-role=lens]").wait_for()
        header, *rows = window.table(tmp_path)
        table = [dict(zip(header, row, strict=True)) for row in rows]
        for layer, expected in enumerate(info.lens[1:]):
            shown = [
                [part.split(":") for part in row["lens"].split()]
                for row in table
                if (row["side"], row["layer"], row["sublayer"])
                == (info.lens_side, str(layer), "lens")
            ][: len(expected)]
            assert [[(int(i), float(p)) for i, p in token] for token in shown] == [
                [(one.id, one.probability) for one in token] for token in expected
            ]
        block = "encoder" if info.lens_side == "source" else "decoder"
        window.show(f"v=flow&lang=en&b={block}&L=0&H=0&q=1")
        cells = window.page.locator("[data-role=lens] td")
        ids = [str(one.id) for layer in info.lens for one in layer[1]]
        window.wait_until_equal(
            lambda: cells.evaluate_all("all => all.map(each => each.dataset.id)"), ids, "the lens"
        )


def test_a_trace_without_a_lens_and_a_narrow_window_draw_none(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    classifier, language_model = traced(tmp_path, "classifier"), traced(tmp_path, "language model")
    with windows(width=1440, height=900) as window:
        window.open(serve(classifier), "v=flow&lang=en")
        window.page.locator(".flow svg").first.wait_for()
        assert window.page.locator("[data-role=lens]").count() == 0
        assert "lens" not in window.page.locator(".flow svg").first.inner_html()
    with windows(width=390, height=844) as window:
        window.open(serve(language_model), "v=flow&lang=en")
        window.page.locator("[data-role=lens]").wait_for()
        assert "lens" not in window.page.locator(".flow svg").first.inner_html()
