"""The traces a server shows: files by random names, of which those it made itself make room."""

import secrets
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jumok.atomic_io import storage_errors

MOST_FILES = 32
MOST_BYTES = 2 * 2**30


class TraceStore:
    """Names lead to files through this table alone: no part of a request becomes a path.

    >>> with open_trace_store() as store:
    ...     name = store.add(b"a trace")
    ...     store.path(name).read_bytes(), store.path("../../etc/passwd")
    (b'a trace', None)
    """

    def __init__(
        self, folder: Path, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
    ) -> None:
        self._folder, self._most_files, self._most_bytes = folder, most_files, most_bytes
        self._given: dict[str, Path] = {}
        self._kept: OrderedDict[str, Path] = OrderedDict()  # the longest unused first

    def register(self, path: Path) -> str:
        """The name of a file that is somebody's own and stays."""
        name = secrets.token_hex(16)
        self._given[name] = path
        return name

    def add(self, content: bytes) -> str:
        """The name of a file made here; when there are too many, the longest unused ones go."""
        name = secrets.token_hex(16)
        path = self._folder / f"{name}.safetensors"
        with storage_errors(f"{path}: cannot be written"):
            path.write_bytes(content)
        self._kept[name] = path
        while len(self._kept) > 1 and (len(self._kept) > self._most_files or self._full()):
            _, oldest = self._kept.popitem(last=False)
            oldest.unlink(missing_ok=True)
        return name

    def path(self, name: str) -> Path | None:
        """The file of a name; None for a name that was never given, or whose file has gone."""
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        return self._given.get(name)

    def _full(self) -> bool:
        return sum(path.stat().st_size for path in self._kept.values()) > self._most_bytes


@contextmanager
def open_trace_store() -> Iterator[TraceStore]:
    """A shelf in a temporary folder that nobody else can read; both go at the end."""
    with storage_errors("a temporary folder cannot be made"):
        folder = Path(tempfile.mkdtemp(prefix="jumok-"))  # mode 0700
    try:
        yield TraceStore(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
