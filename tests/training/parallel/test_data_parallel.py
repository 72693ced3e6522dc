"""Two, three and four real processes that learn what one learns."""

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed import HashStore

from jumok.errors import InputError
from jumok.processes import (
    SINGLE_PROCESS,
    check_world_size,
    is_main_process,
    microbatches_of_rank,
    raise_together,
    rendezvous,
)
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.train import train
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.reporting.metrics import read_records
from tests.cli.commands import environment
from tests.training.torchrun import GroupExit, WorkerGroup, outputs_of, run

STEPS = 6
WORDS = [
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
    """Gangs that train the reviews in folders of their own."""

    def __init__(self, recipe: Path, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder
        self.gangs: list[WorkerGroup] = []

    def begin(self, name: str, size: int, *words: str, **signals: Any) -> None:
        """A gang that trains anew in the folder `name`."""
        line = ["train", str(self.recipe), *WORDS, *words, "--out", str(self.folder / name)]
        self._add(name, size, line, **signals)

    def go_on(self, name: str, size: int, **signals: Any) -> None:
        """A gang that goes on in the folder `name`."""
        self._add(name, size, ["train", "--resume", str(self.folder / name)], **signals)

    def _add(self, name: str, size: int, line: list[str], step: int = 0, **signals: Any) -> None:
        after = str(self.folder / name / "checkpoints" / f"step-{step}")
        log = str(self.folder / f"{len(self.gangs)}-{name}")
        self.gangs.append(WorkerGroup(size, line, log, after=after, **signals))

    def run(self) -> list[tuple[WorkerGroup, GroupExit]]:
        return list(zip(self.gangs, run(self.gangs), strict=True))


def stopped(step: int) -> dict[str, int]:
    return {"by": int(signal.SIGTERM), "step": step}


def bits(folder: Path) -> list[bytes]:
    """All that a training leaves in numbers."""
    last = folder / "checkpoints" / f"step-{STEPS}"
    return [
        (folder / "model.safetensors").read_bytes(),
        *(path.read_bytes() for path in sorted(last.glob("state-*"))),
    ]


def story(folder: Path) -> list[dict[str, Any]]:
    """What metrics.jsonl tells, but for the times."""
    records = read_records(folder / "metrics.jsonl")
    return [{k: v for k, v in record.items() if k not in TIMES} for record in records]


def codes(ends: Sequence[tuple[WorkerGroup, GroupExit]]) -> list[list[int]]:
    return [ended.codes for _, ended in ends]


def test_strict_gives_the_same_bits_with_any_number_of_processes(
    tmp_path: Path, review_recipe: Path
) -> None:
    """Also when the number changes on the way: 2, then 1, then 3."""
    runs = Runs(review_recipe, tmp_path)
    for size in (1, 2, 3, 4):
        runs.begin(str(size), size, STRICT)
    runs.begin("changed", 2, STRICT, **stopped(1))
    runs.go_on("changed", 1, **stopped(3))
    runs.go_on("changed", 3)
    ends = runs.run()
    assert codes(ends[:4]) == [[0] * size for size in (1, 2, 3, 4)], outputs_of(ends[0][0])
    assert codes(ends[4:]) == [[143, 143], [143], [0, 0, 0]]
    for name in ("2", "3", "4", "changed"):
        assert bits(tmp_path / name) == bits(tmp_path / "1"), name
        assert story(tmp_path / name) == story(tmp_path / "1")
    spoke = [[bool(text) for text in outputs_of(gang)] for gang, _ in ends]
    assert all(first and not any(others) for first, *others in spoke)
    (*_, sentence) = outputs_of(ends[4][0])[0].splitlines()
    assert sentence.startswith("jumok: stopped by SIGTERM after step ")


@pytest.mark.slow
def test_ordinary_processes_learn_what_one_learns(tmp_path: Path, review_recipe: Path) -> None:
    """The same gradients and loss curve but for rounding, also when the number changes."""
    runs = Runs(review_recipe, tmp_path)
    for size in (1, 3):
        runs.begin(str(size), size, f"training.keep_checkpoints={STEPS}")
    runs.begin("changed", 2, **stopped(1))
    runs.go_on("changed", 1, **stopped(3))
    runs.go_on("changed", 3)
    ends = runs.run()
    assert codes(ends) == [[0], [0, 0, 0], [143, 143], [143], [0, 0, 0]], outputs_of(ends[1][0])
    one, three = (first_gradients(tmp_path / name) for name in ("1", "3"))
    assert max(gradient.abs().max() for gradient in one.values()) > 1e-3
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, three[name], rtol=0, atol=1e-6)
    for name in ("3", "changed"):
        for mine, theirs in zip(story(tmp_path / name), story(tmp_path / "1"), strict=True):
            assert mine["step"] == theirs["step"]
            assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-5)  # a few steps on
    results = json.loads((tmp_path / "3" / "results.json").read_text())
    assert (results["steps"], results["ended"], results["n"]) == (STEPS, "done", 40)


