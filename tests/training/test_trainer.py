"""The training loop on a tiny job: steps, ends, best weights, accumulation, non-finite losses."""

import json
import math
import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from jumok.errors import CheckpointError, Interrupted, NonFiniteError, StorageError
from jumok.models.weights import load_weights, named_weights
from jumok.processes import SINGLE_PROCESS, ProcessGroup, SingleProcess
from jumok.safetensors_io import read_tensors
from jumok.seeding import set_step_seed
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.config import WARMUP_STEPS, TrainingConfig
from jumok.training.job import DevResult
from jumok.training.reporting.metrics import (
    METRICS,
    LogRecord,
    MetricsLog,
    charts,
    evaluations,
    read_records,
)
from jumok.training.state import TrainerState
from jumok.training.trainer import Trainer
from tests.errors import raises
from tests.tasks.tiny_jobs import classification_job
from tests.tiny_runs import reviews
from tests.training.toy_job import Circle, Points, points

CPU = torch.device("cpu")
CONFIG = TrainingConfig(
    steps=20, learning_rate=0.01, schedule="constant", warmup_steps=0, precision="float32"
)


def trainer(
    job: Circle,
    folder: Path,
    config: TrainingConfig = CONFIG,
    resume: Checkpoint | None = None,
    seed: int = 0,
) -> Trainer[Points]:
    folder.mkdir(exist_ok=True)
    metadata = {"recipe": "circle"}
    return Trainer(job, config, folder, seed=seed, device=CPU, metadata=metadata, resume=resume)


def weights(job: Circle) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in named_weights(job.model).items()}


def same(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(value, second[name]) for name, value in first.items()
    )


def reports(folder: Path, kind: str) -> list[dict[str, Any]]:
    records = [dict(record) for record in read_records(folder / "metrics.jsonl")]
    return [record for record in records if record["kind"] == kind]


# The end of a training


@pytest.mark.parametrize(
    ("ends", "step", "ended"),
    [
        ({"steps": 3}, 3, "done"),
        ({"steps": None, "epochs": 2.0}, 8, "done"),
        ({"steps": None, "epochs": 0.5}, 2, "done"),
        ({"steps": 3, "epochs": 2.0}, 3, "done"),
        ({"steps": 100, "epochs": 1.0}, 4, "done"),
        ({"steps": None, "minutes": 1e-9}, 1, "minutes"),
    ],
)
def test_training_ends_at_the_first_limit(
    tmp_path: Path, ends: dict[str, Any], step: int, ended: str
) -> None:
    job = Circle(points(32, 0))  # 4 batches an epoch
    progress = trainer(job, tmp_path, replace(CONFIG, **ends)).fit()
    assert (progress.step, progress.ended) == (step, ended)
    assert CheckpointStore(tmp_path).checkpoint(step).step == step
    assert reports(tmp_path, "dev")[-1]["step"] == step


def test_an_epoch_shorter_than_log_every_has_a_training_loss(tmp_path: Path) -> None:
    """In metrics.jsonl, and so in the table, history.csv and the curve."""
    config = replace(CONFIG, steps=None, epochs=3.0, log_every=100)
    trainer(Circle(points(32, 0)), tmp_path, config).fit()  # 4 batches an epoch
    rows = evaluations(read_records(tmp_path / METRICS))
    assert [row.step for row in rows] == [4, 8, 12]
    assert all(row.loss is not None and row.tokens_per_second for row in rows)
    train, dev = (curve.points for curve in charts(read_records(tmp_path / METRICS))[0].curves[1:])
    assert len(train) == len(dev) == 3


def rates(folder: Path) -> list[float]:
    return [report["learning_rate"] for report in reports(folder, "train")]


