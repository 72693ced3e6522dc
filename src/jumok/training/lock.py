"""One training a folder: a lock that dies with whoever holds it."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import InputError

LOCK = ".training.lock"
OWNER = ".training.json"  # who holds it, for the sentence others get


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Within it no other process trains in `folder`, which is made if need be.

    The operating system keeps the lock (flock), so a process that is killed leaves none behind.
    Raises InputError, at once, while another holds it, StorageError where no lock can be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, alone(Path(folder)):
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
                f"{folder} is being trained in by {_owner(folder)}; wait for it, or stop it"
            ) from None
    try:
        me = {"process": os.getpid(), "host": socket.gethostname()}
        write_atomically(folder / OWNER, json.dumps(me).encode())
        yield
    finally:
        for name in (OWNER, LOCK):
            (folder / name).unlink(missing_ok=True)
        lock.release()


def _owner(folder: Path) -> str:
    """The holder of the lock, as far as it is known: it may be about to write its name."""
    try:
        owner = json.loads((folder / OWNER).read_bytes())
        return f"process {int(owner['process'])} on {str(owner['host'])[:80]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
