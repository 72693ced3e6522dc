"""One training per folder: a second one fails; a killed one releases the lock."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jumok.errors import InputError, StorageError
from jumok.training import lock
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


def test_a_file_system_without_locks_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "acquire", lambda _: False)
    with run_lock(tmp_path):
        assert f"the file system of {tmp_path} has no locks" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
