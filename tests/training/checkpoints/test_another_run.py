"""A checkpoint of another run in a run's folder is an error and is never used."""

import shutil
from pathlib import Path

import pytest

from jumok.errors import CheckpointError, InputError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.average_checkpoints import average_checkpoints
from jumok.tasks.runs.train import resume, train
from jumok.training.checkpoints.store import CheckpointStore
from tests.cli.commands import call
from tests.errors import raises

Capture = pytest.CaptureFixture[str]
OVERRIDES = ("training.steps=4", "training.evaluate_every=2", "training.keep_checkpoints=2")


def trained(recipe: Path, folder: Path, seed: int) -> Path:
    """A run of four steps, with the checkpoints of steps 2 and 4."""
    train(load_recipe(str(recipe), [*OVERRIDES, f"seed={seed}"]), folder)
    return folder


@pytest.fixture(scope="module")
def two(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two runs of one recipe with different seeds: all shapes and names are equal."""
    home = tmp_path_factory.mktemp("two")
    return trained(review_recipe, home / "own", 0), trained(review_recipe, home / "other", 1)


def mixed(two: tuple[Path, Path], folder: Path, step: int) -> Path:
    """A copy of the first run, unfinished, with one checkpoint of the second run."""
    own, other = two
    shutil.copytree(own, folder)
    (folder / "results.json").unlink()
    replaced = folder / "checkpoints" / f"step-{step}"
    shutil.rmtree(replaced)
    shutil.copytree(other / "checkpoints" / f"step-{step}", replaced)
    return folder


def test_the_newest_checkpoint_belongs_to_another_run(
    two: tuple[Path, Path], tmp_path: Path, capsys: Capture
) -> None:
    folder = mixed(two, tmp_path / "run", 4)
    done = call(capsys, "train", "--resume", folder)
    assert (done.code, done.out) == (5, "")
    message = done.err.splitlines()[-1]
    assert "step-4: its recipe must be that of the run" in message
    assert "move it away to resume from an older one" in message
    shutil.rmtree(folder / "checkpoints" / "step-4")  # as the message says
    resume(folder)
    left, right = ((each / "model.safetensors").read_bytes() for each in (folder, two[0]))
    assert left == right


def test_the_best_checkpoint_belongs_to_another_run(two: tuple[Path, Path], tmp_path: Path) -> None:
    """It is older than the one that is resumed, and the run would end with its weights."""
    folder = mixed(two, tmp_path / "run", 2)
    newest = CheckpointStore(folder).newest()
    assert newest is not None
    assert dict(newest.metadata["progress"])["best_step"] == 2  # type: ignore[arg-type]
    with raises(CheckpointError, "checkpoint.of_another_run"):
        resume(folder)


def test_checkpoints_of_two_runs_are_not_averaged(two: tuple[Path, Path], tmp_path: Path) -> None:
    folder = mixed(two, tmp_path / "run", 2)
    shutil.copyfile(two[0] / "results.json", folder / "results.json")
    with raises(InputError, "run.checkpoint_of_another_run"):
        average_checkpoints(folder, 2, tmp_path / "mean")
