"""Data parallelism with one to four real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.reporting.metrics import read_records
from tests.cli.commands import environment
from tests.training.torchrun import GroupExit, WorkerGroup, outputs_of, run

STEPS = 6
OVERRIDES = [
    f"training.steps={STEPS}",
    "training.gradient_accumulation_steps=4",
    "training.batch_tokens=64",
    "training.evaluate_every=3",
    "training.checkpoint_every=1",
    "training.log_every=1",
    "training.timeout=60",
    "training.ema_decay=0.9",
    "augmentation.token_dropout=0.2",
]
STRICT = "training.strict=true"
TIMES = {"seconds", "tokens_per_second"}


class Runs:
    """Groups of processes that train on the reviews, each in its own folder."""

    def __init__(self, recipe: Path, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.groups: list[WorkerGroup] = []

    def train(self, name: str, size: int, *overrides: str, **signals: Any) -> None:
        """Add a group that trains in the new folder `name`."""
        argv = ["train", str(self.recipe), *OVERRIDES, *overrides, "--out", str(self.folder / name)]
        self._add(name, size, argv, **signals)

    def resume(self, name: str, size: int, **signals: Any) -> None:
        """Add a group that resumes the run in the folder `name`."""
        self._add(name, size, ["train", "--resume", str(self.folder / name)], **signals)

    def _add(self, name: str, size: int, argv: list[str], step: int = 0, **signals: Any) -> None:
        after = str(self.folder / name / "checkpoints" / f"step-{step}")
        log = str(self.folder / f"{len(self.groups)}-{name}")
        self.groups.append(WorkerGroup(size, argv, log, after=after, **signals))

    def run(self) -> list[tuple[WorkerGroup, GroupExit]]:
        return list(zip(self.groups, run(self.groups), strict=True))


def stopped(step: int) -> dict[str, int]:
    return {"by": int(signal.SIGTERM), "step": step}


def bits(folder: Path) -> list[bytes]:
    """The bytes of the final weights and states."""
    last = folder / "checkpoints" / f"step-{STEPS}"
    return [
        (folder / "model.safetensors").read_bytes(),
        *(path.read_bytes() for path in sorted(last.glob("state-*"))),
    ]


def untimed_records(folder: Path) -> list[dict[str, Any]]:
    """The records of metrics.jsonl without times."""
    records = read_records(folder / "metrics.jsonl")
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


def codes(ends: Sequence[tuple[WorkerGroup, GroupExit]]) -> list[list[int]]:
    return [ended.codes for _, ended in ends]


@pytest.fixture(scope="module")
def alone(review_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The strict run of one process."""
    runs = Runs(review_recipe, tmp_path_factory.mktemp("alone"))
    runs.train("whole", 1, STRICT)
    assert codes(runs.run()) == [[0]]
    return runs.folder / "whole"


@pytest.mark.slow
def test_strict_gives_the_same_bits_with_any_number_of_processes(
    tmp_path: Path, review_recipe: Path, alone: Path
) -> None:
    """Which changes during the run: 4, then 1, then 3."""
    runs = Runs(review_recipe, tmp_path)
    runs.train("changed", 4, STRICT, **stopped(1))
    runs.resume("changed", 1, **stopped(3))
    runs.resume("changed", 3)
    ends = runs.run()
    assert codes(ends) == [[143] * 4, [143], [0, 0, 0]], outputs_of(ends[0][0])
    assert bits(tmp_path / "changed") == bits(alone)
    assert untimed_records(tmp_path / "changed") == untimed_records(alone)
    printed = [[bool(text) for text in outputs_of(group)] for group, _ in ends]
    assert all(first and not any(others) for first, *others in printed)
    (*_, last_line) = outputs_of(ends[0][0])[0].splitlines()
    assert last_line.startswith("jumok: stopped by SIGTERM after step ")


@pytest.mark.slow
def test_several_processes_learn_what_one_learns(tmp_path: Path, review_recipe: Path) -> None:
    """The same gradients and losses up to rounding; test_fsdp.py also changes their number."""
    runs = Runs(review_recipe, tmp_path)
    for size in (1, 3):
        runs.train(str(size), size, f"training.keep_checkpoints={STEPS}")
    ends = runs.run()
    assert codes(ends) == [[0], [0, 0, 0]], outputs_of(ends[1][0])
    one, three = (first_gradients(tmp_path / name) for name in ("1", "3"))
    assert max(gradient.abs().max() for gradient in one.values()) > 1e-3
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, three[name], rtol=0, atol=1e-6)
    for mine, reference in zip(
        untimed_records(tmp_path / "3"), untimed_records(tmp_path / "1"), strict=True
    ):
        assert mine["step"] == reference["step"]
        assert mine["loss"] == pytest.approx(reference["loss"], rel=1e-5)  # a few steps on
    results = json.loads((tmp_path / "3" / "results.json").read_text())
    assert (results["steps"], results["ended"], results["n"]) == (STEPS, "done", 40)


def first_gradients(folder: Path) -> dict[str, Tensor]:
    """The clipped gradients of the first step: its first moment is a tenth of them."""
    state = CheckpointStore(folder).checkpoint(1).load()["optimizer"]
    return {key: 10 * value for key, value in state.items() if key.startswith("exp_avg:")}