@pytest.mark.parametrize(
    ("gradient_accumulation_steps", "epochs", "steps"),
    [(1, 2.0, 8), (2, 2.0, 4), (1, 0.25, 1), (4, 1.0, 1)],
)
@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_epochs_have_the_learning_rates_of_as_many_steps(
    tmp_path: Path,
    gradient_accumulation_steps: int,
    epochs: float,
    steps: int,
    schedule: Literal["linear", "cosine"],
) -> None:
    """The rate follows the progress before the step: 1, 7/8 ... 1/8 of it in 8 steps."""
    config = replace(
        CONFIG,
        schedule=schedule,
        gradient_accumulation_steps=gradient_accumulation_steps,
        log_every=1,
    )
    found = []
    for name, ends in (("epochs", {"steps": None, "epochs": epochs}), ("steps", {"steps": steps})):
        trainer(Circle(points(32, 0)), tmp_path / name, replace(config, **ends)).fit()
        found.append(rates(tmp_path / name))
    assert found[0] == found[1]
    assert len(found[0]) == steps
    assert found[0][0] == config.learning_rate
    if schedule == "linear":
        expected = [config.learning_rate * (steps - done) / steps for done in range(steps)]
        assert found[0] == pytest.approx(expected)


def test_a_resumed_training_continues_its_schedule(tmp_path: Path) -> None:
    """Stopped in the middle of an epoch of 4 batches, 3 batches a step."""
    ends = {"steps": None, "epochs": 3.0, "gradient_accumulation_steps": 3, "schedule": "linear"}
    config = replace(CONFIG, **ends, log_every=1, checkpoint_every=1)
    whole = Circle(points(32, 0))
    trainer(whole, tmp_path / "whole", config).fit()
    with pytest.raises(Interrupted):
        trainer(Interrupting(4, signal.SIGTERM), tmp_path / "run", config).fit()
    newest = CheckpointStore(tmp_path / "run").newest()
    assert newest is not None
    assert newest.step == 2
    resumed = Circle(points(32, 0), seed=5)
    trainer(resumed, tmp_path / "run", config, newest).fit()
    assert rates(tmp_path / "run") == rates(tmp_path / "whole")
    assert same(weights(whole), weights(resumed))


def test_with_minutes_alone_the_learning_rate_falls_with_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading of the clock takes a millisecond; the training has 60 of them."""
    readings = count()
    clock = SimpleNamespace(monotonic=lambda: next(readings) / 1000)
    throughput = vars(sys.modules[Trainer.__module__])["Throughput"]
    monkeypatch.setattr(sys.modules[throughput.__module__], "time", clock)
    ends = {"steps": None, "minutes": 0.001, "schedule": "linear", "warmup_steps": 0}
    config = replace(CONFIG, **ends, log_every=1, evaluate_every=1_000_000)
    progress = trainer(Circle(points(32, 0)), tmp_path, config).fit()
    assert progress.ended == "minutes"
    assert 0.06 <= progress.seconds < 0.07
    found = rates(tmp_path)
    assert found == sorted(set(found), reverse=True)  # lower at every step
    assert len(found) == progress.step > 5
    assert config.learning_rate == found[0] > 3 * found[-1] > 0.0


def test_a_step_that_reaches_into_the_next_epoch_ends_this_one(tmp_path: Path) -> None:
    """3 batches a step, 4 an epoch: the second step contains the end of the first epoch."""
    config = replace(CONFIG, steps=None, epochs=3.0, gradient_accumulation_steps=3)
    progress = trainer(Circle(points(32, 0)), tmp_path, config).fit()
    assert [report["step"] for report in reports(tmp_path, "dev")] == [2, 3, 4]
    assert (progress.step, progress.epoch, progress.batch) == (4, 3, 0)


def test_evaluation_and_checkpoints_at_given_steps(tmp_path: Path) -> None:
    config = replace(CONFIG, steps=12, evaluate_every=6, checkpoint_every=4, keep_checkpoints=9)
    trainer(Circle(points(32, 0)), tmp_path, config).fit()
    assert [report["step"] for report in reports(tmp_path, "dev")] == [6, 12]
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-4", "step-6", "step-8", "step-12"}


def test_records_are_synced_before_their_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed training does not write the records before the checkpoint again."""
    safe: set[int] = set()  # steps whose records are synced to disk
    missing: set[int] = set()
    path = tmp_path / METRICS
    fsync, commit = os.fsync, CheckpointStore.commit

    def counting_fsync(file: int) -> None:
        fsync(file)
        if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
            safe.update(report["step"] for report in reports(tmp_path, "train"))

    def committed(store: CheckpointStore, step: int, *args: Any) -> Path:
        missing.update({step} - safe)
        return commit(store, step, *args)

    monkeypatch.setattr(os, "fsync", counting_fsync)
    monkeypatch.setattr(CheckpointStore, "commit", committed)
    config = replace(CONFIG, steps=6, checkpoint_every=2, log_every=1)
    trainer(Circle(points(32, 0)), tmp_path, config).fit()
    assert not missing
    assert safe == {1, 2, 3, 4, 5, 6}


