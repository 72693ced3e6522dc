"""Commit checkpoints in many child processes, each ended by SIGKILL.

python -m tests.training.crash_worker FOLDER

First one process for each disk call of a commit, killed right before that call; then processes that
commit one step after the other, each killed at a random time. After each kill the newest checkpoint
must be valid and not older than the last acknowledged one. Prints the number of disk calls of a
commit and the last step of the random kills, or fails with an assertion. Only the parent process
imports torch.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import torch

from jumok.training.checkpoints.store import CheckpointStore
from tests.training.fault_injection import before_each_disk_call


def states(step: int) -> dict[str, dict[str, torch.Tensor]]:
    """Two files filled with the step, large enough that writing them takes some time."""
    number = torch.full((100, 300), float(step))
    return {"model": {"weight": number}, "optimizer": {"mean": number, "square": -number}}


def start(run: Callable[[int], None]) -> tuple[int, IO[str]]:
    """Start a child process that calls `run(acknowledge)`; it writes a line for each step."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        run(writer)
        os._exit(0)
    os.close(writer)
    return child, os.fdopen(reader)


def end(child: int, acknowledged: IO[str]) -> tuple[bool, int]:
    """Whether SIGKILL ended the child, and the last step that it acknowledged (0: none)."""
    with acknowledged:
        last = max(map(int, acknowledged), default=0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a child failed"
    return os.WIFSIGNALED(status), last


def check(store: CheckpointStore, acknowledged: int) -> int:
    """The newest step, after comparing its tensors with the expected ones."""
    newest = store.newest()
    assert newest is not None
    assert not newest.invalid, newest
    assert newest.step >= acknowledged, (newest.step, acknowledged)
    for name, tensors in states(newest.step).items():
        found = newest.load()[name]
        assert all(torch.equal(found[key], tensor) for key, tensor in tensors.items())
    return newest.step


def killed_before_each_call(folder: Path) -> int:
    """Kill a commit of step 3 before its first disk call, its second, ..."""
    for kills in range(1, 1000):
        store = CheckpointStore(folder / str(kills))
        store.commit(1, states(1), {})
        store.commit(2, states(2), {})

        def die(number: int, name: str, argument: object, last: int = kills) -> None:
            if number == last:
                os.kill(os.getpid(), signal.SIGKILL)

        def run(writer: int, store: CheckpointStore = store, die: object = die) -> None:
            with before_each_disk_call(die):
                store.commit(3, states(3), {})
            os.write(writer, b"3\n")

        killed, acknowledged = end(*start(run))
        assert check(store, max(acknowledged, 2)) == 3 or killed
        store.commit(4, states(4), {})  # the next process cleans up and continues
        names = sorted(path.name for path in store.checkpoints.iterdir())
        assert names in (["step-2", "step-4"], ["step-3", "step-4"]), names
        if not killed:
            return kills - 1
    raise AssertionError("a commit has fewer than 1000 disk calls")


def killed_at_random(folder: Path, kills: int) -> int:
    """Processes that resume from the newest checkpoint, commit some steps and are killed."""
    store, rng, newest = CheckpointStore(folder), random.Random(0), 0
    for _ in range(kills):

        def run(writer: int, first: int = newest + 1) -> None:
            for step in range(first, first + 10_000):
                store.commit(step, states(step), {})
                os.write(writer, b"%d\n" % step)

        child, acknowledged = start(run)
        for _ in range(rng.randint(1, 3)):
            newest = int(acknowledged.readline())
        time.sleep(rng.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        _, last = end(child, acknowledged)
        newest = check(store, max(newest, last))
    return newest


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    print(killed_before_each_call(root / "calls"), killed_at_random(root / "random", kills=30))
