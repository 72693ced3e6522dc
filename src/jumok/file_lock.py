"""A file lock of the operating system (flock), which ends with the process that holds it."""

import errno
import warnings

from filelock import FileLock

_NO_FLOCK = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


def acquire(lock: FileLock) -> bool:
    """Acquire a lock; False where the file system has none, as some network file systems.

    Raises filelock.Timeout if another process holds it for longer than `lock.timeout`, and OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lock = FileLock(f"{folder}/.lock", timeout=0)
    ...     print(acquire(lock))
    ...     lock.release()
    True
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # filelock would fall back to a lock of its own
            lock.acquire()
    except (NotImplementedError, UserWarning):
        return False
    except OSError as error:
        if error.errno not in _NO_FLOCK:  # Timeout is an OSError without errno
            raise
        return False
    return True