def test_patience_ends_training_with_the_best_weights(tmp_path: Path) -> None:
    """With too high a learning rate the score falls again: the last weights are not the best."""
    job = Circle(points(64, 0))
    config = replace(CONFIG, steps=500, learning_rate=0.3, evaluate_every=2, patience=4)
    progress = trainer(job, tmp_path, config).fit()
    assert progress.ended == "patience"
    assert progress.step < 500
    assert progress.step == progress.best_step + 2 * 4
    scores = {report["step"]: report["score"] for report in reports(tmp_path, "dev")}
    assert progress.best_score == max(scores.values()) == scores[progress.best_step]
    assert min(step for step, score in scores.items() if score == progress.best_score) == (
        progress.best_step
    )
    store = CheckpointStore(tmp_path)
    assert same(weights(job), store.checkpoint(progress.best_step).load()["model"])
    assert not same(weights(job), store.checkpoint(progress.step).load()["model"])
    job.model.eval()
    assert job.evaluate().score == pytest.approx(progress.best_score)


def test_the_average_is_evaluated_and_saved(tmp_path: Path) -> None:
    job = Circle(points(64, 0))
    config = replace(CONFIG, steps=10, evaluate_every=5, ema_decay=0.9)
    progress = trainer(job, tmp_path, config).fit()
    states = CheckpointStore(tmp_path).checkpoint(progress.best_step).load()
    assert same(weights(job), states["average"])
    assert not same(weights(job), states["model"])
    logged = {report["step"]: report["loss"] for report in reports(tmp_path, "dev")}
    job.model.eval()
    dev = job.evaluate()
    assert dev.score == pytest.approx(progress.best_score)
    assert dev.loss == pytest.approx(logged[progress.best_step])
    load_weights(job.model, states["model"])
    assert job.evaluate().loss != pytest.approx(dev.loss)  # of the weights without averaging


def test_an_unwritable_record_ends_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process fails to write and continues to the next collective, so that no other waits."""
    gathered: list[list[float]] = []

    class Recording(SingleProcess):
        def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
            gathered.append(list(numbers))
            return super().all_gather_floats(numbers)

    def write(history: MetricsLog, record: LogRecord) -> None:
        raise StorageError("test.error", f"no space for step {record['step']}")

    monkeypatch.setattr(MetricsLog, "write", write)
    learning = Trainer(
        Circle(points(32, 0)),
        replace(CONFIG, log_every=3),
        tmp_path,
        seed=0,
        device=CPU,
        metadata={},
        processes=Recording(),
    )
    with pytest.raises(StorageError, match="no space for step 3"):
        learning.fit()
    assert gathered[-2:] == [[0, True], [StorageError.exit_code]]
    assert CheckpointStore(tmp_path).newest() is None


# Steps


def moments(job: Circle, folder: Path, config: TrainingConfig) -> dict[str, Tensor]:
    """The gradient of the first step, from AdamW's first moment."""
    trainer(job, folder, replace(config, steps=1)).fit()
    state = CheckpointStore(folder).checkpoint(1).load()["optimizer"]
    return {
        name.removeprefix("exp_avg:"): value / (1 - config.beta1)
        for name, value in state.items()
        if name.startswith("exp_avg:")
    }


