"""A lock on a run folder: one training at a time, released when its process ends."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import InputError

LOCK = ".training.lock"
OWNER_FILE = ".training.json"  # the process that holds it, for the error message


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Context in which no other process trains in `folder`, which is created if necessary.

    The operating system holds the lock, so that of a killed process is released. Raises
    InputError at once if another process holds it, StorageError if it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, run_lock(Path(folder)):
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['.training.json', '.training.lock']
    """
    lock = FileLock(folder / LOCK, timeout=0)
    with storage_errors(f"{folder}: cannot be locked"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            raise InputError(
                f"{folder} is in use by {_owner(folder)}; wait for that training, or stop it"
            ) from None
    try:
        me = {"process": os.getpid(), "host": socket.gethostname()}
        write_atomically(folder / OWNER_FILE, json.dumps(me).encode())
        yield
    finally:
        (folder / OWNER_FILE).unlink(missing_ok=True)
        if os.name == "posix":
            (folder / LOCK).unlink(missing_ok=True)
            lock.release()
        else:  # Windows does not delete a file that is open; the next training may have it open
            lock.release()
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)


def _owner(folder: Path) -> str:
    """The process that holds the lock; it may not have written its number yet."""
    try:
        owner = json.loads((folder / OWNER_FILE).read_bytes())
        return f"process {int(owner['process'])} on {str(owner['host'])[:80]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
