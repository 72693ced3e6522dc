"""One training per folder: a second one fails; a killed one releases the lock."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jumok.errors import InputError, StorageError
from jumok.training.lock import OWNER_FILE, run_lock
from tests.cli.commands import JUMOK, environment, run
from tests.errors import raises

ENDLESS = ("training.steps=1000000", "training.checkpoint_every=1", "training.batch_tokens=200")


def test_the_lock_excludes_others(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with run_lock(folder):
        check_locked(folder, rf"in use by process {os.getpid()} on ")
        (folder / OWNER_FILE).write_text("half a fi")
        check_locked(folder, "in use by another process; wait for that training")
    with run_lock(folder):
        pass


def check_locked(folder: Path, message: str) -> None:
    with pytest.raises(InputError, match=message), run_lock(folder):
        pass


def test_an_error_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), run_lock(tmp_path):
        raise ZeroDivisionError
    with run_lock(tmp_path):
        pass


def test_an_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with raises(InputError, "training.out_not_folder"), run_lock(tmp_path / "file"):
        pass
    with (
        pytest.raises(StorageError, match="cannot be locked"),
        run_lock(tmp_path / "file" / "run"),
    ):
        pass


@pytest.mark.slow
def test_a_second_training_fails_until_the_first_is_killed(
    review_recipe: Path, tmp_path: Path
) -> None:
    """The error names the first process; a killed process releases its lock."""
    folder = tmp_path / "run"
    with training(folder, "train", review_recipe, *ENDLESS, "--out", folder) as first:
        second = run("train", "--resume", folder)
    assert second.code == 2
    assert f"{folder} is in use by process {first.pid} on " in second.err
    with training(folder, "train", "--resume", folder):
        pass  # it got the lock


@contextmanager
def training(folder: Path, *argv: object) -> Iterator[subprocess.Popen[bytes]]:
    """A training that holds the lock and has written a checkpoint; killed at the end."""
    with subprocess.Popen(
        [*JUMOK, *map(str, argv)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_for(lambda: owner(folder) == process.pid and checkpoints(folder) != [])
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def owner(folder: Path) -> int | None:
    try:
        return int(json.loads((folder / OWNER_FILE).read_text())["process"])
    except FileNotFoundError:
        return None


def checkpoints(folder: Path) -> list[Path]:
    return list(folder.glob("checkpoints/step-*"))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.05)


# File systems without flock

NO_FLOCK = """
#include <errno.h>
int flock(int descriptor, int operation) { errno = ERROR; return -1; }
"""
LOCAL_FLOCK = "int flock(int descriptor, int operation) { return 0; }"  # excludes no other machine


@pytest.fixture(scope="session")
def shims(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Libraries that replace flock in a process, as on file systems that lack it."""
    if sys.platform != "linux" or shutil.which("cc") is None:
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("shims")
    sources = {name: NO_FLOCK.replace("ERROR", name) for name in ("ENOLCK", "ENOSYS", "EOPNOTSUPP")}
    for name, source in (sources | {"local": LOCAL_FLOCK}).items():
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / f"{name}.so"]
        subprocess.run(command, input=source.encode(), check=True)
    return {path.stem: path for path in folder.iterdir()}


HOLD = """
import socket, sys, time
from pathlib import Path
from jumok.errors import InputError
from jumok.training import lock
lock.BEAT_SECONDS = 0.2
socket.gethostname = lambda: sys.argv[2]
try:
    with lock.run_lock(Path(sys.argv[1])):
        print("locked", flush=True)
        time.sleep(float(sys.argv[3]))
except InputError as error:
    print(error)
    sys.exit(error.exit_code)
"""


def hold(folder: Path, shim: Path, host: str, seconds: float) -> "subprocess.Popen[str]":
    """A process that locks the folder."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder), host, str(seconds)],
        env=environment(LD_PRELOAD=str(shim)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ENOLCK", "ENOSYS", "EOPNOTSUPP", "local"])
def test_one_process_at_a_time_without_flock(
    shims: dict[str, Path], tmp_path: Path, name: str
) -> None:
    """The second is refused while the first lives, and takes over with a message when it is killed.

    "local" is a flock that excludes only processes of the same machine.
    """
    folder, shim = tmp_path / "run", shims[name]
    first = hold(folder, shim, "one", 60)
    assert first.stdout is not None
    assert first.stdout.readline() == "locked\n"
    second = hold(folder, shim, "two", 0)
    out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (
        2,
        f"{folder} is in use by process {first.pid} on one; wait for that training, or stop it\n",
    ), err
    assert f"{folder} was last used by process {first.pid} on one; waiting 1 s" in err
    first.kill()
    first.communicate()
    third = hold(folder, shim, "two", 0)
    out, err = third.communicate(timeout=60)
    assert (third.returncode, out) == (0, "locked\n"), err
    assert f"process {first.pid} on one has not changed .training.json for 1 s; its run is" in err
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_of_many_that_take_over_one_gets_the_lock(shims: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / OWNER_FILE).write_text('{"process": 1, "host": "dead", "token": "x", "beat": 7}')
    rivals = [hold(tmp_path, shims["ENOLCK"], f"host{n}", 3) for n in range(4)]
    outs = [rival.communicate(timeout=60)[0] for rival in rivals]
    assert sum(out == "locked\n" for out in outs) == 1, outs
    assert sorted(rival.returncode for rival in rivals) == [0, 2, 2, 2]


@pytest.mark.slow
def test_a_process_that_was_stopped_and_replaced_ends(
    shims: dict[str, Path], tmp_path: Path
) -> None:
    first = hold(tmp_path, shims["ENOLCK"], "one", 60)
    assert first.stdout is not None
    assert first.stdout.readline() == "locked\n"
    first.send_signal(signal.SIGSTOP)
    second = hold(tmp_path, shims["ENOLCK"], "two", 4)
    assert second.stdout is not None
    assert second.stdout.readline() == "locked\n"
    first.send_signal(signal.SIGCONT)
    _, err = first.communicate(timeout=60)
    assert first.returncode == 3
    assert f"process {second.pid} on two has taken over the run in {tmp_path}" in err
    second.communicate(timeout=60)
    assert second.returncode == 0
