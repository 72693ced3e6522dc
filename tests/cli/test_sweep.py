"""`jumok sweep`: trainings in processes; failures, repetition, Ctrl-C."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jumok.tasks.runs.run import Run
from tests.cli.commands import JUMOK, call, environment

Capture = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_a_failed_training_does_not_stop_the_others(
    capsys: Capture, review_recipe: Path, tmp_path: Path
) -> None:
    """A repeated sweep trains what failed, and leaves finished runs as they are."""
    missing = tmp_path / "missing.tsv"
    words = ("training.steps=1", "training.evaluate_every=1", "seed=3")
    words += (f"data.train={review_recipe.parent / 'train.tsv'},{missing}",)
    command = ("sweep", review_recipe, *words, "--out", tmp_path / "runs", "--workers", 2)
    done = call(capsys, *command)
    assert (done.code, done.error) == (1, "cli.trainings_failed")
    (failed,) = (tmp_path / "runs").glob("*missing*")
    assert f"{failed.name} failed with exit code 3: " in done.err
    assert "missing.tsv" in (failed / "train.log").read_text(encoding="utf-8")
    assert done.out.splitlines()[-1].split()[-1] == "1"  # seeds of the only row of the table
    (finished,) = (run for run in (tmp_path / "runs").iterdir() if run != failed)
    before = (finished / "results.json").stat().st_mtime_ns
    missing.write_bytes((review_recipe.parent / "train.tsv").read_bytes())
    done = call(capsys, *command)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == f"1 of 2 trainings are left, in {tmp_path / 'runs'}"
    assert len(done.out.splitlines()) == 5  # a line for the training, and a table of two rows
    assert (finished / "results.json").stat().st_mtime_ns == before


def test_what_is_refused(capsys: Capture, tmp_path: Path) -> None:
    done = call(capsys, "sweep", "numbers", "seed=1,2", "--seeds", 2, "--out", tmp_path)
    assert (done.code, done.error) == (2, "cli.seeds_given_twice")
    done = call(capsys, "sweep", "numbers", "training.stepz=1,2", "--out", tmp_path)
    assert (done.code, done.error) == (2, "config.unknown_key")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="sends signals")
def test_ctrl_c_writes_checkpoints_and_the_same_command_continues(
    review_recipe: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    words = ("training.steps=1500", "training.evaluate_every=1500", "--seeds", "3")
    command = [*JUMOK, "sweep", str(review_recipe), *words, "--workers", "2", "--out", str(folder)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
    )
    runs = [Run(folder / f"seed={seed}") for seed in range(3)]
    deadline = time.monotonic() + 240
    while not all((run.folder / "metrics.jsonl").exists() for run in runs[:2]):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 130
    assert "stopped by SIGINT; the same command continues the sweep" in err
    assert not runs[2].folder.exists()
    for run in runs[:2]:
        assert not (run.folder / ".training.json").exists()  # no process trains it any more
        assert run.finished or list((run.folder / "checkpoints").iterdir())
    done = subprocess.run(command, capture_output=True, env=environment(), text=True, check=True)
    assert all(run.finished for run in runs)
    assert done.stdout.splitlines()[-1].split()[-1] == "3"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kills a process")
def test_trainings_end_with_a_sweep_that_is_killed(review_recipe: Path, tmp_path: Path) -> None:
    """They write a checkpoint; the same command continues from it and trains the same weights."""
    words = ("training.steps=600", "training.evaluate_every=600", "seed=3")
    command = [*JUMOK, "sweep", str(review_recipe), *words, "--workers", "1", "--out"]
    # A process of its own: threads and libraries of this one would change the last digits.
    subprocess.run([*command, str(tmp_path / "whole")], env=environment(), check=True)
    process = subprocess.Popen([*command, str(tmp_path / "killed")], env=environment())
    run = tmp_path / "killed" / "seed=3"
    deadline = time.monotonic() + 240
    while not (run / "metrics.jsonl").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait(60)
    while (run / ".training.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not Run(run).finished
    assert list((run / "checkpoints").iterdir())
    done = subprocess.run(
        [*command, str(tmp_path / "killed")], capture_output=True, env=environment(), check=True
    )
    assert done.stderr == b""
    weights = "model.safetensors"
    assert (run / weights).read_bytes() == (tmp_path / "whole" / run.name / weights).read_bytes()


@pytest.mark.slow
def test_a_sweep_of_parts_in_a_file(review_recipe: Path, tmp_path: Path) -> None:
    """The sweep and its trainings find a schedule that no distribution registers."""
    example = Path(__file__).parents[2] / "examples" / "own_schedule.py"
    words = ("training.schedule=linear,wsd", "training.steps=2", "--seeds", "1")
    command = [*JUMOK, "sweep", str(review_recipe), *words, "--out", str(tmp_path / "runs")]
    refused = subprocess.run(
        command, capture_output=True, env=environment(), text=True, check=False
    )
    assert refused.returncode == 2
    assert "got 'wsd'" in refused.stderr
    done = subprocess.run(
        command,
        capture_output=True,
        env=environment(JUMOK_EXTENSIONS=str(example)),
        text=True,
        check=True,
    )
    assert {line.split()[0] for line in done.stdout.splitlines()[-2:]} == {"linear", "wsd"}
    recorded = (tmp_path / "runs" / "schedule=wsd,seed=0" / "extensions.json").read_text()
    assert '"module": "own_schedule"' in recorded
