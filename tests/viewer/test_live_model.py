"""A loaded model behind the page: the effect of its heads, and its checkpoints."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import jumok
from jumok.errors import InputError
from jumok.interpret.interventions import patch_heads, patch_hidden, sweep_heads
from jumok.viewer.live_model import LiveModel
from jumok.viewer.request_schema import EffectsRequest, TraceRequest
from jumok.viewer.server import ServerContent
from jumok.viewer.trace_store import open_trace_store
from tests.errors import raises
from tests.viewer.page_server import Server, served

TEXT, OTHER = "연기가 지루해요", "지루해요 연기가"


@pytest.fixture(scope="module")
def live(review_run: Path) -> LiveModel:
    return LiveModel(jumok.load(review_run), run=review_run)


@pytest.fixture(scope="module")
def server(live: LiveModel) -> Iterator[Server]:
    with (
        open_trace_store() as store,
        served(ServerContent(store, live.card, None, live)) as running,
    ):
        yield running


def test_effects_are_those_of_the_functions(server: Server, review_run: Path) -> None:
    model = jumok.load(review_run)
    swept = server.request("/api/effects", {"text": TEXT}).json
    assert swept == sweep_heads(model, TEXT).to_table()
    patched = server.request("/api/effects", {"text": TEXT, "other": OTHER}).json
    assert patched == patch_heads(model, TEXT, OTHER).to_table()
    hidden = server.request("/api/effects", {"text": TEXT, "other": OTHER, "hidden": True}).json
    assert hidden == patch_hidden(model, TEXT, OTHER).to_table()
    muted = server.request("/api/effects", {"text": TEXT, "mute": [["encoder", 0, 1]]}).json
    assert muted == sweep_heads(model, TEXT, mute=[("encoder", 0, 1)]).to_table()


def test_effects_of_a_given_target(reading_run: Path) -> None:
    model = jumok.load(reading_run)
    request = EffectsRequest(TraceRequest(("세 시",), target="3시"))
    found = LiveModel(model).effects(request)
    assert found.to_table() == sweep_heads(model, "세 시", "3시").to_table()


def test_a_trace_with_the_weights_of_a_checkpoint(review_run: Path) -> None:
    pipeline = jumok.load(review_run)
    for weight in pipeline.model.parameters():
        weight.zero_()
    live = LiveModel(pipeline, run=review_run)
    names = live.card.checkpoints
    folders = (review_run / "checkpoints").glob("step-*")
    assert names == tuple(sorted((each.name for each in folders), key=lambda each: int(each[5:])))
    for name in (*names, names[0]):
        made = live.make_trace(TraceRequest((TEXT,), checkpoint=name))
        expected = jumok.trace(jumok.load(review_run / "checkpoints" / name), TEXT)
        assert made.info.classification == expected.info.classification
    zeros = live.make_trace(TraceRequest((TEXT,))).info.classification
    assert zeros is not None
    assert zeros.sequences[0].probabilities == (0.5, 0.5)


def test_refused_requests(live: LiveModel, server: Server) -> None:
    with raises(InputError, "page.unknown_checkpoint"):
        live.make_trace(TraceRequest((TEXT,), checkpoint="../step-1"))
    with raises(InputError, "page.not_a_string_or_null"):
        EffectsRequest.of_json({"text": "a", "other": 3})
    for wrong in ({"other": "b", "hidden": 1}, {"hidden": True}):
        with raises(InputError, "page.hidden_without_other"):
            EffectsRequest.of_json({"text": "a", **wrong})
    answer = server.request("/api/effects", {"text": TEXT, "other": "음"})
    assert (answer.status, "equally many tokens" in answer.error) == (400, True)


def test_a_saved_trace_has_no_effects(review_run: Path, tmp_path: Path) -> None:
    path = jumok.trace(jumok.load(review_run), TEXT).save(tmp_path / "a.safetensors")
    with (
        open_trace_store() as store,
        served(
            ServerContent(store, LiveModel(jumok.load(review_run)).card, store.register(path))
        ) as running,
    ):
        answer = running.request("/api/effects", {"text": TEXT})
        assert (answer.status, "start jumok view with a run" in answer.error) == (400, True)