def first_gradients(folder: Path) -> dict[str, Tensor]:
    """The (clipped) gradients of the first step: their mean is then a tenth of them."""
    state = CheckpointStore(folder).checkpoint(1).load()["optimizer"]
    return {key: 10 * value for key, value in state.items() if key.startswith("exp_avg:")}


@pytest.mark.slow
def test_all_stop_early_together(tmp_path: Path, review_recipe: Path) -> None:
    words = ["training.steps=50", "training.evaluate_every=1", "training.patience=2", STRICT]
    runs = Runs(review_recipe, tmp_path)
    for size in (1, 2):
        runs.begin(str(size), size, *words)
    assert codes(runs.run()) == [[0], [0, 0]]
    first, second = (
        json.loads((tmp_path / name / "results.json").read_text()) for name in ("1", "2")
    )
    assert first["ended"] == second["ended"] == "patience"
    assert first["steps"] == second["steps"] < 50


@pytest.mark.slow
def test_what_is_written_is_shared_too(tmp_path: Path, reading_recipe: Path) -> None:
    """Every answer of the test is in the results once, whoever wrote it."""
    runs = Runs(reading_recipe, tmp_path)
    for size in (1, 2):
        runs.begin(str(size), size, STRICT, "augmentation.token_dropout=0", "training.steps=2")
    assert codes(runs.run()) == [[0], [0, 0]]
    one, two = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("1", "2"))
    for results in (one, two):
        for changing in ("wall_seconds", "training_seconds", "peak_memory_bytes"):
            del results[changing]
    assert one == two
    assert one["n"] == 40


def test_what_cannot_begin_is_said_once(tmp_path: Path, review_recipe: Path) -> None:
    runs = Runs(review_recipe, tmp_path)
    runs.begin("idle", 3, "training.gradient_accumulation_steps=2")
    runs.begin("wrong", 2, "training.gradient_accumulation_steps=two")
    runs.begin("steep", 2, "training.learning_rate=9", "training.weight_decay=1e6", "data.bad=1")
    runs.begin("steep", 2, "training.learning_rate=9", "training.weight_decay=1e6")
    ends = runs.run()
    assert codes(ends) == [[2, 2, 2], [2, 2], [2, 2], [4, 4]]
    for gang, _ in ends:
        assert [text.count("jumok: ") for text in outputs_of(gang)] == [1] + [0] * (gang.size - 1)
    assert (
        "training.gradient_accumulation_steps must be at least the number of processes, got 2 for "
        "3 processes; set it to 3 or a multiple of it, or start 2"
    ) in outputs_of(ends[0][0])[0]
    assert not (tmp_path / "idle").exists()
    names = sorted(path.name for path in (tmp_path / "steep" / "bad-steps").iterdir())
    assert len(names) == 2
    assert all(f"-process-{rank}.safetensors" in name for rank, name in enumerate(names))


