"""A lock on a run folder: one training at a time, released when its process ends.

Two locks together. The operating system holds a file lock (flock), which ends with the process; but
some network file systems have none, and on others it excludes the processes of one machine only.
So the holder also writes its name into a file and changes it every few seconds. A process that
finds such a file of another machine, or without flock, watches it: if it changes, the run is in
use; if it does not, its writer has ended, and the run is taken over with a message.
"""

import json
import os
import secrets
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from filelock import FileLock, Timeout

from jumok.atomic_io import storage_errors
from jumok.errors import InputError, StorageError
from jumok.file_lock import acquire

LOCK = ".training.lock"
OWNER_FILE = ".training.json"  # the process that holds it
BEAT_SECONDS = 3.0  # between two changes of the file
MISSED_BEATS = 5  # after which its writer has ended


@dataclass(frozen=True)
class _Owner:
    """The process that holds a lock, and how often it has said so."""

    process: int = 0
    host: str = ""
    token: str = field(default_factory=lambda: secrets.token_hex(8))
    beat: int = 0

    def __str__(self) -> str:
        host = "".join(c for c in self.host[:80] if c.isprintable())
        return f"process {self.process} on {host}" if self.process else "another process"


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Context in which no other process trains in `folder`, which is created if necessary.

    Raises InputError if another process holds it, StorageError if it cannot be written. A process
    that finds its lock taken over, as after it was stopped for a while, ends with exit code 3.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, run_lock(Path(folder)):
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['.training.json', '.training.lock']
    """
    lock = FileLock(folder / LOCK, timeout=0)
    path = folder / OWNER_FILE
    me = _Owner(os.getpid(), socket.gethostname())
    if folder.exists() and not folder.is_dir():
        raise InputError(
            "training.out_not_folder",
            "{folder} must be a folder, got a file; choose another name",
            folder=folder,
        )
    with storage_errors(f"{folder}: cannot be locked"):
        folder.mkdir(parents=True, exist_ok=True)
        excludes_this_machine = _flock(lock, folder)
        try:
            _claim(folder, me, excludes_this_machine)
        except BaseException:
            lock.release()
            raise
    ended = threading.Event()
    beats = threading.Thread(target=_beat, args=(path, me, ended), daemon=True)
    beats.start()
    try:
        yield
    finally:
        ended.set()
        beats.join()
        path.unlink(missing_ok=True)
        if os.name == "posix":
            (folder / LOCK).unlink(missing_ok=True)
            lock.release()
        else:  # Windows deletes no open file; another training may have opened it since
            lock.release()
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)


def _flock(lock: FileLock, folder: Path) -> bool:
    """Acquire the lock of the operating system; False where the file system has none."""
    try:
        return acquire(lock)
    except Timeout:
        raise _in_use(folder, _read(folder / OWNER_FILE)) from None


def _claim(folder: Path, me: _Owner, excludes_this_machine: bool) -> None:
    """Write the name of this process into the file of the owner, which must be unused."""
    path = folder / OWNER_FILE
    found = _read(path)
    if found is not None:
        if not (excludes_this_machine and found.host in ("", me.host)):
            _watch(folder, found)
        _remove(folder, found)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(json.dumps(asdict(me)))
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise _in_use(folder, _read(path)) from None


def _watch(folder: Path, found: _Owner) -> None:
    """Return once the file of the owner has not changed for a while. Raises InputError if it does.

    It is opened anew each time, so that network file systems show the current content.
    """
    path, seconds = folder / OWNER_FILE, BEAT_SECONDS * MISSED_BEATS
    _say(f"{folder} was last used by {found}; waiting {seconds:.0f} s to see whether it still is")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        time.sleep(BEAT_SECONDS / 4)
        now = _read(path)
        if now is not None and now != found:
            raise _in_use(folder, now)
    _say(f"{found} has not changed {path.name} for {seconds:.0f} s; its run is taken over")


def _remove(folder: Path, found: _Owner) -> None:
    """Remove the file of an owner that has ended, and no file that another process wrote since."""
    path, aside = folder / OWNER_FILE, folder / f".training-{secrets.token_hex(4)}.json"
    with suppress(FileNotFoundError):
        path.rename(aside)
        now = _read(aside)
        if now is not None and now.token != found.token:
            with suppress(FileExistsError):
                os.link(aside, path)
            aside.unlink()
            raise _in_use(folder, now)
        aside.unlink()


def _beat(path: Path, me: _Owner, ended: threading.Event) -> None:
    """Change the file until the training has ended; end the process if it is another's file."""
    while not ended.wait(BEAT_SECONDS):
        found = _read(path)
        if found is not None and found.token not in ("", me.token):
            _say(f"{found} has taken over the run in {path.parent}; this process ends")
            os._exit(StorageError.exit_code)
        me = replace(me, beat=me.beat + 1)
        with suppress(OSError), path.open("r+", encoding="utf-8") as file:  # a full disk: next time
            file.write(json.dumps(asdict(me)))  # never shorter than before
            file.flush()
            os.fsync(file.fileno())


def _read(path: Path) -> _Owner | None:
    """The owner in a file; None without one. A file that is being written names no process."""
    try:
        owner = json.loads(path.read_bytes())
        return _Owner(
            int(owner["process"]),
            str(owner["host"]),
            str(owner.get("token", "")),
            int(owner.get("beat", 0)),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _Owner(token="")


def _in_use(folder: Path, owner: _Owner | None) -> InputError:
    return InputError(
        "training.run_in_use",
        "{folder} is in use by {owner}; wait for that training, or stop it",
        folder=folder,
        owner=owner or "another process",
    )


def _say(message: str) -> None:
    print(f"jumok: {message}", file=sys.stderr, flush=True)
