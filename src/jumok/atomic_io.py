"""Files that are there whole or not at all: written beside their name, forced to disk, renamed."""

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

MAX_NAME_BYTES = 255  # bytes, on every file system in use

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

# A process number comes back (in a container it is often the same): these letters tell one life
# of it from the next, so that what an earlier life left behind can be recognised.
_LIFE = secrets.token_hex(4)
_SCRATCH = re.compile(r"\.(?:tmp|del)-(?P<pid>\d{1,9})-.+-(?P<life>[0-9a-f]{8})")
_COUNT = itertools.count()


def write_atomically(path: Path, content: bytes | Writer) -> None:
    """Put `content` (bytes, or a function that writes them to an open file) at `path`.

    Whoever looks, also after a crash or a power cut, sees the old file or the new one, whole. The
    file gets the permissions that the umask gives. Raises StorageError; nothing is left behind.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "results.json"
    ...     write_atomically(path, b'{"accuracy": 0.87}')
    ...     write_atomically(path, lambda file: file.write(b'{"accuracy": 0.88}'))
    ...     path.read_text(), len(os.listdir(folder))
    ('{"accuracy": 0.88}', 1)
    """
    scratch = temp_path(path.parent, "tmp", str(next(_COUNT)))
    with storage_errors(f"{path}: cannot be written"), cleanup_on_error(scratch):
        write_durably(scratch, content)
        scratch.replace(path)
        sync_folder(path.parent)


def write_durably(path: Path, content: bytes | Writer) -> None:
    """Write a new file and force its bytes to disk; its name is durable after `sync_folder`.

    Raises OSError, FileExistsError among them: nothing is ever overwritten.
    """
    with path.open("xb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            content(file)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Force the names in `folder` to disk: new, renamed and removed ones. Raises OSError."""
    if os.name != "posix":
        return  # Windows opens no folders and keeps names in a journal of its own
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of an ordinary file of at most `limit` bytes.

    Raises StorageError for what cannot be read, is longer, or is no ordinary file (a pipe would
    wait for ever, /dev/zero would never end).
    """
    with open_regular(path) as (file, size):
        if size > limit:
            raise StorageError(
                f"{path}: {size:,} bytes, at most {limit:,} are read; is it the right file?"
            )
        return file.read(size)


def sha256_of(path: Path) -> str:
    """The SHA-256 of an ordinary file in hexadecimal, read piece by piece. Raises StorageError."""
    with open_regular(path) as (file, _):
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[tuple[BufferedReader, int]]:
    """An ordinary file open for reading, and its size in bytes. Raises StorageError."""
    check_path_name(path)
    with storage_errors(f"{path}: cannot be read"):
        if not stat.S_ISREG(path.stat().st_mode):
            raise StorageError(f"{path}: not an ordinary file; check the path")
        with path.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size


def check_path_name(path: Path) -> None:
    r"""Raises StorageError for what can name no file: too long, with a NUL, half a surrogate pair.

    >>> refuse_no_name(Path("a\0b"))
    Traceback (most recent call last):
    jumok.errors.StorageError: 'a\x00b' cannot be the name of a file; name another
    """
    try:
        parts = [os.fsencode(part) for part in path.parts]
        named = not any(b"\0" in part or len(part) > MAX_NAME_BYTES for part in parts)
    except UnicodeEncodeError:
        named = False
    if not named:
        raise StorageError(f"{ascii(str(path))[:80]} cannot be the name of a file; name another")


@contextlib.contextmanager
def storage_errors(what: str) -> Iterator[None]:
    """Turn an OSError inside into a StorageError: `what` failed, why, and what to do.

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
        raise StorageError(f"{what} ({error.strerror or error}); {advice}") from error


@contextlib.contextmanager
def cleanup_on_error(path: Path) -> Iterator[None]:
    """Remove the file or folder `path` when what is inside fails, then fail the same way."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # the first failure is the one to tell
            remove(path)
        raise


def check_empty(out: Path) -> None:
    """Raises InputError when something stands at `out` already; an empty folder may.

    Nor may it be the folder one is in, whose place no other can take.
    """
    if out.name in ("", ".."):
        raise InputError(f"{out} is no name of a new folder; give one, such as {out / 'out'}")
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        raise InputError(f"{out} is not a folder; name one that is not there yet")
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty; name a folder that is not there yet, or empty it")


@contextlib.contextmanager
def atomic_directory(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `out` when all went well; else nothing is left of it.

    Raises InputError when `out` holds something already, StorageError when it cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     out = Path(home) / "exported"
    ...     with whole_folder(out) as scratch:
    ...         _ = (scratch / "README.md").write_text("a model")
    ...         before = out.exists()
    ...     before, [path.name for path in out.iterdir()], len(os.listdir(home))
    (False, ['README.md'], 1)
    """
    check_empty(out)
    scratch = temp_path(out.parent, "tmp", out.name)
    with storage_errors(f"{out}: cannot be written"), cleanup_on_error(scratch):
        scratch.mkdir(parents=True)
        yield scratch
        for path in scratch.rglob("*"):
            if path.is_file():
                _sync_file(path)
            else:
                sync_folder(path)
        sync_folder(scratch)
        scratch.replace(out)
        sync_folder(out.parent)


def _sync_file(path: Path) -> None:
    """Force the bytes of a file to disk, whoever wrote them."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def remove(path: Path) -> None:
    """Remove a file, a link (not what it points to) or a whole folder. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def temp_path(folder: Path, kind: Literal["tmp", "del"], label: str) -> Path:
    """A hidden name for what is not finished (tmp) or not wanted any more (del).

    It says whose it is: `.tmp-PROCESS-LABEL-LIFE`, so that `sweep` knows when nobody needs it.
    """
    return folder / f".{kind}-{os.getpid()}-{label}-{_LIFE}"


def remove_stale_temp(folder: Path) -> None:
    """Remove what processes that are no longer alive left under scratch names in `folder`.

    Only for folders that are jumok's own: a run, its checkpoints. What cannot be removed stays.
    """
    for path in list(folder.iterdir()):
        name = _SCRATCH.fullmatch(path.name)
        if name and not _is_alive(int(name["pid"]), name["life"]):
            with contextlib.suppress(OSError):  # tidying must not stop the work
                remove(path)


def _is_alive(pid: int, life: str) -> bool:
    """Whether the process that wrote this number and these letters may still be at work."""
    if pid == os.getpid():
        return life == _LIFE
    if os.name != "posix":
        return True  # on Windows signal 0 is Ctrl-C: do not ask
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # alive, and somebody else's
    return True