def test_accumulated_batches_are_one_large_batch(tmp_path: Path) -> None:
    """Batches of 9, 2 and 5 points: the loss is the mean over the points, not over the batches."""
    data = points(16, 0)
    config = replace(CONFIG, clip_norm=0.0)
    parts = Circle(data, batch=[9, 2, 5], dropout=0.0, shuffle=False)
    in_parts = moments(parts, tmp_path / "parts", replace(config, gradient_accumulation_steps=3))
    whole = moments(Circle(data, batch=16, dropout=0.0, shuffle=False), tmp_path / "whole", config)
    for name, gradient in whole.items():
        torch.testing.assert_close(in_parts[name], gradient, atol=1e-6, rtol=1e-5)
    loss = reports(tmp_path / "parts", "train")[0]["loss"]
    assert loss == pytest.approx(reports(tmp_path / "whole", "train")[0]["loss"], rel=1e-6)


def test_gradients_are_clipped_by_their_common_norm(tmp_path: Path) -> None:
    def norm(clip: float) -> float:
        job = Circle(points(16, 0), batch=16, dropout=0.0)
        found = moments(job, tmp_path / str(clip), replace(CONFIG, clip_norm=clip))
        return torch.cat([g.flatten() for g in found.values()]).norm().item()

    free = norm(0.0)
    assert norm(0.01) == pytest.approx(0.01, rel=1e-3)  # torch divides by norm + 1e-6
    assert norm(free * 2) == pytest.approx(free, rel=1e-6)


class Drawing(Circle):
    """Records the first random number of every batch."""

    def __init__(self) -> None:
        super().__init__(points(32, 0))
        self.drawn: list[float] = []

    def loss(self, batch: Points) -> Tensor:
        self.drawn.append(torch.rand(1).item())
        return super().loss(batch)


def test_every_microbatch_has_its_own_random_numbers(tmp_path: Path) -> None:
    """They follow from the seed, the step and the index of the microbatch."""
    drawn: list[float] = []
    for seed in (0, 1):
        job = Drawing()
        config = replace(CONFIG, steps=3, gradient_accumulation_steps=2)
        trainer(job, tmp_path / str(seed), config, seed=seed).fit()
        expected = []
        for step, index in product((1, 2, 3), (0, 1)):
            set_step_seed(seed, step, index)
            expected.append(torch.rand(1).item())
        assert job.drawn == expected
        drawn += job.drawn
    assert len(set(drawn)) == 2 * 3 * 2


def test_dropout_follows_from_seed_and_step(tmp_path: Path) -> None:
    first, again = Circle(points(32, 0)), Circle(points(32, 0))
    trainer(first, tmp_path / "first").fit()
    torch.manual_seed(123)  # earlier draws do not matter
    trainer(again, tmp_path / "again").fit()
    assert same(weights(first), weights(again))


def test_strict_is_the_same_bits(tmp_path: Path) -> None:
    job, strict = Circle(points(32, 0)), Circle(points(32, 0))
    trainer(job, tmp_path / "usual").fit()
    try:
        trainer(strict, tmp_path / "strict", replace(CONFIG, strict=True)).fit()
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 1
    finally:
        torch.use_deterministic_algorithms(False)
    assert same(weights(job), weights(strict))  # these tests have one thread anyway


# Non-finite losses and gradients


class Poisoned(Circle):
    """From the second epoch on, the first point is infinite."""

    def epoch(self, number: int) -> Any:
        if number == 1:
            self.train.at[0] = torch.inf
        return super().epoch(number)


def test_a_nonfinite_loss_stops_before_the_step(tmp_path: Path) -> None:
    job = Poisoned(points(32, 0), batch=32)
    learning = trainer(job, tmp_path, replace(CONFIG, steps=10, checkpoint_every=1))
    with pytest.raises(NonFiniteError) as error:
        learning.fit()
    assert error.value.exit_code == 4
    written = tmp_path / "bad-steps" / "step-2.safetensors"
    assert (
        "step 2: the loss or a gradient is not finite, first in 0; the step was not applied, its "
        f"batch is in {written}; train again with a lower training.learning_rate"
    ) in str(error.value)
    assert read_tensors(written)["0.at"].isinf().any()  # what caused it
    newest = CheckpointStore(tmp_path).newest()
    assert newest is not None
    assert newest.step == 1
    assert same(weights(job), newest.load()["model"])
    assert all(value.isfinite().all() for value in weights(job).values())
    assert {report["step"] for report in reports(tmp_path, "train")} <= {1}


