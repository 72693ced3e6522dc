"""Float32 matrices in the user's cache: computed by one process at a time, then memory-mapped.

The rows are appended to NAME.partial, which becomes NAME.f32 when it is complete. So a process that
is killed loses only the rows that it was computing, and a reader never gets an incomplete matrix.

Shapes: n rows, D columns.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from jumok.atomic_io import cleanup_on_error, rename, storage_errors, sync_folder, temp_path
from jumok.data.trusted_cache import exposure, private_folder, warn_exposed
from jumok.file_lock import acquire
from jumok.terminal import print_notice

Matrix = NDArray[np.float32]


def cached_matrix(
    folder: Path,
    name: str,
    shape: tuple[int, int],
    next_rows: Callable[[int], Matrix],
    progress: Callable[[int, int], None] | None = None,
) -> Matrix:
    """The matrix (n, D) of this name in a folder of the cache, memory-mapped.

    Where it is missing, `next_rows(start)` returns some of the rows from `start` on, and `progress`
    receives the rows that are written and all rows. Other processes that need the same matrix wait.
    If others may write to the folder, a temporary one is used instead, and a file that others may
    have written is not read. Raises StorageError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = lambda start: np.full((2, 3), start, np.float32)
    ...     cached_matrix(Path(folder), "a", (4, 3), rows)[:, 0].tolist()
    [0.0, 0.0, 2.0, 2.0]
    """
    with storage_errors(f"{folder}: cannot be written"):
        folder = private_folder(folder)
    path = folder / f"{name}.f32"
    if not _is_complete(path, shape):
        with _turn(folder / f"{name}.lock") as shared:
            if not _is_complete(path, shape):  # nor has another process completed it meanwhile
                _compute(path, shape, next_rows, progress, shared)
    return np.memmap(path, dtype="<f4", mode="r", shape=shape)


def _is_complete(path: Path, shape: tuple[int, int]) -> bool:
    """Whether the file is that of a whole matrix, and only this user can have written it."""
    return path.is_file() and _is_trusted(path) and path.stat().st_size == _n_bytes(shape)


def _compute(
    path: Path,
    shape: tuple[int, int],
    next_rows: Callable[[int], Matrix],
    progress: Callable[[int, int], None] | None,
    shared: bool,
) -> None:
    """Write the matrix to `path`, from where the last process stopped if the file is shared."""
    n_rows, _ = shape
    partial = path.with_suffix(".partial")
    if not shared:  # other processes may be writing theirs
        partial = temp_path(path.parent, "tmp", path.stem)
    with nullcontext() if shared else cleanup_on_error(partial):
        done = _usable_rows(partial, shape)
        while done < n_rows:
            rows = next_rows(done)
            with storage_errors(f"{partial}: cannot be written"), partial.open("ab") as out:
                out.write(rows.astype("<f4").tobytes())
            done += len(rows)
            if progress is not None:
                progress(done, n_rows)
        with storage_errors(f"{path}: cannot be written"):
            with partial.open("rb+") as out:
                os.fsync(out.fileno())
            rename(partial, path)
            sync_folder(path.parent)


def _usable_rows(partial: Path, shape: tuple[int, int]) -> int:
    """The rows that an interrupted process has written; the file ends after them."""
    with storage_errors(f"{partial}: cannot be written"):
        _remove_untrusted(partial)
        with open(partial, "ab", opener=_open_private) as out:
            size = out.tell()
            done = size // _n_bytes((1, shape[1])) if size <= _n_bytes(shape) else 0
            out.truncate(_n_bytes((done, shape[1])))  # it was killed within a row
    return done


def _n_bytes(shape: tuple[int, int]) -> int:
    return 4 * shape[0] * shape[1]


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_trusted(path: Path) -> bool:
    """Whether only this user can have written a file; others may have before `private_folder`."""
    if reason := exposure(path):
        warn_exposed(path.parent, reason)
    return not (reason or path.is_symlink())


def _remove_untrusted(path: Path) -> None:
    if not _is_trusted(path):
        path.unlink(missing_ok=True)


@contextmanager
def _turn(path: Path) -> Iterator[bool]:
    """Context of one process at a time; False where the file system has no locks.

    The file is removed only when the matrix is complete: a lock on a removed file does not exclude
    the processes that open a new one.
    """
    with storage_errors(f"{path}: cannot be locked"):
        _remove_untrusted(path)
        lock = FileLock(path, timeout=0, mode=0o600)
        try:
            shared = acquire(lock)
        except Timeout:
            print_notice("another process is computing the same vectors; waiting for it")
            lock.acquire(timeout=-1)
            shared = True
    try:
        yield shared
        with suppress(OSError):  # Windows deletes no open file
            path.unlink()
    finally:
        lock.release()
