"""One commit in its own process, with every system call under control (strace).

The process is forked, waits for strace, commits step 3 after steps 1 and 2, and reports it. strace
kills it at one call, returns an error for one call, or records all calls. Without strace the Python
calls that change the disk are intercepted.
"""

import io
import mmap
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jumok.errors import JumokError
from jumok.training.checkpoints.store import CheckpointStore

from .worker_processes import WorkerProcess, start_process

CHANGING = ("mkdir", "open", "fsync", "close", "rename", "replace", "unlink", "rmdir")
Act = Callable[[int], None]


def states(step: int) -> dict[str, dict[str, Tensor]]:
    """Two files whose every number is the step."""
    number = torch.full((60, 100), float(step))
    return {"model": {"weight": number}, "optimizer": {"mean": number, "square": -number}}


def two_committed(folder: Path) -> CheckpointStore:
    """A run with the steps 1 and 2."""
    store = CheckpointStore(folder)
    for step in (1, 2):
        store.commit(step, states(step), {"step": step})
    return store


def sound(store: CheckpointStore) -> int:
    """The newest step, when it is there to the last bit; 0 when there is nothing to go on with."""
    try:
        newest = store.newest()
    except JumokError:
        return 0
    if newest is None or newest.invalid:
        return 0
    loaded, wanted = newest.load(), states(newest.step)
    same = all(
        torch.equal(loaded[state][name], tensor)
        for state, tensors in wanted.items()
        for name, tensor in tensors.items()
    )
    return newest.step if same else 0


@dataclass(frozen=True)
class Ending:
    """How a commit ended: the exit code, whether it was acknowledged, what it said."""

    code: int
    acknowledged: bool
    said: str


def has_strace() -> bool:
    """Whether strace is here and may hold a process."""
    program = shutil.which("strace")
    if program is None:
        return False
    done = subprocess.run([program, "-o", "/dev/null", "true"], capture_output=True, check=False)
    return done.returncode == 0


def commit_under_strace(store: CheckpointStore, log: Path, *strace: str) -> Ending:
    """Commit step 3 while strace holds the process with these words."""
    signs = mmap.mmap(-1, 3)  # shared with the life: it may begin; it has ended; it is ready

    def life() -> None:
        signs[2] = 1
        while not signs[0]:  # without a call that strace would see
            pass
        _commit(store, signs)

    process = start_process(life, log)
    while not (signs[2] or process.over()):  # its start-up does not belong to the commit
        time.sleep(0.001)
    command = ["strace", "-q", "-p", str(process.process), *strace]
    holder = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    _until_held(process)
    signs[0] = 1
    code = process.end()
    holder.wait()
    return Ending(code, bool(signs[1]), process.said)


def commit_under(store: CheckpointStore, log: Path, act: Act) -> Ending:
    """Commit step 3 with `act(n)` before the nth call that changes the disk."""
    signs = mmap.mmap(-1, 2)

    def life() -> None:
        with before_each(act):
            _commit(store, signs)

    process = start_process(life, log)
    code = process.end()
    return Ending(code, bool(signs[1]), process.said)


def kill_at(last: int) -> Act:
    """Dies before call `last`."""

    def act(number: int) -> None:
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def fail_at(last: int, error: int) -> Act:
    """Answers call `last` with an error."""

    def act(number: int) -> None:
        if number == last:
            raise OSError(error, os.strerror(error))

    return act


@contextmanager
def before_each(act: Act) -> Iterator[None]:
    """Call `act` with 1, 2, ... before the calls of `os` that change the disk, and new files."""
    count, new_file = 0, io.open
    real: dict[str, Any] = {name: getattr(os, name) for name in CHANGING}

    def watched(call: Callable[..., Any]) -> Callable[..., Any]:
        def announce(*words: Any, **named: Any) -> Any:
            nonlocal count
            if call is not new_file or "x" in (words[1] if len(words) > 1 else ""):
                count += 1
                act(count)
            return call(*words, **named)

        return announce

    try:
        for name, call in real.items():
            setattr(os, name, watched(call))
        io.open = watched(new_file)
        yield
    finally:
        io.open = new_file
        for name, call in real.items():
            setattr(os, name, call)


def _commit(store: CheckpointStore, signs: mmap.mmap) -> None:
    try:
        store.commit(3, states(3), {"step": 3})
    except JumokError as error:
        print(error)
        raise SystemExit(error.exit_code) from error
    signs[1] = 1


def _until_held(process: WorkerProcess) -> None:
    """Until strace has the process in its hands."""
    status = Path(f"/proc/{process.process}/status")
    while not re.search(r"TracerPid:\t[1-9]", status.read_text()):
        time.sleep(0.001)