def test_bad_steps_can_be_skipped(tmp_path: Path) -> None:
    """Only the poisoned batch of every epoch is skipped; the weights stay finite."""
    config = replace(CONFIG, steps=12, on_nonfinite="skip", checkpoint_every=1)
    job = Poisoned(points(32, 0), batch=8, shuffle=False)
    finished = trainer(job, tmp_path, config).fit()
    assert (finished.step, finished.skipped) == (
        12,
        2,
    )  # epochs of 4 steps; the first has no bad one
    assert all(value.isfinite().all() for value in weights(job).values())
    assert sorted(path.name for path in (tmp_path / "bad-steps").iterdir()) == [
        "step-5.safetensors",
        "step-9.safetensors",
    ]
    before, after = (CheckpointStore(tmp_path).checkpoint(step).load() for step in (11, 12))
    assert not same(before["model"], after["model"])


def test_too_many_skipped_steps_end_a_training(tmp_path: Path) -> None:
    config = replace(CONFIG, steps=100, on_nonfinite="skip")
    with raises(NonFiniteError, "training.many_skipped_steps"):
        trainer(Poisoned(points(32, 0), batch=32), tmp_path, config).fit()


class Spiking(Circle):
    """One batch of the second epoch has a hundred times its loss."""

    def loss(self, batch: Points) -> Tensor:
        spikes = self.spiking and torch.equal(batch.at, self.train.at[:8])
        return super().loss(batch) * (100 if spikes else 1)

    def epoch(self, number: int) -> Any:
        self.spiking = number == 1
        return super().epoch(number)


@pytest.mark.parametrize("policy", ["skip", "stop"])
def test_a_loss_spike_is_a_bad_step(tmp_path: Path, policy: Literal["skip", "stop"]) -> None:
    config = replace(CONFIG, steps=80, on_nonfinite=policy, spike_factor=10.0)
    learning = trainer(Spiking(points(320, 0), batch=8, shuffle=False), tmp_path, config)
    if policy == "stop":
        with raises(NonFiniteError, "training.many_skipped_steps"):
            learning.fit()
    else:
        assert learning.fit().skipped == 1
    (written,) = (tmp_path / "bad-steps").iterdir()
    assert torch.equal(read_tensors(written)["0.at"], points(320, 0).at[:8])


class Rooted(Circle):
    """A layer with finite outputs whose gradients at 0 are not finite."""

    def loss(self, batch: Points) -> Tensor:
        assert isinstance(self.model, nn.Sequential)
        hidden = (self.model[0](batch.at) * 0).sqrt()  # the slope of a root at 0 is infinite
        return self.model[3](hidden).square().sum()


def test_a_nonfinite_gradient_names_its_weight(tmp_path: Path) -> None:
    """Clipping would make all gradients non-finite; it runs after the check."""
    job = Rooted(points(32, 0), batch=32)
    learning = trainer(job, tmp_path)
    with raises(NonFiniteError, "training.many_skipped_steps"):
        learning.fit()
    last = job.model.get_parameter("3.weight")
    assert last.grad is not None
    assert last.grad.isfinite().all()
    assert CheckpointStore(tmp_path).newest() is None


# Interrupting and resuming


class Interrupting(Circle):
    """Sends this process a signal while step `at` is computed."""

    def __init__(self, at: int, number: int, *, evaluating: bool = False) -> None:
        super().__init__(points(32, 0))
        self.left, self.number, self.evaluating = at, number, evaluating

    def loss(self, batch: Points) -> Tensor:
        self.left -= 1
        if self.left == 0 and not self.evaluating:
            signal.raise_signal(self.number)
        return super().loss(batch)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> Any:
        if self.left <= 0 and self.evaluating:
            signal.raise_signal(self.number)
        return super().evaluate(processes)


