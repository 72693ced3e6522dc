"""The manifest of a checkpoint: its step, the checksums of its files, and metadata.

The manifest is JSON with exactly one valid serialization, and contains the SHA-256 of the rest of
itself: if serializing the parsed content does not give the same bytes, the file was changed.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jumok.errors import InputError

FORMAT = "jumok checkpoint 3"
STATE_FILE = re.compile(r"state-[a-z][a-z0-9_-]{0,63}\.safetensors")

JSON: TypeAlias = bool | int | float | str | Sequence["JSON"] | Mapping[str, "JSON"] | None


@dataclass(frozen=True)
class FileRecord:
    """The size of a file in bytes and its SHA-256 in hexadecimal."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The step, the files by name, and metadata.

    >>> manifest = Manifest(40, {}, {"recipe": "numbers", "best": 0.5})
    >>> parse_manifest(manifest.to_bytes()) == manifest
    True
    """

    step: int
    files: Mapping[str, FileRecord]
    metadata: Mapping[str, JSON]

    def to_bytes(self) -> bytes:
        """The only valid serialization. Raises InputError for metadata that is not JSON."""
        try:
            content = {
                "format": FORMAT,
                "step": self.step,
                "files": {name: vars(record) for name, record in self.files.items()},
                "metadata": dict(self.metadata),
            }
            return _render(content | {"sha256": hashlib.sha256(_render(content)).hexdigest()})
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(
                "checkpoint.metadata_not_json",
                "the metadata of step {step} must be plain JSON ({error}); use only texts, "
                "finite numbers, lists and tables",
                step=self.step,
                error=error,
            ) from error


def parse_manifest(data: bytes) -> Manifest:
    """Parse and verify a manifest. Raises InputError for one of another format or damaged."""
    try:
        content = json.loads(data)
        written = content.get("format")
        if written == FORMAT:
            files = {name: _record(name, each) for name, each in content["files"].items()}
            manifest = Manifest(content["step"], files, dict(content["metadata"]))
            if type(manifest.step) is int and manifest.to_bytes() == data:
                return manifest
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError) as error:
        raise _damaged() from error
    if written == FORMAT:
        raise _damaged()
    raise InputError(
        "checkpoint.manifest_format",
        "its manifest must have the format {format!r}, got {written}; resume it with the "
        "jumok that wrote it, or train again",
        format=FORMAT,
        written=repr(written)[:40],
    )


def _record(name: str, fields: Mapping[str, object]) -> FileRecord:
    """One entry of the table of files; a valid name does not leave the checkpoint's folder."""
    match fields:
        case {"bytes": int(size), "sha256": str(digest)} if STATE_FILE.fullmatch(name):
            return FileRecord(size, digest)
    raise ValueError(name)


def _damaged() -> InputError:
    return InputError(
        "checkpoint.manifest_changed",
        "its manifest was changed after it was written; it is damaged",
    )


def _render(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()
