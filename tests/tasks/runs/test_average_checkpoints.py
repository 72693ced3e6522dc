"""Averaged checkpoints: the mean of the weights, in a new run."""

import json
import shutil
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import jumok
from jumok import safetensors_io as tensorfile
from jumok.errors import CheckpointError, InputError
from jumok.models.weights import named_weights
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.average_checkpoints import average_checkpoints
from jumok.tasks.runs.train import resume, train
from jumok.training.checkpoints.store import CheckpointStore
from tests.errors import raises


@pytest.fixture(scope="module")
def kept_run(reading_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its last three checkpoints and a moving average."""
    overrides = [
        "training.steps=8",
        "training.evaluate_every=2",
        "training.keep_checkpoints=3",
        "training.ema_decay=0.5",
    ]
    folder = tmp_path_factory.mktemp("kept") / "run"
    train(load_recipe(str(reading_recipe), overrides), folder)
    return folder


def test_mean_weights_by_hand(kept_run: Path, tmp_path: Path) -> None:
    finished = average_checkpoints(kept_run, 3, tmp_path / "mean")
    assert finished.results["averaged_steps"] == [4, 6, 8]
    found = tensorfile.read_tensors(tmp_path / "mean" / "model.safetensors")
    parts = [
        tensorfile.read_tensors(kept_run / f"checkpoints/step-{step}/state-model.safetensors")
        for step in (4, 6, 8)
    ]
    assert found.keys() == parts[0].keys()
    for name, tensor in found.items():
        by_hand = (parts[0][name] + parts[1][name] + parts[2][name]) / 3
        torch.testing.assert_close(tensor, by_hand, rtol=1e-6, atol=1e-7)  # float64 sums there
    assert any((parts[0][name] != parts[2][name]).any() for name in found)


def test_an_average_is_a_run_that_predicts(kept_run: Path, tmp_path: Path) -> None:
    finished = average_checkpoints(kept_run, 2, tmp_path / "mean")
    results = finished.results
    assert (results["split"], results["n"]) == ("dev", 30)
    assert results["before"]["n"] == 30
    assert finished.run.results() == results
    answer = jumok.load(tmp_path / "mean")("삼 일")
    assert isinstance(answer, jumok.GeneratedText)
    for name in ("recipe.toml", "vocabulary.model"):
        assert (tmp_path / "mean" / name).read_bytes() == (kept_run / name).read_bytes()
    mean, kept = (
        json.loads((run / "config.json").read_text()) for run in (tmp_path / "mean", kept_run)
    )
    assert mean.pop("weights_sha256") != kept.pop("weights_sha256")
    assert mean == kept


def test_missing_checkpoints_are_an_error(kept_run: Path, tmp_path: Path) -> None:
    for last in (1, 4):
        with raises(InputError, "config.out_of_range"):
            average_checkpoints(kept_run, last, tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
    with raises(InputError, "run.folder_has_a_run"):
        average_checkpoints(kept_run, 2, kept_run)


def test_a_damaged_checkpoint_is_skipped(kept_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(kept_run, tmp_path / "run"))
    (run / "checkpoints/step-6/manifest.json").unlink()
    assert [each.step for each in CheckpointStore(run, 3).last(2)] == [8, 4]
    assert len(CheckpointStore(run, 3).last(9)) < 9
    assert average_checkpoints(run, 2, tmp_path / "mean").results["averaged_steps"] == [4, 8]


def test_an_average_cannot_be_resumed(kept_run: Path, tmp_path: Path) -> None:
    average_checkpoints(kept_run, 2, tmp_path / "mean")
    with raises(InputError, "run.average_not_resumable"):
        resume(tmp_path / "mean")


def test_load_a_checkpoint_of_a_run(kept_run: Path, tmp_path: Path) -> None:
    """With the moving average, like the finished run."""
    early = jumok.load(kept_run / "checkpoints/step-4", "cpu")
    found = tensorfile.read_tensors(kept_run / "checkpoints/step-4/state-average.safetensors")
    for name, weight in named_weights(early.model).items():
        assert torch.equal(weight, found[name])
    assert isinstance(early.ensemble([jumok.load(kept_run, "cpu")])("삼 일"), jumok.GeneratedText)
    with pytest.raises(CheckpointError, match=r"step-5: cannot be used .* resume the run"):
        jumok.load(kept_run / "checkpoints/step-5")
    moved = tmp_path / "run"
    shutil.copytree(kept_run, moved)
    recipe = moved / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("warmup_steps = ", "warmup_steps = 1"))
    with raises(CheckpointError, "run.foreign_checkpoint"):
        jumok.load(moved / "checkpoints/step-4")


@pytest.mark.parametrize("recipe", ["reading_recipe", "review_recipe"])
def test_load_a_checkpoint_of_a_running_training(
    recipe: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    class Predict(jumok.Callback):
        outputs: ClassVar[list[object]] = []

        def on_evaluation(self, status: jumok.TrainingStatus) -> None:
            for folder in sorted((status.folder / "checkpoints").glob("step-*")):
                assert not (status.folder / "config.json").exists()
                self.outputs.append(jumok.load(folder, "cpu")("삼 일"))

    path, settings = request.getfixturevalue(recipe), {"steps": 6, "evaluate_every": 2}
    overrides = {f"training__{name}": value for name, value in settings.items()}
    run = jumok.train(path, out=tmp_path / "run", callbacks=[Predict()], **overrides)
    kinds = jumok.GeneratedText | jumok.Prediction
    assert len(Predict.outputs) >= 1
    assert all(isinstance(each, kinds) for each in Predict.outputs)
    newest = jumok.load(run.folder / "checkpoints" / "step-6", "cpu")
    assert newest.labels == run.load("cpu").labels


def test_more_checkpoints_than_there_are(reading_recipe: Path, tmp_path: Path) -> None:
    overrides = ["training.steps=2", "training.evaluate_every=2", "training.keep_checkpoints=3"]
    train(load_recipe(str(reading_recipe), overrides), tmp_path / "run")
    with raises(InputError, "run.too_few_checkpoints"):
        average_checkpoints(tmp_path / "run", 3, tmp_path / "mean")