FULL = replace(
    CONFIG,
    steps=20,
    gradient_accumulation_steps=2,
    ema_decay=0.95,
    schedule="cosine",
    checkpoint_every=3,
)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("at", [1, 13, 30])
def test_a_training_stopped_by_a_signal_resumes_bit_for_bit(
    tmp_path: Path, number: signal.Signals, at: int
) -> None:
    whole = Circle(points(32, 0))
    expected = trainer(whole, tmp_path / "whole", FULL).fit()

    stopped = trainer(Interrupting(at, number), tmp_path / "run", FULL)
    with pytest.raises(Interrupted) as stop:
        stopped.fit()
    step = -(-at // 2)  # two batches a step
    assert stop.value.exit_code == 128 + number
    assert f"stopped by {number.name} after step {step}, which is saved; to resume: " in str(
        stop.value
    )
    newest = CheckpointStore(tmp_path / "run").newest()
    assert newest is not None
    assert newest.step == step

    resumed = Circle(
        points(32, 0), seed=5
    )  # other initial weights: everything comes from the checkpoint
    progress = trainer(resumed, tmp_path / "run", FULL, newest).fit()
    assert replace(progress, seconds=0.0) == replace(expected, seconds=0.0)
    assert same(weights(whole), weights(resumed))
    last = [CheckpointStore(tmp_path / name).checkpoint(20).load() for name in ("whole", "run")]
    assert last[0].keys() == last[1].keys() == {"model", "optimizer", "average"}
    assert all(same(last[0][state], last[1][state]) for state in last[0])


def test_a_signal_at_the_end_is_handled(tmp_path: Path) -> None:
    job = Interrupting(20, signal.SIGTERM, evaluating=True)
    with pytest.raises(Interrupted):
        trainer(job, tmp_path, replace(CONFIG, evaluate_every=20)).fit()
    newest = CheckpointStore(tmp_path).newest()
    assert newest is not None
    again = Circle(points(32, 0), seed=5)
    progress = trainer(again, tmp_path, replace(CONFIG, evaluate_every=20), newest).fit()
    assert (progress.step, progress.ended) == (20, "done")
    assert same(weights(again), newest.load()["model"])


def test_a_resumed_run_logs_invalid_checkpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = Circle(points(32, 0))
    config = replace(CONFIG, steps=12, checkpoint_every=4)
    trainer(whole, tmp_path, config).fit()
    damaged = tmp_path / "checkpoints" / "step-12" / "state-model.safetensors"
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)

    newest = CheckpointStore(tmp_path).newest()
    assert newest is not None
    assert newest.step == 8
    capsys.readouterr()
    resumed = Circle(points(32, 0), seed=5)
    trainer(resumed, tmp_path, config, newest).fit()
    stderr = capsys.readouterr().err
    assert "step-12 is damaged and ignored: state-model.safetensors is not what was wr" in stderr
    assert same(weights(whole), weights(resumed))


def copy_until(whole: Path, folder: Path, step: int) -> Checkpoint:
    """Copy the run as it was after the commit of `step`; its newest checkpoint."""
    shutil.copytree(whole, folder)
    for checkpoint in CheckpointStore(folder).last():
        if checkpoint.step > step:
            shutil.rmtree(checkpoint.path)
    newest = CheckpointStore(folder).newest()
    assert newest is not None
    assert newest.step == step
    return newest


def untimed(folder: Path) -> list[dict[str, Any]]:
    times = ("seconds", "tokens_per_second")
    records = read_records(folder / METRICS)
    return [{k: v for k, v in record.items() if k not in times} for record in records]


@pytest.mark.parametrize("step", [5, 6])
def test_a_resumed_training_counts_skipped_steps(tmp_path: Path, step: int) -> None:
    """Steps 5 and 9 are bad; the training resumes right after the first of them, or later."""
    config = replace(
        CONFIG,
        steps=12,
        on_nonfinite="skip",
        checkpoint_every=1,
        keep_checkpoints=12,
        ema_decay=0.9,
    )
    config = replace(config, schedule="cosine", log_every=1)
    whole = Poisoned(points(32, 0), batch=8, shuffle=False)
    expected = trainer(whole, tmp_path / "whole", config).fit()
    newest = copy_until(tmp_path / "whole", tmp_path / "run", step)
    assert dict(newest.metadata["progress"])["skipped_in_a_row"] == (step == 5)  # type: ignore[arg-type]
    resumed = Poisoned(points(32, 0), batch=8, shuffle=False, seed=5)
    progress = trainer(resumed, tmp_path / "run", config, newest).fit()
    assert expected.skipped == 2
    assert replace(progress, seconds=0.0) == replace(expected, seconds=0.0)
    assert same(weights(whole), weights(resumed))
    assert untimed(tmp_path / "run") == untimed(tmp_path / "whole")


