"""Arrow tables in the user's cache: written in one stroke, checked whole, mapped into memory.

A cached file is an Arrow file followed by its own sha256, so that one rename brings both and no
flipped bit, torn write or foreign file is ever taken for data. What is damaged is made again.
"""

import hashlib
import io
import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

logger = logging.getLogger(__name__)

_DIGEST_BYTES = hashlib.sha256().digest_size
_NOTE = b"jumok"  # the key under which a table's own note is kept

CacheMetadata = Callable[[], bytes]


def cache_folder(kind: str) -> Path:
    """Where the user's cache keeps files of one kind; jumok's part of it can always be deleted.

    XDG_CACHE_HOME names the cache; without it, ~/.cache is taken. A user without a home has none.
    """
    try:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # a container with a number for a user: no HOME, no entry in passwd
        home = os.devnull  # in it is nothing, and nothing can be kept
    return Path(home) / "jumok" / kind


def cached_table(path: Path) -> tuple[pa.Table, bytes] | None:
    """The table at `path`, mapped into memory, and its note; None if it is absent or damaged."""
    try:
        mapped = pa.memory_map(os.fspath(path))
        size = mapped.size() - _DIGEST_BYTES
        if size <= 0:
            return None
        content = mapped.read_buffer(size)
        if hashlib.sha256(content).digest() != mapped.read():
            return None
        with pa.ipc.open_file(content) as file:
            last = file.num_record_batches - 1
            batches = [file.get_batch(index) for index in range(last)]
            note = file.get_batch_with_custom_metadata(last).custom_metadata[_NOTE]
            return pa.Table.from_batches(batches, file.schema), note
    except (OSError, pa.ArrowInvalid):
        return None


def write_table(
    path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], note: CacheMetadata = bytes
) -> bool:
    """Writes a table, batch by batch, where `cached_table` finds it; False if that cannot be done.

    `note` is asked for its bytes after the last batch. What `batches` raises is passed on, and
    leaves nothing behind.
    """
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        with _Hashed(handle) as file:
            with pa.ipc.new_file(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                writer.write_batch(_empty(schema), custom_metadata={_NOTE: note()})
            file.write(file.digest.digest())
        os.replace(temporary, path)
        return True
    except OSError as error:
        logger.warning("%s cannot be written (%s); going on without it", path, error.strerror)
        return False
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


class _Hashed(io.FileIO):
    """A file that knows the sha256 of what was written to it."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle, "wb")
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            written += super().write(view[written:]) or 0
        self.digest.update(view)
        return written


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], type=t) for t in schema.types], schema=schema)