@pytest.mark.slow
def test_all_stop_early_together(tmp_path: Path, review_recipe: Path) -> None:
    overrides = ["training.steps=50", "training.evaluate_every=1", "training.patience=2", STRICT]
    runs = Runs(review_recipe, tmp_path)
    for size in (1, 2):
        runs.train(str(size), size, *overrides)
    assert codes(runs.run()) == [[0], [0, 0]]
    first, second = (
        json.loads((tmp_path / name / "results.json").read_text()) for name in ("1", "2")
    )
    assert first["ended"] == second["ended"] == "patience"
    assert first["steps"] == second["steps"] < 50


@pytest.mark.slow
def test_generation_is_shared_by_the_processes(tmp_path: Path, reading_recipe: Path) -> None:
    """The results contain every output of the test once."""
    runs = Runs(reading_recipe, tmp_path)
    for size in (1, 2):
        runs.train(str(size), size, STRICT, "augmentation.token_dropout=0", "training.steps=2")
    assert codes(runs.run()) == [[0], [0, 0]]
    one, two = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("1", "2"))
    for results in (one, two):
        for changing in ("wall_seconds", "training_seconds", "peak_memory_bytes"):
            del results[changing]
    assert one == two
    assert one["n"] == 40


@pytest.mark.slow
def test_errors_at_the_start_are_printed_once(tmp_path: Path, review_recipe: Path) -> None:
    runs = Runs(review_recipe, tmp_path)
    runs.train("idle", 3, "training.gradient_accumulation_steps=2")
    runs.train("wrong", 2, "training.gradient_accumulation_steps=two")
    runs.train("steep", 2, "training.learning_rate=9", "training.weight_decay=1e6", "data.bad=1")
    runs.train("steep", 2, "training.learning_rate=9", "training.weight_decay=1e6")
    ends = runs.run()
    assert codes(ends) == [[2, 2, 2], [2, 2], [2, 2], [4, 4]]
    for group, _ in ends:
        assert [text.count("jumok: ") for text in outputs_of(group)] == [1] + [0] * (group.size - 1)
    assert (
        "training.gradient_accumulation_steps must be at least the number of processes, got 2 for "
        "3 processes; set it to 3 or a multiple of it, or start 2"
    ) in outputs_of(ends[0][0])[0]
    assert not (tmp_path / "idle").exists()
    names = sorted(path.name for path in (tmp_path / "steep" / "bad-steps").iterdir())
    assert len(names) == 2
    assert all(f"-process-{rank}.safetensors" in name for rank, name in enumerate(names))


@pytest.mark.slow
def test_a_killed_process_ends_the_others_and_the_run_resumes(
    tmp_path: Path, review_recipe: Path, alone: Path
) -> None:
    """The others detect it themselves, without torchrun."""
    overrides = [STRICT, "training.timeout=240"]
    runs = Runs(review_recipe, tmp_path)
    runs.train("lost", 3, *overrides, by=int(signal.SIGKILL), hit=1, step=2)
    runs.resume("lost", 2)
    ends = runs.run()
    assert codes(ends) == [[6, -9, 6], [0, 0]]
    assert ends[0][1].seconds < 120  # before training.timeout, also on a busy machine
    for text in outputs_of(ends[0][0])[::2]:
        assert "lost contact: another one ended, or did not answer for 240 s" in text
        assert "Traceback" not in text
    assert bits(tmp_path / "lost") == bits(alone)


@pytest.mark.slow
def test_an_unwritable_model_ends_all_processes(tmp_path: Path, review_recipe: Path) -> None:
    """The other process does not begin the test, which both would share."""
    folder = tmp_path / "run"
    train(load_recipe(str(review_recipe), [*OVERRIDES, "training.steps=1"]), folder)
    for name in ("results.json", "model.safetensors"):
        (folder / name).unlink()
    (folder / "model.safetensors" / "in its place").mkdir(parents=True)
    runs = Runs(review_recipe, tmp_path)
    runs.resume("run", 2)
    ((group, ended),) = runs.run()
    first, second = outputs_of(group)
    assert ended.codes == [3, 3], first + second
    assert "model.safetensors: cannot be written" in first.splitlines()[-1]
    assert not second


@pytest.mark.slow
def test_torchrun_restarts_and_the_run_resumes(
    tmp_path: Path, review_recipe: Path, alone: Path
) -> None:
    """torchrun repeats the same command; the second time there is a run to resume."""
    folder = tmp_path / "run"
    argv = ["train", str(review_recipe), *OVERRIDES, STRICT, "--out", str(folder)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with subprocess.Popen(
        [sys.executable, *torchrun, "--max-restarts", "1", "-m", "jumok", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        owner = folder / ".training.json"
        while process.poll() is None and not (folder / "checkpoints" / "step-2").exists():
            pass
        os.kill(json.loads(owner.read_text())["process"], signal.SIGKILL)  # rank 0
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert out.count("report.html. Try the model:") == 1
    assert json.loads((folder / "results.json").read_text())["steps"] == STEPS
    newest = CheckpointStore(folder).newest()
    assert newest is not None
    assert newest.step == STEPS
    assert bits(folder) == bits(alone)