def damage(checkpoint: Path) -> None:
    (checkpoint / "state-model.safetensors").unlink()


@pytest.mark.parametrize("known", [True, False])
def test_the_best_valid_checkpoint_replaces_a_lost_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    """With too high a rate the last step is not the best. Logged at the start and at the end."""
    config = replace(CONFIG, steps=24, learning_rate=0.3, evaluate_every=2, keep_checkpoints=4)
    first = trainer(Circle(points(64, 0)), tmp_path, config).fit()
    store = CheckpointStore(tmp_path)
    assert first.best_step < 24
    damage(tmp_path / "checkpoints" / f"step-{first.best_step}")
    newest = store.newest()
    assert newest is not None
    scores = {report["step"]: report["score"] for report in reports(tmp_path, "dev")}
    if not known:
        (tmp_path / METRICS).unlink()
    capsys.readouterr()
    job = Circle(points(64, 0), seed=5)
    progress = trainer(job, tmp_path, config, newest).fit()
    valid = [checkpoint.step for checkpoint in store.last()]
    assert valid == [step for step in (24, 22, 20, 18) if step != first.best_step]
    best = max(reversed(valid), key=lambda step: scores[step]) if known else 24
    assert (best == 24) is not known
    assert progress.best_step == best
    assert same(weights(job), store.checkpoint(best).load()["model"])
    stderr = capsys.readouterr().err
    at_once, at_last = (line for line in stderr.splitlines() if line.startswith("step-"))
    assert at_once.startswith(f"step-{first.best_step}, the best so far, cannot be used (missing")
    assert f"the weights are those of step-{best}, " in at_last
    if known:
        assert at_last.endswith(f", the best valid one, accuracy {scores[best]:.4f}")
        assert progress.best_score == scores[best]
    else:
        assert at_last.endswith(", the newest")
        assert math.isnan(progress.best_score)


def test_no_valid_checkpoint_is_an_error(tmp_path: Path) -> None:
    learning = trainer(Circle(points(32, 0)), tmp_path)
    commit = learning.checkpoint_writer.wait

    def wait() -> None:
        commit()
        for checkpoint in CheckpointStore(tmp_path).last():
            damage(checkpoint.path)

    learning.checkpoint_writer.wait = wait  # type: ignore[method-assign]
    with pytest.raises(CheckpointError, match=r"cannot be used \(missing files: .*; copy a valid"):
        learning.fit()


def test_the_state_is_json() -> None:
    for progress in (TrainerState(), TrainerState(step=3, best_score=0.5, ended="done")):
        content = json.loads(json.dumps(progress.to_dict(), allow_nan=False))
        assert TrainerState.from_dict(content, 1) == progress
    assert math.isnan(TrainerState().best_score)


def train_without_compiler(folder: Path) -> None:
    import torch._inductor.config as inductor

    config = replace(CONFIG, steps=2)
    job, plain = (classification_job(reviews(32, 1), {"dropout": 0.1}) for _ in range(2))
    (folder / "plain").mkdir()
    with inductor.patch({"cpp.cxx": ("no-such-compiler",), "fx_graph_cache": False}):
        compiling = replace(config, compile=True)
        Trainer(job, compiling, folder, seed=0, device=CPU, metadata={}).fit()
    Trainer(plain, config, folder / "plain", seed=0, device=CPU, metadata={}).fit()
    assert same(named_weights(job.model), named_weights(plain.model))  # under the same names


