"""A program that commits checkpoints in many short lives, each ended by SIGKILL.

python -m tests.training.crash_worker FOLDER

First one life for each call that a commit makes to the disk, killed right before that call; then
lives that commit one step after the other, each killed at a random moment of some commit. After
each death the newest checkpoint must be sound and no older than the last acknowledged one. Prints
how many calls a commit makes and the last step of the random lives; an assertion ends it
otherwise. One process imports torch for all.
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
    """Two files whose every number is the step, large enough that writing them takes a while."""
    number = torch.full((100, 300), float(step))
    return {"model": {"weight": number}, "optimizer": {"mean": number, "square": -number}}


def begin(life: Callable[[int], None]) -> tuple[int, IO[str]]:
    """A child process that lives `life(acknowledge)`, and what it acknowledges, a step a line."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        life(writing)
        os._exit(0)
    os.close(writing)
    return child, os.fdopen(reading)


def end(child: int, acknowledged: IO[str]) -> tuple[bool, int]:
    """Whether SIGKILL ended the child, and the last step it still acknowledged (0: none)."""
    with acknowledged:
        last = max(map(int, acknowledged), default=0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a life failed"
    return os.WIFSIGNALED(status), last


def check(store: CheckpointStore, acknowledged: int) -> int:
    """The newest step, its tensors compared with those of its step."""
    newest = store.newest()
    assert newest is not None
    assert not newest.rejected, newest
    assert newest.step >= acknowledged, (newest.step, acknowledged)
    for name, tensors in states(newest.step).items():
        found = newest.load()[name]
        assert all(torch.equal(found[key], tensor) for key, tensor in tensors.items())
    return newest.step


def killed_before_each_call(folder: Path) -> int:
    """A commit of step 3 beside 1 and 2 is killed before its first call, its second, ..."""
    for lives in range(1, 1000):
        store = CheckpointStore(folder / str(lives))
        store.commit(1, states(1), {})
        store.commit(2, states(2), {})

        def die(number: int, name: str, what: object, last: int = lives) -> None:
            if number == last:
                os.kill(os.getpid(), signal.SIGKILL)

        def life(writing: int, store: CheckpointStore = store, die: object = die) -> None:
            with before_each_disk_call(die):
                store.commit(3, states(3), {})
            os.write(writing, b"3\n")

        killed, acknowledged = end(*begin(life))
        assert check(store, max(acknowledged, 2)) == 3 or killed
        store.commit(4, states(4), {})  # the next life tidies up and goes on
        names = sorted(path.name for path in store.checkpoints.iterdir())
        assert names in (["step-2", "step-4"], ["step-3", "step-4"]), names
        if not killed:
            return lives - 1
    raise AssertionError("a commit without end")


def killed_at_random(folder: Path, lives: int) -> int:
    """Lives that go on from the newest checkpoint, commit up to 3 more and die in the next."""
    store, chance, newest = CheckpointStore(folder), random.Random(0), 0
    for _ in range(lives):

        def life(writing: int, first: int = newest + 1) -> None:
            for step in range(first, first + 10_000):
                store.commit(step, states(step), {})
                os.write(writing, b"%d\n" % step)

        child, acknowledged = begin(life)
        for _ in range(chance.randint(1, 3)):
            newest = int(acknowledged.readline())
        time.sleep(chance.uniform(0, 0.01))
        os.kill(child, signal.SIGKILL)
        _, last = end(child, acknowledged)
        newest = check(store, max(newest, last))
    return newest


if __name__ == "__main__":
    torch.set_num_threads(1)
    root = Path(sys.argv[1])
    print(killed_before_each_call(root / "calls"), killed_at_random(root / "random", lives=30))
