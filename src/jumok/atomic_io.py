"""Atomic file writes: write to a temporary file, sync it to disk, rename it."""

import contextlib
import errno
import hashlib
import itertools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Literal

from jumok.errors import InputError, StorageError

MAX_NAME_BYTES = 255  # on all common file systems

Writer = Callable[[BinaryIO], object]

_ADVICE = {
    errno.ENOSPC: "free some space or choose another folder",
    errno.EDQUOT: "free some space or choose another folder",
    errno.EFBIG: "free some space or choose another folder",
    errno.EACCES: "check its permissions or choose another folder",
    errno.EPERM: "check its permissions or choose another folder",
    errno.EROFS: "choose a folder that can be written to",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "check the path",
}

# Process ids are reused (in a container often at once). The token distinguishes this process from
# an earlier one with the same id, so that files it left can be removed.
_PROCESS_TOKEN = secrets.token_hex(4)
_TEMP_NAME = re.compile(r"\.(?:tmp|del)-(?P<pid>\d{1,9})-(?P<label>.+)-(?P<token>[0-9a-f]{8})")
_COUNT = itertools.count()


def write_atomically(path: Path, content: bytes | Writer) -> None:
    """Write `content` (bytes, or a function that writes to an open file) to `path` atomically.

    Readers see the complete old or the complete new file, also after a crash or a power cut. The
    permissions follow the umask. Raises StorageError and then leaves no temporary file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "results.json"
    ...     write_atomically(path, b'{"accuracy": 0.87}')
    ...     write_atomically(path, lambda file: file.write(b'{"accuracy": 0.88}'))
    ...     path.read_text(), len(os.listdir(folder))
    ('{"accuracy": 0.88}', 1)
    """
    temp = temp_path(path.parent, "tmp", str(next(_COUNT)))
    with storage_errors(f"{path}: cannot be written"), cleanup_on_error(temp):
        write_durably(temp, content)
        rename(temp, path)
        sync_folder(path.parent)


def rename(old: Path, new: Path) -> None:
    """Rename a file or folder, replacing a file or an empty folder; atomic on POSIX.

    Raises OSError, on Windows also while any program has the old or the new file open.
    """
    if os.name == "posix":
        old.rename(new)
        return
    if old.is_dir() and new.is_dir():
        new.rmdir()
    old.replace(new)


def write_durably(path: Path, content: bytes | Writer) -> None:
    """Write a new file and sync its bytes to disk; its name is durable after `sync_folder`.

    Raises OSError, and FileExistsError instead of overwriting a file.
    """
    with path.open("xb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            content(file)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync the names in `folder` to disk: new, renamed and removed ones. Raises OSError."""
    if os.name != "posix":
        return  # Windows cannot open folders and journals names itself
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    Raises StorageError if the file cannot be read, is longer or is not regular (a pipe would block,
    /dev/zero would never end).
    """
    with open_regular(path, limit) as (file, size):
        return file.read(size)


def sha256_of(path: Path, limit: int = 2**60) -> str:
    """The SHA-256 of a regular file of at most `limit` bytes, in hexadecimal, read in chunks.

    Raises StorageError.
    """
    with open_regular(path, limit) as (file, _):
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def open_regular(path: Path, limit: int = 2**60) -> Iterator[tuple[BufferedReader, int]]:
    """A regular file of at most `limit` bytes, open for reading, and its size.

    Raises StorageError.
    """
    check_path_name(path)
    with storage_errors(f"{path}: cannot be read"):
        if not stat.S_ISREG(path.stat().st_mode):
            raise StorageError(
                "storage.not_regular_file", "{path}: not a regular file; check the path", path=path
            )
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise StorageError(
                    "storage.file_too_large",
                    "{path}: the file must have at most {limit:,} bytes, got {size:,}; check the "
                    "path",
                    path=path,
                    limit=limit,
                    size=size,
                )
            yield file, size


def check_path_name(path: Path) -> None:
    r"""Raises StorageError for an invalid file name: too long, with a NUL, half a surrogate pair.

    >>> check_path_name(Path("a\0b"))
    Traceback (most recent call last):
    jumok.errors.StorageError: 'a\x00b' is not a valid file name; choose another
    """
    try:
        parts = [os.fsencode(part) for part in path.parts]
        is_valid = not any(b"\0" in part or len(part) > MAX_NAME_BYTES for part in parts)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise StorageError(
            "storage.invalid_name",
            "{ascii} is not a valid file name; choose another",
            ascii=ascii(str(path))[:80],
        )


@contextlib.contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Convert an OSError into a StorageError: what failed, why, and what to do.

    >>> with storage_errors("a.txt: cannot be written"):
    ...     raise OSError(errno.ENOSPC, "No space left on device")
    Traceback (most recent call last):
    jumok.errors.StorageError: a.txt: cannot be written (No space left on device); free some \
space or choose another folder
    """
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, "check the disk and the path")
        raise StorageError(
            "storage.failed",
            "{what} ({reason}); {advice}",
            what=what,
            reason=error.strerror or str(error),
            advice=advice,
        ) from error


