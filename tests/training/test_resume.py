"""Real trainings that are stopped and resumed are bit-identical to uninterrupted ones.

Token dropout, subword sampling, dropout, gradient accumulation and the moving average are all on;
the checkpoints are in the middle of epochs.
"""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jumok.errors import CheckpointError
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import resume, train
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.reporting.metrics import read_records
from tests.cli.commands import JUMOK, Done, call, environment, run
from tests.errors import raises

STEPS = 40
OVERRIDES = (
    f"training.steps={STEPS}",
    "training.gradient_accumulation_steps=2",
    "training.ema_decay=0.9",
    "training.batch_tokens=200",
    "training.evaluate_every=16",
    "training.checkpoint_every=1",
    "training.log_every=3",
    "training.label_smoothing=0.1",
    "augmentation.subword_sampling=0.7",
    "augmentation.token_dropout=0.2",
)
TIMES = {"seconds", "tokens_per_second"}


@pytest.fixture(scope="module")
def whole(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The uninterrupted run, in a separate process as the resumed ones.

    Libraries that other tests load into this process change how it rounds.
    """
    return trained(review_recipe, tmp_path_factory.mktemp("whole") / "run")


def trained(recipe: Path, folder: Path, *overrides: str) -> Path:
    """Train in a separate process."""
    argv = ["train", str(recipe), *OVERRIDES, *overrides, "--out", str(folder)]
    subprocess.run([*JUMOK, *argv], env=environment(), check=True, capture_output=True)
    return folder


def untimed_records(folder: Path) -> list[dict[str, Any]]:
    """The records of metrics.jsonl without times."""
    records = read_records(folder / "metrics.jsonl")
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


def assert_the_same(folder: Path, whole: Path, steps: int = STEPS) -> None:
    assert (folder / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert untimed_records(folder) == untimed_records(whole)
    states = [
        {path.name: path.read_bytes() for path in (f / f"checkpoints/step-{steps}").glob("state-*")}
        for f in (folder, whole)
    ]
    assert states[0] == states[1]
    assert set(states[0]) == {f"state-{n}.safetensors" for n in ("average", "model", "optimizer")}


def newest(folder: Path) -> int:
    checkpoint = CheckpointStore(folder).newest()
    return 0 if checkpoint is None else checkpoint.step


def stopped(number: signal.Signals, folder: Path, recipe: Path, after: int) -> Done:
    """Train in a separate process, which gets a signal once step `after` is committed."""
    with subprocess.Popen(
        [*JUMOK, "train", str(recipe), *OVERRIDES, "--out", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        committed = folder / "checkpoints" / f"step-{after}"
        while process.poll() is None and not committed.exists():
            time.sleep(0.001)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=120)
    return Done(process.returncode, out.decode(), err.decode())


def resume_run(folder: Path) -> dict[str, Any]:
    """Resume in a separate process, as the message says; its results."""
    done = run("train", "--resume", folder, "--json")
    assert done.code == 0, done.err
    return done.rows[-1]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_resume_in_the_middle_of_an_epoch(
    tmp_path: Path, review_recipe: Path, whole: Path, number: signal.Signals, code: int
) -> None:
    folder = tmp_path / "내 run"
    done = stopped(number, folder, review_recipe, after=5)
    assert (done.code, done.out) == (code, "")
    step = newest(folder)
    assert 5 <= step < STEPS
    if code > 0:
        assert done.err.splitlines()[-1] == (
            f"jumok: stopped by {number.name} after step {step}, which is saved; "
            f"to resume: jumok train --resume '{folder}'"
        )
        assert "Traceback" not in done.err
    resume_run(folder)
    assert_the_same(folder, whole)


def copied(whole: Path, folder: Path, keep: int) -> Path:
    """Copy the run as it was after the commit of step `keep`."""
    import shutil

    shutil.copytree(whole, folder)
    for name in ("results.json", "model.safetensors", "config.json"):
        (folder / name).unlink()
    for path in (folder / "checkpoints").iterdir():
        if int(path.name.removeprefix("step-")) > keep:
            shutil.rmtree(path)
    return folder


def damage(checkpoint: Path) -> None:
    path = checkpoint / "state-optimizer.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.slow
def test_resume_after_the_last_step(tmp_path: Path, whole: Path) -> None:
    folder = copied(whole, tmp_path / "run", STEPS)
    assert resume_run(folder)["steps"] == STEPS
    assert_the_same(folder, whole)


def test_no_valid_checkpoint_exits_with_5(
    tmp_path: Path, review_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(review_run, tmp_path / "run", STEPS)
    for checkpoint in (folder / "checkpoints").iterdir():
        damage(checkpoint)
    done = call(capsys, "train", "--resume", folder)
    assert (done.code, done.out) == (5, "")
    assert "none of " in done.err
    assert "copy a valid one back, or train in another folder" in done.err


@pytest.mark.slow
def test_resume_without_a_checkpoint_starts_again(tmp_path: Path, whole: Path) -> None:
    folder = copied(whole, tmp_path / "run", keep=0)
    assert newest(folder) == 0
    resume_run(folder)
    assert_the_same(folder, whole)


@pytest.mark.slow
def test_resume_with_other_settings(tmp_path: Path, review_recipe: Path) -> None:
    """Two views of every batch, each with its own subwords and masks; another optimizer."""
    overrides = (
        "training.steps=8",
        "training.keep_checkpoints=9",
        "training.evaluate_every=4",
        "augmentation.rdrop_alpha=3.0",
        "training.optimizer=muon",
    )
    whole = trained(review_recipe, tmp_path / "whole", *overrides)
    folder = copied(whole, tmp_path / "run", keep=3)
    assert newest(folder) == 3
    resume_run(folder)
    assert_the_same(folder, whole, steps=8)


def test_resume_with_another_recipe_fails(tmp_path: Path, review_run: Path) -> None:
    folder = copied(review_run, tmp_path / "run", STEPS)
    recipe = folder / "recipe.toml"
    before = recipe.read_text()
    recipe.write_text(before.replace("learning_rate = 0.02", "learning_rate = 0.03"))
    assert recipe.read_text() != before
    with raises(CheckpointError, "checkpoint.of_another_run"):
        resume(folder)


def test_resume_with_other_data_fails(tmp_path: Path, review_recipe: Path) -> None:
    import shutil

    data = tmp_path / "data"
    shutil.copytree(review_recipe.parent, data)
    text = review_recipe.read_text().replace(str(review_recipe.parent), str(data))
    (data / "recipe.toml").write_text(text)
    folder = tmp_path / "run"
    train(load_recipe(str(data / "recipe.toml"), ["training.steps=2"]), folder)
    (folder / "results.json").unlink()
    with (data / "train.tsv").open("a") as file:
        file.write("음악이 좋았어요\tpositive\n")
    with raises(CheckpointError, "checkpoint.of_another_run"):
        resume(folder)
