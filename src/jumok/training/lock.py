"""A lock on a run folder: one training at a time, released when its process ends.

It is a file lock of the operating system (flock), which NFS passes on to its server. Where the file
system has none, a notice says so, and nothing excludes a second training.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import InputError, Message
from jumok.file_lock import acquire
from jumok.terminal import print_notice

LOCK = ".training.lock"
OWNER_FILE = ".training.json"  # names the process that holds it


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Context in which no other process trains in `folder`, which is created if necessary.

    Raises InputError if another process holds it, StorageError if it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, run_lock(Path(folder)):
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['.training.json', '.training.lock']
    """
    lock, owner = FileLock(folder / LOCK, timeout=0), folder / OWNER_FILE
    if folder.exists() and not folder.is_dir():
        raise InputError(
            "training.out_not_folder",
            "{folder} must be a folder, got a file; choose another name",
            folder=folder,
        )
    with storage_errors(f"{folder}: cannot be locked"):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            has_lock = acquire(lock)
        except Timeout:
            raise _in_use(folder, owner) from None
        if not has_lock:
            print_notice(
                Message(
                    "training.no_file_locks",
                    "jumok: the file system of {folder} has no locks; make sure that no other "
                    "process trains in it",
                    folder=folder,
                )
            )
        me = {"process": os.getpid(), "host": socket.gethostname()}
        write_atomically(owner, json.dumps(me).encode())
    try:
        yield
    finally:
        owner.unlink(missing_ok=True)
        if os.name == "posix":
            (folder / LOCK).unlink(missing_ok=True)
            lock.release()
        else:  # Windows deletes no open file; another training may have opened it since
            lock.release()
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)


def _in_use(folder: Path, owner: Path) -> InputError:
    name = "another process"
    with suppress(OSError, ValueError, KeyError, TypeError):  # not yet written, or damaged
        found = json.loads(owner.read_bytes())
        host = "".join(c for c in str(found["host"])[:80] if c.isprintable())
        name = f"process {int(found['process'])} on {host}"
    return InputError(
        "training.run_in_use",
        "{folder} is in use by {owner}; wait for that training, or stop it",
        folder=folder,
        owner=name,
    )
