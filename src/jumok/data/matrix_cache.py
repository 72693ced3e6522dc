"""Float32 matrices in the user's cache: computed by one process at a time, then memory-mapped.

Each batch of rows is a file of its own, NAME-START.part, until all of them become NAME.f32. So a
process that is killed, or a power cut, loses one batch: files that do not end in the SHA-256 of
their rows (`checked_file`) are not read. Where the cache cannot be written, the matrix stays in
memory.

Shapes: n rows, D columns.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from jumok.data.arrow_cache import mapped_file, write_file
from jumok.data.checked_file import HashingFile
from jumok.data.trusted_cache import exposure, private_folder
from jumok.errors import Message
from jumok.file_lock import acquire
from jumok.terminal import print_notice

Matrix = NDArray[np.float32]
NextRows = Callable[[int], Matrix]
Progress = Callable[[int, int], None]


def cached_matrix(
    folder: Path,
    name: str,
    shape: tuple[int, int],
    next_rows: NextRows,
    progress: Progress | None = None,
) -> Matrix:
    """The matrix (n, D) of this name in a folder of the cache, memory-mapped.

    Where it is missing or damaged, `next_rows(start)` returns some of the rows from `start` on, and
    `progress` receives the rows that there are and all rows. Other processes that need the same
    matrix wait. If others may write to the folder, a temporary one is used instead, and a file that
    others may have written is not read. If the cache cannot be written, as on a full disk, the
    matrix is computed in memory.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = lambda start: np.full((2, 3), start, np.float32)
    ...     cached_matrix(Path(folder), "a", (4, 3), rows)[:, 0].tolist()
    [0.0, 0.0, 2.0, 2.0]
    """
    with suppress(OSError):  # `write_file` warns
        folder = private_folder(folder)
    path = folder / f"{name}.f32"
    found = _read(path, shape)
    if found is not None:
        return found
    with _turn(folder / f"{name}.lock") as has_turn:
        found = _read(path, shape)  # of another process meanwhile
        if found is None:
            report = progress or (lambda done, n: None)
            found = _compute(path, shape, next_rows, report, in_parts=has_turn)
        return found


def _read(path: Path, shape: tuple[int, int]) -> Matrix | None:
    """The rows in a file; None if it is missing or damaged, or others may have written it."""
    found = mapped_file(path)
    if found is None:
        return None
    mapping, size = found
    n, rest = divmod(size, 4 * shape[1])
    if rest or (path.suffix == ".f32" and n != shape[0]):
        return None
    return np.frombuffer(mapping, "<f4", n * shape[1]).reshape(n, shape[1])


def _compute(
    path: Path, shape: tuple[int, int], next_rows: NextRows, progress: Progress, *, in_parts: bool
) -> Matrix:
    """The matrix, in a file if that can be written; `in_parts`: those that there are are read."""
    parts: dict[int, Path] = {}
    matrix = None if in_parts else np.empty(shape, np.float32)
    done = 0
    while done < shape[0]:
        part = path.with_name(f"{path.stem}-{done}.part")
        rows = _read(part, shape) if matrix is None else None
        if rows is None:
            rows = next_rows(done)
            if matrix is None and not _write(part, [rows]):
                matrix = _joined(parts, shape)
            progress(done + len(rows), shape[0])
        if matrix is None:
            parts[done] = part
        else:
            matrix[done : done + len(rows)] = rows
        done += len(rows)
    if _write(path, _rows(parts, shape) if matrix is None else [matrix]):
        for part in parts.values():
            part.unlink(missing_ok=True)
        found = _read(path, shape)
        if found is not None:
            return found
    return _joined(parts, shape) if matrix is None else matrix


def _write(path: Path, matrices: Iterable[Matrix]) -> bool:
    """Write rows into a file; False, with a warning, if that is impossible."""

    def write(file: HashingFile) -> None:
        for rows in matrices:
            file.write(rows.astype("<f4").tobytes())

    return write_file(path, write)


def _joined(parts: dict[int, Path], shape: tuple[int, int]) -> Matrix:
    """A matrix in memory with the rows of the parts."""
    matrix = np.empty(shape, np.float32)
    for start, rows in zip(parts, _rows(parts, shape), strict=True):
        matrix[start : start + len(rows)] = rows
    return matrix


def _rows(parts: dict[int, Path], shape: tuple[int, int]) -> Iterator[Matrix]:
    for part in parts.values():
        rows = _read(part, shape)
        assert rows is not None  # it was written, or read, by this process, which has its turn
        yield rows


@contextmanager
def _turn(path: Path) -> Iterator[bool]:
    """Context of one process at a time; False where the file system has no locks."""
    lock = FileLock(path, timeout=0, mode=0o600)
    try:
        if path.is_symlink() or exposure(path):  # of others, before the folder was private
            path.unlink(missing_ok=True)
        has_turn = acquire(lock)
    except Timeout:
        print_notice(
            Message(
                "data.vectors_of_another_process",
                "another process is computing the same vectors; waiting for it",
            )
        )
        lock.acquire(timeout=-1)
        has_turn = True
    except OSError:  # `write_file` warns
        has_turn = False
    try:
        yield has_turn
        with suppress(OSError):  # Windows deletes no open file
            path.unlink()
    finally:
        lock.release()
