"""A trace of one text with the weights of each checkpoint of a run."""

from pathlib import Path

import numpy as np
import pytest

import jumok
from jumok.errors import InputError
from jumok.interpret import Trace, checkpoint_trace, trace_checkpoints
from jumok.training.reporting.metrics import read_records
from tests.errors import raises

TEXT = "연기가 정말 지루해요"
KEPT = {"steps": 20, "checkpoint_every": 4, "keep_checkpoints": 9, "evaluate_every": 8}


@pytest.fixture(scope="module")
def run(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from jumok.tasks.runs.api import train

    settings = {f"training__{key}": value for key, value in KEPT.items()}
    return train(review_recipe, out=tmp_path_factory.mktemp("kept") / "run", **settings).folder


def test_each_sequence_is_the_trace_of_a_checkpoint(run: Path, tmp_path: Path) -> None:
    path = trace_checkpoints(run, TEXT, device="cpu").save(tmp_path / "training.safetensors")
    traced = Trace.open(path)
    steps = [frame.step for frame in traced.info.frames]
    assert steps == [4, 8, 12, 16, 20]
    assert traced.info.sequences == 5
    scores = {
        r["step"]: r["score"] for r in read_records(run / "metrics.jsonl") if r["kind"] == "dev"
    }
    assert [frame.score for frame in traced.info.frames] == [scores.get(step) for step in steps]
    assert traced.info.frames[1].metric == "accuracy"
    assert traced.info.classification is not None
    for number, step in enumerate(steps):
        alone = jumok.trace(jumok.load(run / "checkpoints" / f"step-{step}", "cpu"), TEXT)
        assert alone.info.classification is not None
        found = traced.info.classification.sequences[number]
        assert found == alone.info.classification.sequences[0]
        for block in alone.info.blocks:
            for layer in range(block.layers):
                expected = alone.weights(block.name, layer)
                assert np.array_equal(traced.weights(block.name, layer, number), expected)
            assert np.array_equal(
                traced.thumbnails(block.name, number), alone.thumbnails(block.name)
            )
    first, last = traced.weights("encoder", 0, 0), traced.weights("encoder", 0, 4)
    assert not np.allclose(first, last, atol=1e-3)


def test_a_target_is_that_of_the_last_checkpoint(reading_run: Path) -> None:
    traced = trace_checkpoints(reading_run, "삼 일", device="cpu")
    newest = max((reading_run / "checkpoints").glob("step-*"), key=lambda each: int(each.name[5:]))
    written = jumok.load(newest, "cpu")("삼 일").output
    assert {tokens.text for tokens in traced.info.sides["target"]} == {written}
    assert len(traced.info.more_decodings) == traced.info.sequences - 1
    given = trace_checkpoints(reading_run, "삼 일", "3 1", device="cpu")
    assert given.info.tokens("target", 1).text == "3 1"


def test_few_of_many_checkpoints_are_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_trace, "MAX_FRAMES", 3)
    traced = trace_checkpoints(run, TEXT, device="cpu")
    assert [frame.step for frame in traced.info.frames] == [4, 12, 20]
    assert checkpoint_trace.CHECKPOINTS_LEFT_OUT in traced.info.notes
    monkeypatch.setattr(checkpoint_trace, "MAX_BYTES", 1)
    with raises(InputError, "trace.checkpoints_too_large"):
        trace_checkpoints(run, TEXT, device="cpu")


def test_a_run_without_checkpoints_is_refused(tmp_path: Path) -> None:
    with raises(InputError, "trace.too_few_checkpoints"):
        trace_checkpoints(tmp_path, TEXT)