def test_a_killed_process_ends_the_others_and_the_run_goes_on(
    tmp_path: Path, review_recipe: Path
) -> None:
    """Nobody tells the others, as torchrun would: they notice."""
    words = [STRICT, "training.timeout=240"]
    runs = Runs(review_recipe, tmp_path)
    runs.begin("whole", 1, *words)
    runs.begin("lost", 3, *words, by=int(signal.SIGKILL), hit=1, step=2)
    runs.go_on("lost", 2)
    ends = runs.run()
    assert codes(ends) == [[0], [6, -9, 6], [0, 0]]
    assert ends[1][1].seconds < 120  # before training.timeout, also on a busy machine
    for text in outputs_of(ends[1][0])[::2]:
        assert "lost contact: another one ended, or did not answer for 240 s" in text
        assert "Traceback" not in text
    assert bits(tmp_path / "lost") == bits(tmp_path / "whole")


def test_a_model_that_one_cannot_write_ends_all_with_its_sentence(
    tmp_path: Path, review_recipe: Path
) -> None:
    """The others begin no test that it would have to share."""
    folder = tmp_path / "run"
    train(load_recipe(str(review_recipe), [*WORDS, "training.steps=1"]), folder)
    for name in ("results.json", "model.safetensors"):
        (folder / name).unlink()
    (folder / "model.safetensors" / "in its place").mkdir(parents=True)
    runs = Runs(review_recipe, tmp_path)
    runs.go_on("run", 2)
    ((gang, ended),) = runs.run()
    first, second = outputs_of(gang)
    assert ended.codes == [3, 3], first + second
    assert "model.safetensors: cannot be written" in first.splitlines()[-1]
    assert not second


@pytest.mark.slow
def test_torchrun_starts_anew_and_the_run_goes_on(tmp_path: Path, review_recipe: Path) -> None:
    """The same words each time: the second time there is a run to go on with."""
    folder = tmp_path / "run"
    words = ["train", str(review_recipe), *WORDS, STRICT, "--out", str(folder)]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with subprocess.Popen(
        [sys.executable, *torchrun, "--max-restarts", "1", "-m", "jumok", *words],
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
    assert out.count("open report.html there") == 1
    assert json.loads((folder / "results.json").read_text())["steps"] == STEPS
    newest = CheckpointStore(folder).newest()
    assert newest is not None
    assert newest.step == STEPS
    runs = Runs(review_recipe, tmp_path)
    runs.begin("whole", 1, STRICT)
    assert codes(runs.run()) == [[0]]
    assert bits(folder) == bits(tmp_path / "whole")


# Without processes


def test_every_batch_of_a_step_has_one_owner() -> None:
    for n in range(1, 9):
        for size in range(1, n + 1):
            shards = [microbatches_of_rank(rank, size, n) for rank in range(size)]
            assert [i for shard in shards for i in shard] == list(range(n))
            assert max(map(len, shards)) == math.ceil(n / size)
            assert min(map(len, shards)) >= 1


def test_more_processes_than_batches_are_refused() -> None:
    check_world_size(2, 2)
    with pytest.raises(
        InputError, match=r"set training.gradient_accumulation_steps to 2 or a multiple of it$"
    ):
        check_world_size(2, 1)


def test_what_the_lost_ones_said_misleads_nobody() -> None:
    """A store that still knows a hello, and an address, of processes that are no more."""
    store = HashStore()
    store.set("hello/1", "dead")
    with ThreadPoolExecutor() as pool:
        met = [pool.submit(rendezvous, store, rank, 2, 30.0) for rank in (0, 1)]
        first, second = (meeting.result() for meeting in met)
    first.set("address", "of rank 0")
    assert second.get("address") == b"of rank 0"
    assert not store.check(["address"])


def test_who_does_not_come_is_not_waited_for() -> None:
    with pytest.raises(RuntimeError, match=r"not all of 2 processes connected within 0.05 s"):
        rendezvous(HashStore(), 0, 2, 0.05)


def test_alone_an_error_is_ones_own() -> None:
    with pytest.raises(InputError, match="words"), raise_together(SINGLE_PROCESS):
        raise InputError("words")
    with pytest.raises(ZeroDivisionError), raise_together(SINGLE_PROCESS):
        _ = 1 / 0
    assert is_main_process()
