"""A few bytes of a file: the one range that a request may ask for, zipped where it likes."""

import re
import zlib
from pathlib import Path

# Browsers ask for ranges unzipped (fetch sets Accept-Encoding: identity), so the page has a header
# of its own; weights and thumbnails shrink by a third, masks to nothing.
GZIP_HEADER = "x-jumok-zip"
MAX_GZIP_BYTES = 16 * 2**20  # bytes, held in memory
_GZIP = 16 + zlib.MAX_WBITS

_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """From where up to where `Range: bytes=first-last` goes in a file of `size` bytes.

    None for several ranges at once, for what is no range and for one outside the file.

    >>> parse_range("bytes=2-5", 10), parse_range("bytes=7-", 10), parse_range("bytes=-4", 10), parse_range("bytes=5-99", 10)
    ((2, 6), (7, 10), (6, 10), (5, 10))
    >>> parse_range("bytes=0-1,4-5", 10), parse_range("bytes=10-", 10), parse_range("bytes=5-2", 10), parse_range("lines=1", 10)
    (None, None, None, None)
    """
    match = _RANGE.fullmatch(header)
    if match is None or not any(match.groups()):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(size - int(last), 0), size
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
    return (start, end) if start < end else None


def gzip_range(path: Path, start: int, end: int) -> bytes:
    """Bytes `start` up to `end` of a trace, gzipped fast.

    Numbers repeat themselves in runs or not at all: looking for anything else takes longer and
    finds less. The header is text.
    """
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(end - start)
    strategy = zlib.Z_RLE if start else zlib.Z_DEFAULT_STRATEGY
    work = zlib.compressobj(6, zlib.DEFLATED, _GZIP, zlib.DEF_MEM_LEVEL, strategy)
    return work.compress(content) + work.flush()
