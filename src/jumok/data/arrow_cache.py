"""Files in the user's cache, as Arrow tables: written atomically, verified, and memory-mapped.

A cached file is its content followed by its SHA-256 (`checked_file`). Damaged ones are written
again.
"""

import logging
import mmap
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from jumok.data.checked_file import HashingFile, intact_size
from jumok.data.trusted_cache import exposure, make_private, warn_exposed
from jumok.errors import Message

if TYPE_CHECKING:  # imported where it is used: other modules need the folder only
    import pyarrow as pa

logger = logging.getLogger(__name__)

_METADATA_KEY = b"jumok"

CacheMetadata = Callable[[], bytes]


def cache_folder(kind: str) -> Path:
    """The folder of the user's cache for one kind of files; it can always be deleted.

    The cache is XDG_CACHE_HOME, by default ~/.cache, on Windows LOCALAPPDATA. A user without a
    home has no cache.
    """
    default = os.environ.get("LOCALAPPDATA") if os.name == "nt" else None
    try:
        home = os.environ.get("XDG_CACHE_HOME") or default or Path.home() / ".cache"
    except RuntimeError:  # a container with a numeric user: no HOME, no entry in passwd
        home = os.devnull  # nothing can be read or written there
    return Path(home) / "jumok" / kind


def mapped_file(path: Path) -> tuple[mmap.mmap, int] | None:
    """The mapping of a cached file and the bytes of its content; None if missing or damaged.

    None also where others may have written it: its content is read as it is.
    """
    if path.exists() and (reason := exposure(path)):
        warn_exposed(path.parent, reason)
        return None
    try:
        size = intact_size(path)
        if not size:
            return None
        with path.open("rb") as stored:
            return mmap.mmap(stored.fileno(), 0, access=mmap.ACCESS_READ), size
    except OSError:
        return None


def cached_table(path: Path) -> "tuple[pa.Table, bytes, mmap.mmap] | None":
    """The table at `path`, its metadata and the mapping of the file; None as `mapped_file`."""
    import pyarrow as pa

    found = mapped_file(path)
    if found is None:
        return None
    mapping, size = found
    content = pa.py_buffer(mapping).slice(0, size)
    try:
        with pa.ipc.open_file(content) as file:
            last = file.num_record_batches - 1
            batches = [file.get_batch(index) for index in range(last)]
            metadata = file.get_batch_with_custom_metadata(last).custom_metadata[_METADATA_KEY]
            return pa.Table.from_batches(batches, file.schema), metadata, mapping
    except (OSError, pa.ArrowInvalid):
        return None


def write_table(
    path: Path,
    schema: "pa.Schema",
    batches: "Iterable[pa.RecordBatch]",
    metadata: CacheMetadata = bytes,
) -> bool:
    """Write a table batch by batch to `path` for `cached_table`; False if that is impossible.

    `metadata` is called after the last batch. Exceptions of `batches` are raised, and the partial
    file is deleted.
    """
    import pyarrow as pa

    def write(file: HashingFile) -> None:
        with pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
            writer.write_batch(_empty(schema), custom_metadata={_METADATA_KEY: metadata()})

    return write_file(path, write)


def write_file(path: Path, write: Callable[[HashingFile], None]) -> bool:
    """Write a file for `mapped_file`, whose content `write` writes; False if that is impossible.

    Exceptions of `write` other than OSError are raised, and the partial file is deleted.
    """
    temporary = ""
    try:
        make_private(path.parent)
        if reason := exposure(path.parent):
            warn_exposed(path.parent, reason)
            return False
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".tmp-")
        with HashingFile(handle) as file:
            write(file)
            file.write_digest()
        os.replace(temporary, path)
        return True
    except OSError as error:
        logger.warning(
            Message(
                "data.not_cached",
                "{path} cannot be written ({strerror}); nothing is cached",
                path=path,
                strerror=error.strerror,
            )
        )
        return False
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _empty(schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([], type=t) for t in schema.types], schema=schema)