@contextlib.contextmanager
def cleanup_on_error(path: Path) -> Iterator[None]:
    """Remove the file or folder `path` if the body raises, then raise again."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # report the first error
            remove(path)
        raise


def check_empty(out: Path) -> None:
    """Raises InputError unless `out` is a new name or an empty folder.

    `.` and `..` are rejected: a folder cannot be renamed to them.
    """
    if out.name in ("", ".."):
        raise InputError(
            "storage.not_a_new_folder",
            "the output must be a new folder, got {out}; try {out_2}",
            out=out,
            out_2=out / "out",
        )
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(
            "storage.exists_not_folder",
            "{out} exists and is not a folder; choose a new name",
            out=out,
        )
    if out.is_dir() and any(out.iterdir()):
        raise InputError(
            "storage.not_empty", "{out} is not empty; choose a new folder, or empty it", out=out
        )


@contextlib.contextmanager
def atomic_directory(out: Path) -> Iterator[Path]:
    """A temporary folder to fill; it becomes `out` if the body succeeds, else it is removed.

    Raises InputError if `out` is not empty, StorageError if it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     out = Path(home) / "exported"
    ...     with atomic_directory(out) as temp:
    ...         _ = (temp / "README.md").write_text("a model")
    ...         before = out.exists()
    ...     before, [path.name for path in out.iterdir()], len(os.listdir(home))
    (False, ['README.md'], 1)
    """
    check_empty(out)
    temp = temp_path(out.parent, "tmp", out.name)
    with storage_errors(f"{out}: cannot be written"), cleanup_on_error(temp):
        temp.mkdir(parents=True)
        remove_stale_temp(out.parent, out.name)  # of a process that was killed
        yield temp
        for path in temp.rglob("*"):
            if path.is_file():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())
            else:
                sync_folder(path)
        sync_folder(temp)
        rename(temp, out)
        sync_folder(out.parent)


def remove(path: Path) -> None:
    """Remove a file, a link (not its target) or a folder with its content. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def temp_path(folder: Path, kind: Literal["tmp", "del"], label: str) -> Path:
    """A hidden name for an unfinished file or folder (tmp) or one that is being deleted (del).

    The name `.tmp-PID-LABEL-TOKEN` identifies its process, so that `remove_stale_temp` can tell
    whether it is still in use.
    """
    return folder / f".{kind}-{os.getpid()}-{label}-{_PROCESS_TOKEN}"


def remove_stale_temp(folder: Path, label: str = "") -> None:
    """Remove temporary files in `folder` whose process has ended, with a label those of this name.

    Without a label only for folders that belong to jumok: a run, its checkpoints. Failures are
    ignored.
    """
    for path in list(folder.iterdir()):
        name = _TEMP_NAME.fullmatch(path.name)
        if not name or label not in ("", name["label"]):
            continue
        if not _is_alive(int(name["pid"]), name["token"]):
            with contextlib.suppress(OSError):  # cleanup must not stop the caller
                remove(path)


def _is_alive(pid: int, token: str) -> bool:
    """Whether the process with this id and token may still be running."""
    if pid == os.getpid():
        return token == _PROCESS_TOKEN
    if os.name != "posix":
        import psutil  # on Windows signal 0 would send Ctrl-C

        return bool(psutil.pid_exists(pid))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # alive, owned by another user
    return True
