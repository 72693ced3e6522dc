"""The files of the built page: a fixed table; no other path is ever served."""

import gzip
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from jumok.errors import StorageError

FOLDER = Path(__file__).parent / "static"
SCRIPT = "text/javascript; charset=utf-8"
VIEW_SCRIPTS = (
    "bench.js",
    "flow.js",
    "neuron.js",
    "lesson.js",
    "reading.js",
)  # loaded when a view is first opened
MEDIA_TYPES = {
    "app.js": SCRIPT,
    **dict.fromkeys(VIEW_SCRIPTS, SCRIPT),
    "live.js": SCRIPT,  # of a saved page that runs its model
    "app.css": "text/css; charset=utf-8",
    "JumokHangul.woff2": "font/woff2",
    "model.js": SCRIPT,  # the page of an exported model
    "model.css": "text/css; charset=utf-8",
    "jumok.js": SCRIPT,  # the module that runs a model in another page, and its types
    "jumok.d.ts": SCRIPT,
    "kernel.wasm": "application/wasm",
}


@dataclass(frozen=True)
class StaticFile:
    """A file of the built page."""

    media_type: str
    content: bytes

    @cached_property
    def gzipped(self) -> bytes:
        """The content, compressed."""
        return gzip.compress(self.content, mtime=0)


@lru_cache
def static_file(name: str) -> StaticFile:
    """A file of the table. Raises KeyError for another, StorageError if it was not built.

    >>> static_file("app.css").media_type
    'text/css; charset=utf-8'
    """
    media_type = MEDIA_TYPES[name]
    path = FOLDER / name
    try:
        return StaticFile(media_type, path.read_bytes())
    except OSError as error:
        raise StorageError(
            "page.not_built",
            "{path}: the page is not built ({strerror}); run `npm run build` in web/",
            path=path,
            strerror=error.strerror,
        ) from error
