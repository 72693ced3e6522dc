"""Float32 matrices in the user's cache: computed by one process at a time, then memory-mapped.

The rows are appended to NAME.partial, and the checksum of each batch of rows to NAME.sums. So a
process that is killed, or a power cut, loses only the rows whose bytes are not those of their
checksum. The complete file becomes NAME.f32, which ends in the SHA-256 of its rows
(`checked_file`). Where the cache cannot be written, the matrix stays in memory.

Shapes: n rows, D columns.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from jumok.atomic_io import cleanup_on_error, rename, storage_errors, sync_folder, temp_path
from jumok.data.checked_file import intact_size
from jumok.data.trusted_cache import exposure, private_folder, warn_exposed
from jumok.errors import Message, StorageError
from jumok.file_lock import acquire
from jumok.terminal import print_notice

logger = logging.getLogger(__name__)

Matrix = NDArray[np.float32]
NextRows = Callable[[int], Matrix]
Progress = Callable[[int, int], None]

_ROW_COUNT_BYTES = 8
_SUM_BYTES = _ROW_COUNT_BYTES + hashlib.sha256().digest_size


def cached_matrix(
    folder: Path,
    name: str,
    shape: tuple[int, int],
    next_rows: NextRows,
    progress: Progress | None = None,
) -> Matrix:
    """The matrix (n, D) of this name in a folder of the cache, memory-mapped.

    Where it is missing or damaged, `next_rows(start)` returns some of the rows from `start` on, and
    `progress` receives the rows that are written and all rows. Other processes that need the same
    matrix wait. If others may write to the folder, a temporary one is used instead, and a file that
    others may have written is not read. If the cache cannot be written, as on a full disk, the
    matrix is computed in memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = lambda start: np.full((2, 3), start, np.float32)
    ...     cached_matrix(Path(folder), "a", (4, 3), rows)[:, 0].tolist()
    [0.0, 0.0, 2.0, 2.0]
    """
    report = progress or (lambda done, n: None)
    try:
        with _cache_errors(f"{folder}: cannot be written"):
            folder = private_folder(folder)
        path = folder / f"{name}.f32"
        if not _is_complete(path, shape):
            with _turn(folder / f"{name}.lock") as shared:
                if not _is_complete(path, shape):  # nor has another process completed it meanwhile
                    partial = _Partial(path, shape, shared)
                    with nullcontext() if shared else cleanup_on_error(partial.path):
                        in_memory = _compute(partial, next_rows, report)
                    if in_memory is not None:
                        return in_memory
        return np.memmap(path, dtype="<f4", mode="r", shape=shape)
    except _CacheError as error:
        _warn(error)
    return _in_memory(np.empty(shape, np.float32), 0, next_rows, report)


class _CacheError(StorageError):
    """The cache cannot be read or written; other errors are those of `next_rows`."""


@contextmanager
def _cache_errors(what: str) -> Iterator[None]:
    try:
        with storage_errors(what):
            yield
    except StorageError as error:
        raise _CacheError(error.message) from error


def _warn(error: _CacheError) -> None:
    logger.warning(
        Message(
            "data.vectors_not_cached",
            "{error}: the vectors are computed in memory and not cached",
            error=error,
        )
    )


def _is_complete(path: Path, shape: tuple[int, int]) -> bool:
    """Whether the file is that of a whole, intact matrix that only this user can have written."""
    return path.is_file() and _is_trusted(path) and intact_size(path) == _n_bytes(shape)


class _Partial:
    """The rows that have been written so far, whose bytes are those of their checksums."""

    path: Path
    sums: Path | None

    def __init__(self, path: Path, shape: tuple[int, int], shared: bool) -> None:
        self.final, self.shape = path, shape
        # Without locks other processes may be writing theirs.
        self.path = (
            path.with_suffix(".partial") if shared else temp_path(path.parent, "tmp", path.stem)
        )
        self.sums = path.with_suffix(".sums") if shared else None
        self.digest = hashlib.sha256()  # of the rows
        with self._errors():
            self.n_rows = self._verify()

    def append(self, rows: Matrix) -> None:
        """Write some rows and their checksum. Raises _CacheError, and then has none of them."""
        data = rows.astype("<f4").tobytes()
        n_rows = self.n_rows + len(rows)
        with self._errors():
            try:
                with self.path.open("ab") as out:
                    out.write(data)
                self._append_sum(n_rows, data)
            except OSError:
                with suppress(OSError):
                    os.truncate(self.path, self._end)
                raise
        self.digest.update(data)
        self.n_rows = n_rows

    def read(self) -> Matrix:
        """The rows (n, D). Raises _CacheError."""
        with self._errors():
            rows = np.fromfile(self.path, "<f4", self.n_rows * self.shape[1])
        return rows.reshape(self.n_rows, self.shape[1])

    def publish(self) -> None:
        """Make the complete rows the final file. Raises _CacheError."""
        with self._errors():
            with self.path.open("ab") as out:
                out.write(self.digest.digest())
                out.flush()
                os.fsync(out.fileno())
            rename(self.path, self.final)
            if self.sums is not None:
                self.sums.unlink(missing_ok=True)
            sync_folder(self.final.parent)

    @property
    def _end(self) -> int:
        return _n_bytes((self.n_rows, self.shape[1]))

    def discard(self) -> None:
        """Delete rows that no other process continues."""
        if self.sums is None:
            with suppress(OSError):
                self.path.unlink()

    def _errors(self) -> AbstractContextManager[None]:
        return _cache_errors(f"{self.final}: cannot be written")

    def _append_sum(self, n_rows: int, data: bytes) -> None:
        if self.sums is not None:
            with self.sums.open("ab") as out:
                out.write(_checksum(n_rows, data))

    def _verify(self) -> int:
        """The rows that an interrupted process has written; both files end after them."""
        for path in filter(None, (self.path, self.sums)):
            _remove_untrusted(path)
            with open(path, "ab", opener=_open_private):
                pass
        if self.sums is None:
            os.truncate(self.path, 0)
            return 0
        n_rows = n_sums = 0
        with self.path.open("rb") as file, self.sums.open("rb") as sums:
            while len(recorded := sums.read(_SUM_BYTES)) == _SUM_BYTES:
                until = int.from_bytes(recorded[:_ROW_COUNT_BYTES], "little")
                if not n_rows < until <= self.shape[0]:
                    break
                data = file.read(_n_bytes((until - n_rows, self.shape[1])))
                if _checksum(until, data) != recorded:
                    break
                self.digest.update(data)
                n_rows, n_sums = until, n_sums + 1
        os.truncate(self.path, _n_bytes((n_rows, self.shape[1])))
        os.truncate(self.sums, n_sums * _SUM_BYTES)
        return n_rows


def _checksum(n_rows: int, data: bytes) -> bytes:
    """The entry of a batch of rows: the number of rows up to its end, and the SHA-256 of both."""
    count = n_rows.to_bytes(_ROW_COUNT_BYTES, "little")
    return count + hashlib.sha256(count + data).digest()


def _compute(partial: _Partial, next_rows: NextRows, progress: Progress) -> Matrix | None:
    """Complete the file; the whole matrix in memory where it can no longer be written."""
    while partial.n_rows < partial.shape[0]:
        rows = next_rows(partial.n_rows)
        try:
            partial.append(rows)
        except _CacheError as error:
            _warn(error)
            matrix = np.empty(partial.shape, np.float32)
            start, end = partial.n_rows, partial.n_rows + len(rows)
            matrix[:start], matrix[start:end] = partial.read(), rows
            partial.discard()
            progress(end, len(matrix))
            return _in_memory(matrix, end, next_rows, progress)
        progress(partial.n_rows, partial.shape[0])
    try:
        partial.publish()
    except _CacheError as error:
        _warn(error)
        matrix = partial.read()
        partial.discard()
        return matrix
    return None


def _in_memory(matrix: Matrix, done: int, next_rows: NextRows, progress: Progress) -> Matrix:
    """The matrix with the rows from `done` on filled."""
    while done < len(matrix):
        rows = next_rows(done)
        matrix[done : done + len(rows)] = rows
        done += len(rows)
        progress(done, len(matrix))
    return matrix


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
    with _cache_errors(f"{path}: cannot be locked"):
        _remove_untrusted(path)
        lock = FileLock(path, timeout=0, mode=0o600)
        try:
            shared = acquire(lock)
        except Timeout:
            print_notice(
                Message(
                    "data.vectors_of_another_process",
                    "another process is computing the same vectors; waiting for it",
                )
            )
            lock.acquire(timeout=-1)
            shared = True
    try:
        yield shared
        with suppress(OSError):  # Windows deletes no open file
            path.unlink()
    finally:
        lock.release()
