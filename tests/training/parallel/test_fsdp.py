"""Fully sharded data parallelism: training, resharding of checkpoints, failures."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from jumok.errors import CheckpointError, InputError
from jumok.safetensors_io import read_tensors
from jumok.training.checkpoints.resharding import group_shards, local_rows, shard_name
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.config import TrainingConfig
from tests.cli.commands import environment
from tests.training.parallel.test_data_parallel import (
    OVERRIDES,
    STEPS,
    Runs,
    codes,
    first_gradients,
    stopped,
    untimed_records,
)
from tests.training.sharded_checkpoint_worker import part, whole
from tests.training.torchrun import GroupExit, WorkerGroup, outputs_of

SHARDED = (
    "training.sharding=full",
    f"training.keep_checkpoints={STEPS}",
    "training.precision=float32",
)
Ends = list[tuple[WorkerGroup, GroupExit]]


# Real processes


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, review_recipe: Path) -> tuple[Path, Ends]:
    """One process, three, 2 that become 1 and then 3, and a run that diverges."""
    folder = tmp_path_factory.mktemp("sharded")
    runs = Runs(review_recipe, folder)
    for size in (1, 3):
        runs.train(str(size), size, *SHARDED)
    runs.train("changed", 2, *SHARDED, **stopped(1))
    runs.resume("changed", 1, **stopped(3))
    runs.resume("changed", 3)
    runs.train("steep", 2, *SHARDED, "training.learning_rate=9", "training.weight_decay=1e6")
    return folder, runs.run()


@pytest.mark.slow
def test_a_sharded_model_learns_what_a_whole_one_learns(trained: tuple[Path, Ends]) -> None:
    """3 processes have 1, 1 and 2 of 4 microbatches; some weights have fewer than 3 rows."""
    folder, ends = trained
    assert codes(ends[:5]) == [[0], [0, 0, 0], [143, 143], [143], [0, 0, 0]], outputs_of(ends[1][0])
    one, three = (first_gradients(folder / name) for name in ("1", "3"))
    assert one.keys() == three.keys()
    assert max(gradient.abs().max() for gradient in one.values()) > 1e-3
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, three[name], rtol=0, atol=1e-6)
    for name in ("3", "changed"):
        assert_same_curve(folder / name, folder / "1")
        assert_same_weights(folder / name, folder / "1")


@pytest.mark.slow
def test_every_process_writes_its_shard(trained: tuple[Path, Ends]) -> None:
    folder, _ = trained
    last = folder / "3" / "checkpoints" / f"step-{STEPS}"
    states = ("average", "model", "optimizer")
    assert {path.name for path in last.glob("state-*")} == {
        f"state-{shard_name(state, rank, 3)}.safetensors" for state in states for rank in range(3)
    }
    for state in states:
        parts = [
            read_tensors(last / f"state-{shard_name(state, r, 3)}.safetensors") for r in range(3)
        ]
        sizes = [sum(tensor.numel() for tensor in each.values()) for each in parts]
        assert max(sizes) < 0.4 * sum(sizes), state
    single = folder / "1" / "checkpoints" / f"step-{STEPS}"
    assert {p.name for p in single.glob("state-*")} == {f"state-{s}.safetensors" for s in states}


@pytest.mark.slow
def test_all_processes_stop_at_a_bad_step(trained: tuple[Path, Ends]) -> None:
    folder, ends = trained
    group, ended = ends[5]
    assert ended.codes == [4, 4]
    first, second = outputs_of(group)
    assert "the loss or a gradient is not finite, first in encoder." in first
    # torch 2.8 prints each connection
    assert [line for line in second.splitlines() if not line.startswith("[Gloo]")] == []
    assert len(list((folder / "steep" / "bad-steps").iterdir())) == 2


@pytest.mark.slow
def test_a_process_killed_while_writing_leaves_the_previous_checkpoint(tmp_path: Path) -> None:
    """Rank 1 of 3 is killed in its file of step 3; the others detect it and clean up."""
    assert run_module("sharded_checkpoint_worker", tmp_path, 3, 1, 3) == [6, -9, 6]
    newest = CheckpointStore(tmp_path).newest()
    assert newest is not None
    assert (newest.step, newest.invalid, newest.metadata) == (2, (), {"of": 2})
    assert_equal(newest.load(), whole(2))
    assert sorted(path.name for path in newest.path.parent.iterdir()) == ["step-1", "step-2"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "overrides", "within"),
    [
        (4, [], 1e-5),
        (2, ["training.activation_checkpointing=true"], 1e-5),
        (2, ["training.precision=bfloat16"], 0.02),
        (2, ['training.freeze=["embeddings", "layers.0"]'], 1e-5),
    ],
    ids=["four", "recomputed", "bfloat16", "frozen"],
)
def test_sharding_with_other_settings(
    tmp_path: Path, review_recipe: Path, size: int, overrides: list[str], within: float
) -> None:
    runs = Runs(review_recipe, tmp_path)
    for n in (1, size):
        runs.train(str(n), n, *SHARDED, *overrides)
    assert codes(runs.run()) == [[0], [0] * size]
    assert_same_curve(tmp_path / str(size), tmp_path / "1", within)


@pytest.mark.slow
def test_frozen_weights_stay_frozen_when_sharded(tmp_path: Path, review_recipe: Path) -> None:
    runs = Runs(review_recipe, tmp_path)
    runs.train("run", 2, *SHARDED, 'training.freeze=["embeddings"]', "training.ema_decay=0")
    assert codes(runs.run()) == [[0, 0]]
    store, name = CheckpointStore(tmp_path / "run"), "encoder.embedding.tokens.weight"
    first, last = (store.checkpoint(step).load() for step in (1, STEPS))
    assert torch.equal(first["model"][name], last["model"][name])
    assert not torch.equal(first["model"]["output.weight"], last["model"]["output.weight"])
    assert f"exp_avg:{name}" not in last["optimizer"]


@pytest.mark.slow
def test_generation_uses_the_whole_model(tmp_path: Path, reading_recipe: Path) -> None:
    """An encoder-decoder with tied embeddings: beams of different lengths, each output once."""
    runs = Runs(reading_recipe, tmp_path)
    for size in (1, 3):
        runs.train(str(size), size, *SHARDED, "augmentation.token_dropout=0")
    assert codes(runs.run()) == [[0], [0, 0, 0]]
    assert_same_curve(tmp_path / "3", tmp_path / "1")
    results = json.loads((tmp_path / "3" / "results.json").read_text())
    assert results["n"] == 40


@pytest.mark.slow
def test_a_killed_process_ends_the_others_and_the_run_resumes(
    tmp_path: Path, review_recipe: Path
) -> None:
    """At any time: in a step, in a commit, while layers are gathered."""
    runs = Runs(review_recipe, tmp_path)
    runs.train("whole", 1, *SHARDED)
    for victim, step in ((0, 1), (1, 2), (2, 3)):
        runs.train(f"lost {victim}", 3, *SHARDED, by=int(signal.SIGKILL), hit=victim, step=step)
        runs.resume(f"lost {victim}", 2)
    _, *ends = runs.run()
    for (group, killed), (_, resumed) in zip(ends[::2], ends[1::2], strict=True):
        assert sorted(killed.codes) == [-9, 6, 6], outputs_of(group)
        assert killed.seconds < 60
        assert resumed.codes == [0, 0]
        assert all("Traceback" not in text for text in outputs_of(group))
    for victim in range(3):
        assert_same_curve(tmp_path / f"lost {victim}", tmp_path / "whole")


@pytest.mark.slow
def test_torchrun_restarts_and_the_run_resumes(tmp_path: Path, review_recipe: Path) -> None:
    """torchrun repeats the same command; the second time there is a run to resume."""
    folder = tmp_path / "run"
    argv = ["train", str(review_recipe), *OVERRIDES, *SHARDED, "--out", str(folder)]
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
            time.sleep(0.01)
        os.kill(json.loads(owner.read_text())["process"], signal.SIGKILL)  # rank 0
        out, err = process.communicate(timeout=580)
    assert process.returncode == 0, err
    assert out.count("report.html. Try the model:") == 1
    assert json.loads((folder / "results.json").read_text())["steps"] == STEPS


@pytest.mark.slow
def test_a_run_resumes_with_another_sharding(tmp_path: Path, review_recipe: Path) -> None:
    """Whole, then sharded, then whole: `recipe.toml` may change each time."""
    plain = ("training.precision=float32", f"training.keep_checkpoints={STEPS}")
    runs = Runs(review_recipe, tmp_path)
    runs.train("whole", 1, *plain)
    runs.train("run", 2, *plain, **stopped(1))
    whole_run, first = runs.run()
    assert codes([whole_run, first]) == [[0], [143, 143]]
    recipe = tmp_path / "run" / "recipe.toml"
    for now, then, signals in (("full", "none", stopped(3)), ("none", "full", {})):
        text = recipe.read_text(encoding="utf-8")
        assert f'sharding = "{then}"' in text
        recipe.write_text(text.replace(f'sharding = "{then}"', f'sharding = "{now}"'), "utf-8")
        runs = Runs(review_recipe, tmp_path)
        runs.resume("run", 2, **signals)
        assert codes(runs.run()) == [[143, 143] if signals else [0, 0]]
    assert_same_curve(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
def test_sharding_reduces_memory(tmp_path: Path) -> None:
    """The memory of each process as the system measures it; the weights have 52 MB."""
    options = ["--layers", "6", "--width", "384", "--processes", "2", "--out"]
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.trust.sharding", *options, str(tmp_path / "table")],
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
        env=environment(),
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.slow
def test_a_sharded_model_is_gathered_and_restored(tmp_path: Path) -> None:
    """With the same bits, without pickle, and without traces of the sharding."""
    assert run_module("fsdp_worker", tmp_path, 3) == [0, 0, 0]


def run_module(module: str, folder: Path, *numbers: int) -> list[int]:
    """Run a module of this folder; the exit codes of the processes that it starts."""
    process = subprocess.run(
        [sys.executable, "-m", f"tests.training.{module}", str(folder), *map(str, numbers)],
        capture_output=True,
        text=True,
        check=False,
        timeout=580,
        env=environment(),
    )
    codes = [int(code) for code in process.stdout.split()]
    assert process.returncode == 0, process.stderr
    assert 1 not in codes, process.stderr
    return codes


def assert_same_curve(mine: Path, reference: Path, within: float = 1e-5) -> None:
    for a, b in zip(untimed_records(mine), untimed_records(reference), strict=True):
        assert a["step"] == b["step"]
        assert a["loss"] == pytest.approx(b["loss"], rel=within)  # a few steps on


def assert_same_weights(mine: Path, reference: Path) -> None:
    """The weights of finished runs; AdamW moves weights without a real gradient by rounding."""
    a, b = (read_tensors(folder / "model.safetensors") for folder in (mine, reference))
    assert a.keys() == b.keys()
    gradients = first_gradients(reference)
    for name, tensor in a.items():
        if gradients[f"exp_avg:{name}"].abs().max() > 1e-6:  # the bias of the keys has no gradient
            torch.testing.assert_close(tensor, b[name], rtol=0, atol=1e-4)


# Sharded checkpoints, without processes


def commit(store: CheckpointStore, step: int, size: int) -> Path:
    """Commit as `size` processes do, one after the other."""
    scratch, records = store.stage(step), {}
    for rank in range(size):
        local = part(whole(step), rank, size)
        mine = {
            shard_name(name, rank, size): {k: t for k, t in tensors.items() if t.numel()}
            for name, tensors in local.items()
        }
        records |= store.write_states(step, scratch, mine)
    return store.publish(step, scratch, records, {})


def assert_equal(
    found: dict[str, dict[str, Tensor]], expected: dict[str, dict[str, Tensor]]
) -> None:
    assert found.keys() == expected.keys()
    for state, tensors in expected.items():
        assert found[state].keys() == tensors.keys()
        for name, tensor in tensors.items():
            assert torch.equal(found[state][name], tensor), (state, name)


@pytest.mark.parametrize("written", range(1, 6))
def test_resharding_between_any_numbers_of_processes(tmp_path: Path, written: int) -> None:
    """Also from a checkpoint that is not sharded, and to whole tensors."""
    store = CheckpointStore(tmp_path)
    commit(store, 1, written)
    store.commit(2, whole(2), {})
    for step in (1, 2):
        checkpoint = store.checkpoint(step)
        assert_equal(checkpoint.load(), whole(step))
        for size in range(1, 6):
            for rank in range(size):
                mine = {name: checkpoint.state(name, rank, size) for name in checkpoint.states}
                assert_equal(mine, part(whole(step), rank, size))


def test_rows_are_split_as_torch_splits_them() -> None:
    for n in range(1, 12):
        for size in range(1, 6):
            chunks = [len(chunk) for chunk in torch.arange(n).chunk(size)]
            mine = [len(local_rows(n, rank, size)) for rank in range(size)]
            assert mine == chunks + [0] * (size - len(chunks))


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_shard_is_detected(tmp_path: Path, damage: str) -> None:
    store = CheckpointStore(tmp_path)
    for step in (1, 2):
        commit(store, step, 3)
    path = tmp_path / "checkpoints" / "step-2" / "state-optimizer-00002-of-00003.safetensors"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    match damage:
        case "flipped":
            path.write_bytes(data)
        case "cut":
            path.write_bytes(data[:-8])
        case "gone":
            path.unlink()
    newest = store.newest()
    assert newest is not None
    assert newest.step == 1
    (invalid,) = newest.invalid
    assert path.name in invalid.reason


def test_a_shard_that_changes_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    path = commit(store, 1, 2) / "state-model-00002-of-00002.safetensors"
    newest = store.newest()
    assert newest is not None
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # of a row that rank 0 does not need
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match="changed while it was read"):
        newest.state("model", 0, 2)


def test_an_incomplete_set_of_shards_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="must be one complete set"):
        group_shards([shard_name("model", 1, 3), shard_name("model", 2, 3)])
    with pytest.raises(CheckpointError, match="must be one complete set"):
        group_shards([shard_name("model", 0, 2), shard_name("model", 1, 3)])


@pytest.mark.parametrize("word", ["strict", "compile"])
def test_sharding_excludes_strict_and_compile(word: str) -> None:
    config = TrainingConfig(steps=1, sharding="full")
    with pytest.raises(
        InputError, match=rf"^training\.{word} must be false with training\.sharding"
    ):
        replace(config, **{word: True})
