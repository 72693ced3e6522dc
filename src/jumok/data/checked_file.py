"""The format of derived files in the cache: a content followed by its SHA-256.

One rename publishes both, so that a file which a crash or a power cut left incomplete, or whose
bytes have changed since, is never read as data. It is derived again.
"""

import hashlib
import io
from pathlib import Path

DIGEST_BYTES = hashlib.sha256().digest_size
_CHUNK_BYTES = 2**20


class HashingFile(io.FileIO):
    """A file with the SHA-256 of the bytes that have been written."""

    def __init__(self, handle: int) -> None:
        super().__init__(handle, "wb")
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        """Write all of these bytes."""
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            written += super().write(view[written:]) or 0
        self.digest.update(view)
        return written

    def write_digest(self) -> None:
        """End the file: nothing may be written after."""
        self.write(self.digest.digest())


def intact_size(path: Path) -> int | None:
    """The bytes of the content of a file that ends in its SHA-256; None if it is not intact.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "file"
    ...     _ = path.write_bytes(b"rows" + hashlib.sha256(b"rows").digest())
    ...     intact_size(path)
    ...     _ = path.write_bytes(b"rowS" + hashlib.sha256(b"rows").digest())
    ...     intact_size(path)
    4
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size - DIGEST_BYTES
            if size < 0:
                return None
            digest, left = hashlib.sha256(), size
            while left and (part := file.read(min(left, _CHUNK_BYTES))):
                digest.update(part)
                left -= len(part)
            return None if left or file.read() != digest.digest() else size
    except OSError:
        return None
