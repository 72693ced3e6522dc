"""The traces of a server: files with random names; the least recently used new ones are deleted."""

import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jumok.atomic_io import storage_errors

MAX_FILES = 32
MAX_BYTES = 2 * 2**30


class TraceStore:
    """Maps names to files; no part of a request ever becomes a path.

    >>> with open_trace_store() as store:
    ...     name = store.add(b"a trace")
    ...     store.path(name).read_bytes(), store.path("../../etc/passwd")
    (b'a trace', None)
    """

    def __init__(
        self, folder: Path, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES
    ) -> None:
        self._folder, self._max_files, self._max_bytes = folder, max_files, max_bytes
        self._registered: dict[str, Path] = {}
        self._added: OrderedDict[str, Path] = OrderedDict()  # least recently used first

    def register(self, path: Path) -> str:
        """Register a user's file, which is never deleted, and return its name."""
        name = secrets.token_hex(16)
        self._registered[name] = path
        return name

    def add(self, content: bytes) -> str:
        """Save a new trace and return its name; deletes least recently used ones."""
        name = secrets.token_hex(16)
        path = self._folder / f"{name}.safetensors"
        with storage_errors(f"{path}: cannot be written"):
            path.write_bytes(content)
        self._added[name] = path
        while len(self._added) > 1 and (len(self._added) > self._max_files or self._full()):
            _, oldest = self._added.popitem(last=False)
            oldest.unlink(missing_ok=True)
        return name

    def path(self, name: str) -> Path | None:
        """The file with this name, or None if it is unknown or was deleted."""
        if name in self._added:
            self._added.move_to_end(name)
            return self._added[name]
        return self._registered.get(name)

    def _full(self) -> bool:
        return sum(path.stat().st_size for path in self._added.values()) > self._max_bytes


@contextmanager
def open_trace_store() -> Iterator[TraceStore]:
    """A store in a private temporary folder, which is deleted at the end."""
    with storage_errors("a temporary folder cannot be made"):
        folder = Path(tempfile.mkdtemp(prefix="jumok-"))  # mode 0700
    try:
        yield TraceStore(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
