"""Asynchronous commits equal synchronous ones, in their order, with their errors."""

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
from tests.errors import raises


def states(step: int) -> dict[str, dict[str, torch.Tensor]]:
    weight = torch.full((50, 300), float(step))
    return {"model": {"weight": weight}, "optimizer": {"step": torch.tensor(step), "mean": -weight}}


def test_the_same_bytes_as_a_synchronous_commit(tmp_path: Path) -> None:
    front, back = CheckpointStore(tmp_path / "front", 3), CheckpointStore(tmp_path / "back", 3)
    with AsyncCheckpointWriter(back) as writer:
        for step in range(1, 8):
            front.commit(step, states(step), {"a": step}, protect=[2])
            writer.commit(step, states(step), {"a": step}, protect=[2])
    files = {path.relative_to(front.folder) for path in front.folder.rglob("*")}
    assert {path.relative_to(back.folder) for path in back.folder.rglob("*")} == files
    assert Path("checkpoints/step-2/manifest.json") in files
    for file in files:
        if (front.folder / file).is_file():
            assert (front.folder / file).read_bytes() == (back.folder / file).read_bytes()


def test_later_changes_are_not_in_a_commit(tmp_path: Path) -> None:
    """Training changes weights in place; each checkpoint still holds those of its own step."""
    store = CheckpointStore(tmp_path, keep=20)
    weight = torch.nn.Parameter(torch.zeros(200_000))
    with AsyncCheckpointWriter(store) as writer, torch.no_grad():
        for step in range(1, 11):
            weight.fill_(step)
            writer.commit(step, {"model": {"turned": weight.view(2, -1).T}}, {})
            writer.wait_for_staging()
            weight.fill_(-1)
    for step in range(1, 11):
        loaded = store.checkpoint(step).load()["model"]["turned"]
        assert torch.equal(loaded, torch.full((100_000, 2), float(step)))


def test_swapped_tensors_are_not_in_a_commit(tmp_path: Path) -> None:
    """An evaluation swaps weights and averages, maybe before the copy is complete."""
    blocked = threading.Event()
    averages = {"a": torch.ones(2)}
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as writer:
        writer._thread.submit(blocked.wait)
        writer.commit(1, {"average": averages}, {})
        averages["a"] = torch.zeros(2)
        blocked.set()
        writer.wait_for_staging()
    assert torch.equal(store.checkpoint(1).load()["average"]["a"], torch.ones(2))


def test_a_failing_copy_fails_the_commit_without_blocking(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as writer:
        writer.commit(1, {"model": {"meta": torch.ones(2, device="meta")}}, {})
        writer.wait_for_staging()
        with pytest.raises(NotImplementedError, match="meta"):
            writer.wait()
    assert store.newest() is None


def test_states_may_change_their_shapes(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep=9)
    parts = [{"a": torch.zeros(2)}, {}, {"a": torch.ones(3), "b": torch.ones(1).bfloat16()}]
    with AsyncCheckpointWriter(store) as writer:
        for step, part in enumerate(parts):
            writer.commit(step, {"model": part}, {})
    for step, part in enumerate(parts):
        loaded = store.checkpoint(step).load()["model"]
        assert loaded.keys() == part.keys()
        assert all(torch.equal(loaded[name], part[name]) for name in part)


def test_allocated_buffers_are_used(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as writer:
        writer.allocate(states(7))
        writer.commit(1, states(1) | {"average": {"a": torch.ones(2)}}, {})
    loaded = store.checkpoint(1).load()
    assert torch.equal(loaded["model"]["weight"], states(1)["model"]["weight"])
    assert torch.equal(loaded["average"]["a"], torch.ones(2))


def test_the_next_commit_raises_an_error(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    with AsyncCheckpointWriter(store) as writer:
        writer.commit(1, states(1), {})
        writer.wait()
        assert not writer.failed
        writer.commit(1, states(1), {})  # exists
        with raises(StorageError, "checkpoint.exists"):
            writer.commit(2, states(2), {})
        writer.commit(3, states(3), {})  # the next one works
    assert [path.name for path in sorted(store.checkpoints.iterdir())] == ["step-1", "step-3"]


def train(folder: Path, then: Callable[[AsyncCheckpointWriter], object]) -> None:
    """Commit once where a file has the name of the folder."""
    (folder / "checkpoints").write_text("a file")
    with AsyncCheckpointWriter(CheckpointStore(folder)) as writer:
        writer.commit(1, states(1), {})
        then(writer)


def test_the_exit_raises_the_error_of_the_last_commit(tmp_path: Path) -> None:
    def wait(writer: AsyncCheckpointWriter) -> None:
        while not writer.failed:
            time.sleep(0.001)

    with pytest.raises(StorageError, match="cannot be written"):
        train(tmp_path, wait)


def test_the_first_error_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, lambda writer: 1 / 0)


def test_no_thread_remains(tmp_path: Path) -> None:
    before = threading.active_count()
    with AsyncCheckpointWriter(CheckpointStore(tmp_path)) as writer:
        writer.commit(1, states(1), {})
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_the_thread_starts_no_openmp_workers(tmp_path: Path) -> None:
    """With more OpenMP threads than cores those of the training sleep between operations."""
    code = """
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
with AsyncCheckpointWriter(CheckpointStore(Path(sys.argv[1]))) as writer:
    writer.allocate(states)
    for step in (1, 2):
        writer.commit(step, states, {})
        writer.wait()
    print(len(os.listdir("/proc/self/task")) - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"]
