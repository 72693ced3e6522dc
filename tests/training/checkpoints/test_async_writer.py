"""Commits in the background are those of the foreground, in their order, errors and all."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from jumok.errors import StorageError
from jumok.training.checkpoints.async_writer import AsyncCheckpointWriter
from jumok.training.checkpoints.store import CheckpointStore


def states(step: int) -> dict[str, dict[str, torch.Tensor]]:
    weight = torch.full((50, 300), float(step))
    return {"model": {"weight": weight}, "optimizer": {"step": torch.tensor(step), "mean": -weight}}


def test_the_same_bytes_as_in_the_foreground(tmp_path: Path) -> None:
    front, back = CheckpointStore(tmp_path / "front", keep=3), CheckpointStore(tmp_path / "back", 3)
    with AsyncCheckpointWriter(back) as behind:
        for step in range(1, 8):
            front.commit(step, states(step), {"a": step}, protect=[2])
            behind.commit(step, states(step), {"a": step}, protect=[2])
    files = {path.relative_to(front.folder) for path in front.folder.rglob("*")}
    assert {path.relative_to(back.folder) for path in back.folder.rglob("*")} == files
    assert Path("checkpoints/step-2/manifest.json") in files
    for file in files:
        if (front.folder / file).is_file():
            assert (front.folder / file).read_bytes() == (back.folder / file).read_bytes()


def test_what_changes_after_the_call_is_not_in_it(tmp_path: Path) -> None:
    """The training goes on in place; each checkpoint holds its own step all the same."""
    store = CheckpointStore(tmp_path, keep=20)
    weight = torch.nn.Parameter(torch.zeros(200_000))
    with AsyncCheckpointWriter(store) as behind, torch.no_grad():
        for step in range(1, 11):
            weight.fill_(step)
            behind.commit(step, {"model": {"turned": weight.view(2, -1).T}}, {})
            behind.wait_for_staging()
            weight.fill_(-1)
    for step in range(1, 11):
        loaded = store.checkpoint(step).load()["model"]["turned"]
        assert torch.equal(loaded, torch.full((100_000, 2), float(step)))


def test_an_exchange_of_tensors_meanwhile_is_not_in_it(tmp_path: Path) -> None:
    """An evaluation puts the average where the weights were, before the copy may be there."""
    held = threading.Event()
    averages = {"a": torch.ones(2)}
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as behind:
        behind._thread.submit(held.wait)
        behind.commit(1, {"average": averages}, {})
        averages["a"] = torch.zeros(2)
        held.set()
        behind.wait_for_staging()
    assert torch.equal(store.checkpoint(1).load()["average"]["a"], torch.ones(2))


def test_a_copy_that_fails_fails_the_commit_and_holds_nobody_up(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as behind:
        behind.commit(1, {"model": {"nowhere": torch.ones(2, device="meta")}}, {})
        behind.wait_for_staging()
        with pytest.raises(NotImplementedError, match="meta"):
            behind.wait()
    assert store.newest() is None


def test_states_may_come_go_and_grow(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=9)
    parts = [{"a": torch.zeros(2)}, {}, {"a": torch.ones(3), "b": torch.ones(1).bfloat16()}]
    with AsyncCheckpointWriter(store) as behind:
        for step, part in enumerate(parts):
            behind.commit(step, {"model": part}, {})
    for step, part in enumerate(parts):
        loaded = store.checkpoint(step).load()["model"]
        assert loaded.keys() == part.keys()
        assert all(torch.equal(loaded[name], part[name]) for name in part)


def test_room_made_before_is_used(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as behind:
        behind.allocate(states(7))
        behind.commit(1, states(1) | {"average": {"a": torch.ones(2)}}, {})
    loaded = store.checkpoint(1).load()
    assert torch.equal(loaded["model"]["weight"], states(1)["model"]["weight"])
    assert torch.equal(loaded["average"]["a"], torch.ones(2))


def test_a_commit_that_failed_is_told_by_the_next(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as behind:
        behind.commit(1, states(1), {})
        behind.wait()
        assert not behind.failed
        behind.commit(1, states(1), {})  # there already
        with pytest.raises(StorageError, match="committed already"):
            behind.commit(2, states(2), {})
        behind.commit(3, states(3), {})  # the one after it may
    assert [path.name for path in sorted(store.checkpoints.iterdir())] == ["step-1", "step-3"]


def train(folder: Path, then: Callable[[AsyncCheckpointWriter], object]) -> None:
    """A training of one commit, for which a file lies in the way."""
    (folder / "checkpoints").write_text("in the way")
    with AsyncCheckpointWriter(CheckpointStore(folder)) as behind:
        behind.commit(1, states(1), {})
        then(behind)


def test_a_last_commit_that_failed_is_told_at_the_end(tmp_path: Path) -> None:
    def see(behind: AsyncCheckpointWriter) -> None:
        while not behind.failed:
            time.sleep(0.001)

    with pytest.raises(StorageError, match="cannot be written"):
        train(tmp_path, see)


def test_the_first_failure_is_the_one_to_tell(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, lambda behind: 1 / 0)


def test_leaves_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()
    with AsyncCheckpointWriter(CheckpointStore(tmp_path)) as behind:
        behind.commit(1, states(1), {})
    assert threading.active_count() == before


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_the_thread_has_no_workers_of_its_own(tmp_path: Path) -> None:
    """More threads of OpenMP than cores: those of the training would sleep between operations."""
    counted = """
import os, sys
from pathlib import Path
import torch
from jumok.training.checkpoints.async_writer import AsyncCheckpointWriter
from jumok.training.checkpoints.store import CheckpointStore

torch.set_num_threads(2)
values = torch.ones(2_000_000)
large = {dtype: values.to(dtype) for dtype in (torch.float32, torch.bfloat16)}
states = {"model": {str(dtype): value for dtype, value in large.items()}}
states["model"] |= {"turned": torch.ones(1_000, 2_000).T, "bool": values > 0}
before = len(os.listdir("/proc/self/task"))
with AsyncCheckpointWriter(CheckpointStore(Path(sys.argv[1]))) as behind:
    behind.prepare(states)
    for step in (1, 2):
        behind.commit(step, states, {})
        behind.wait()
    print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", counted, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]
