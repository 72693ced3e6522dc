"""What a checkpoint says of itself: its step, the sums of its files, and the facts to go on with.

The manifest is JSON written in one exact way and holds the SHA-256 of the rest of itself: bytes
that are not what writing their own content again gives have been changed since, be it by one bit.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jumok.errors import InputError

FORMAT = "jumok checkpoint 1"
STATE_FILE = re.compile(r"state-[a-z][a-z0-9_-]{0,63}\.safetensors")

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None


@dataclass(frozen=True)
class FileRecord:
    """The size of a file in bytes and its SHA-256 in hexadecimal."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A checkpoint's table of contents: the steps trained, the files by name, plain facts.

    >>> manifest = Manifest(40, {}, {"recipe": "numbers", "best": 0.5})
    >>> parse_manifest(manifest.to_bytes()) == manifest
    True
    """

    step: int
    files: Mapping[str, FileRecord]
    metadata: Mapping[str, JSON]

    def to_bytes(self) -> bytes:
        """The one way to write this manifest. Raises InputError for facts that are not JSON."""
        try:
            content = {
                "format": FORMAT,
                "step": self.step,
                "files": {name: vars(record) for name, record in self.files.items()},
                "facts": dict(self.metadata),
            }
            return _render(content | {"sha256": hashlib.sha256(_render(content)).hexdigest()})
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                f"facts of step {self.step} are not plain JSON: {error}; "
                "give texts, finite numbers, lists and tables only"
            ) from error


def parse_manifest(data: bytes) -> Manifest:
    """The manifest in `data`; InputError says why it cannot be trusted."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InputError("its manifest is not JSON; it is damaged") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"its manifest is not of the format {FORMAT!r}; another version wrote it")
    step, files, facts = (content.get(key) for key in ("step", "files", "facts"))
    if type(step) is not int or not isinstance(files, dict) or not isinstance(facts, dict):
        raise InputError("its manifest lacks step, files or facts; it is damaged")
    manifest = Manifest(step, {name: _record(name, files[name]) for name in files}, facts)
    if manifest.to_bytes() != data:
        raise InputError("its manifest was changed after it was written; it is damaged")
    return manifest


def _record(name: str, fields: object) -> FileRecord:
    """One line of the table of files; no name in it leads out of the checkpoint's folder."""
    if STATE_FILE.fullmatch(name) and isinstance(fields, dict):
        match fields:
            case {"bytes": int(size), "sha256": str(digest)} if len(fields) == 2:
                return FileRecord(size, digest)
    raise InputError(f"its manifest names no state file by {name[:80]!r}; it is damaged")


def _render(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()
