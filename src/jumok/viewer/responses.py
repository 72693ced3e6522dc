"""HTTP responses: JSON, errors, and byte ranges of files."""

import json
import re
import zlib
from pathlib import Path

from starlette.responses import Response

from jumok.language import localize
from jumok.web.errors import RequestError

# Browsers request ranges without compression (fetch sets Accept-Encoding: identity), so the page
# has a header of its own; weights and thumbnails shrink by a third, masks to almost nothing.
GZIP_HEADER = "x-jumok-zip"
MAX_GZIP_BYTES = 16 * 2**20  # compressed in memory
_GZIP = 16 + zlib.MAX_WBITS

_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})")


def json_response(content: object) -> Response:
    r"""JSON in ASCII: texts may hold surrogates, which UTF-8 cannot encode.

    >>> json_response({"id": "\ud800"}).body
    b'{"id": "\\ud800"}'
    """
    return Response(json.dumps(content), media_type="application/json")


def error_body(error: RequestError, korean: bool = False) -> bytes:
    """The body of an error response: its message, in Korean for a page in Korean.

    >>> error_body(RequestError("page.no_such_page", "there is no such page", status=404))
    b'{"error": "there is no such page"}'
    """
    message = localize(error.message, "ko") if korean else str(error.message)
    return json.dumps({"error": message}).encode()


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """Start and end of `Range: bytes=first-last` in a file of `size` bytes.

    None for several ranges, for invalid ones, and for one outside the file.

    >>> [parse_range(f"bytes={given}", 10) for given in ("2-5", "7-", "-4", "5-99")]
    [(2, 6), (7, 10), (6, 10), (5, 10)]
    >>> [parse_range(given, 10) for given in ("bytes=0-1,4-5", "bytes=10-", "bytes=5-2", "lines=1")]
    [None, None, None, None]
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
    """Bytes `start` up to `end` of a trace, compressed fast.

    Tensors compress well by runs only (Z_RLE): other strategies are slower and save less. The
    header at the start is text.
    """
    with path.open("rb") as file:
        file.seek(start)
        content = file.read(end - start)
    strategy = zlib.Z_RLE if start else zlib.Z_DEFAULT_STRATEGY
    compressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP, zlib.DEF_MEM_LEVEL, strategy)
    return compressor.compress(content) + compressor.flush()
