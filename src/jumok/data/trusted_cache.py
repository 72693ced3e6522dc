"""Which files of the cache are trusted: those that only the user can have written.

A compiled kernel is executed, and cached ids and tables are read as they are. Where another user
may write to the cache (an XDG_CACHE_HOME in a shared folder), files with the expected names may be
planted there. Windows has other permissions; its cache is in the user's profile.
"""

import atexit
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from jumok.atomic_io import write_atomically
from jumok.errors import Message

logger = logging.getLogger(__name__)

SUM_SUFFIX = ".sha256"  # of the file with the checksum of another one


def exposure(path: Path) -> Message | None:
    """Why others may have written the file or folder at `path`; None if they cannot have.

    It and the folders above must belong to the user or root and be writable by the user only, but
    for folders with the sticky bit, in which others cannot replace it.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(exposure(Path(folder)))
    None
    """
    if not hasattr(os, "geteuid"):
        return None
    owners = {os.geteuid(), 0}
    for start in {path.absolute(), path.resolve()}:
        for depth, each in enumerate((start, *start.parents)):
            try:
                found = each.stat()
            except OSError:
                continue  # missing, or the caller's own error
            if found.st_uid not in owners:
                return Message("cache.other_owner", "{path} belongs to another user", path=each)
            keeps_names = bool(found.st_mode & stat.S_ISVTX) and depth > 0  # as /tmp
            if _others_write(found) and not keeps_names:
                return Message("cache.writable", "other users may write to {path}", path=each)
    return None


def _others_write(found: os.stat_result) -> bool:
    """Whether the mode lets other users write; the group of the user alone does not count."""
    if found.st_mode & stat.S_IWOTH:
        return True
    return bool(found.st_mode & stat.S_IWGRP) and not _is_own_group(found.st_gid)


@cache
def _is_own_group(gid: int) -> bool:
    """Whether a group is the private one of this user, as Debian and Fedora create it."""
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def make_private(folder: Path) -> None:
    """Create a folder of the cache that only the user may write to, or make it so. Raises OSError.

    What others wrote there before still belongs to them and is not trusted.
    """
    for each in (folder.parent, folder):
        each.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = each.stat().st_mode
        shared = bool(mode & stat.S_ISVTX)  # as /tmp, which belongs to all users
        if mode & (stat.S_IWGRP | stat.S_IWOTH) and not shared:
            with suppress(PermissionError):  # it belongs to another user
                each.chmod(stat.S_IMODE(mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


@cache
def private_folder(folder: Path) -> Path:
    """A folder of the cache, or a temporary one if others may write to it, with a warning.

    The temporary one is removed when the process ends. Raises OSError.
    """
    make_private(folder)
    reason = exposure(folder)
    if not reason:
        return folder
    warn_exposed(folder, reason)
    temporary = Path(tempfile.mkdtemp(prefix="jumok-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return temporary


@cache
def warn_exposed(folder: Path, reason: Message) -> None:
    """Warn once that a folder of the cache is not used."""
    logger.warning(
        Message(
            "data.cache_not_private",
            "{reason}, so that nothing in the cache {folder} is used; set XDG_CACHE_HOME to a "
            "folder of your own",
            reason=reason,
            folder=folder,
        )
    )


def record_sum(path: Path) -> None:
    """Write the SHA-256 of a file next to it. Raises StorageError."""
    write_atomically(_sum_path(path), hashlib.sha256(path.read_bytes()).hexdigest().encode())


def is_trusted(path: Path) -> bool:
    """Whether only the user may write a file, and it has the checksum that was recorded."""
    try:
        recorded, data = _sum_path(path).read_bytes(), path.read_bytes()
    except OSError:
        return False
    if hashlib.sha256(data).hexdigest().encode() != recorded:
        return False
    return not exposure(path) and not exposure(_sum_path(path))


def _sum_path(path: Path) -> Path:
    return path.with_name(path.name + SUM_SUFFIX)