@pytest.mark.slow
def test_training_continues_if_compilation_fails(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own: what another test compiled would be used again."""
    process = multiprocessing.get_context("spawn").Process(
        target=train_without_compiler, args=(tmp_path,)
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert "torch.compile failed (InvalidCxxCompiler: No working C++" in capfd.readouterr().err


def test_the_start_is_evaluated_and_may_be_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate that destroys the weights: those of step 0 are loaded in the end."""
    job = Circle(points(40, 1))
    before = {name: p.detach().clone() for name, p in named_weights(job.model).items()}
    config = replace(CONFIG, learning_rate=9.0, clip_norm=0.0, steps=3, evaluate_every=1)
    training = Trainer(job, config, tmp_path, seed=0, device=CPU, metadata={}, evaluates_start=True)
    state = training.fit()
    rows = [record for record in training.metrics.records if record["kind"] == "dev"]
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    best = max(rows, key=lambda row: float(row["score"] or 0.0))
    assert (state.best_step, state.best_score) == (best["step"], best["score"])
    if state.best_step == 0:
        after = named_weights(job.model)
        assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert "at the start" in capsys.readouterr().err


class Scored(Circle):
    """The toy job with given scores of 100 dev rows, whose standard error is about 0.04."""

    def __init__(self, scores: Sequence[float]) -> None:
        super().__init__(points(40, 1))
        self.scores = iter(scores)

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        return DevResult(0.5, next(self.scores), "accuracy", rows=100)


@pytest.mark.parametrize(
    ("margin", "scores", "kept"),
    [
        (0.0, [0.80, 0.79, 0.81, 0.80], 2),
        (1.0, [0.80, 0.75, 0.75, 0.75], 0),  # clearly worse than the start
        (1.0, [0.80, 0.77, 0.75, 0.70], 2),  # the last is clearly worse than the second
        (1.0, [0.80, 0.85, 0.84, 0.84], 3),
        (-1.0, [0.80, 0.82, 0.82, 0.82], 0),  # not clearly better than the start
        (-1.0, [0.80, 0.82, 0.85, 0.84], 3),
    ],
)
def test_a_margin_keeps_later_steps(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    margin: float,
    scores: list[float],
    kept: int,
) -> None:
    """The start by the margin, in standard errors of the dev score; later steps by one of them."""
    training = Trainer(
        *(Scored(scores), replace(CONFIG, steps=3, evaluate_every=1), tmp_path),
        seed=0,
        device=CPU,
        metadata={},
        evaluates_start=True,
        start_margin=margin,
    )
    state = training.fit()
    assert (state.best_step, state.best_score) == (kept, scores[kept])
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("epoch")]
    assert any("  kept" in line for line in lines) == (margin != 0 and kept > 0)


@pytest.mark.parametrize("warmup", [20, 21])
def test_a_warmup_longer_than_the_training_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], warmup: int
) -> None:
    trainer(Circle(points(40, 1)), tmp_path, replace(CONFIG, warmup_steps=warmup)).fit()
    reported = "training.warmup_steps is 21, more than the 20 steps" in capsys.readouterr().err
    assert reported == (warmup > 20)


@pytest.mark.parametrize("ends", [{"steps": 7}, {"steps": None, "epochs": 7.0}])
@pytest.mark.parametrize("warmup", WARMUP_STEPS)
def test_a_default_warmup_is_at_most_half_of_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ends: dict[str, Any], warmup: int
) -> None:
    """Also in a training that is continued in a later epoch."""
    config = replace(CONFIG, warmup_steps=warmup, **ends)
    job = Circle(points(30, 1))
    training = trainer(job, tmp_path / "a", config)
    training.fit()
    least = 7 if "epochs" not in ends else math.ceil(7 * len(job.epoch(0)))
    assert training.warmup_steps == min(warmup, least // 2)
    assert "warmup_steps" not in capsys.readouterr().err
    long = trainer(job, tmp_path / "b", replace(config, steps=2000, epochs=None, minutes=0.001))
    long.fit()
    assert long.warmup_steps == warmup


def test_every_step_enters_the_average(tmp_path: Path) -> None:
    job = Circle(points(64, 0))
    before = {name: weight.clone() for name, weight in weights(job).items()}
    trainer(job, tmp_path, replace(CONFIG, steps=1, ema_decay=0.9)).fit()
    states = CheckpointStore(tmp_path).checkpoint(1).load()
    decay = (1 + 1) / (10 + 1)  # of the first step
    for name, average in states["average"].items():
        mixed = decay * before[name] + (1 - decay) * states["model"][name]
        torch.testing.assert_close(average, mixed)
