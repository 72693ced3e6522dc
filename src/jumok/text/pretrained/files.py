"""The tokeniser files of a folder: known names, ordinary files, each read once, within limits."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jumok.atomic_io import read_regular, storage_errors, write_atomically
from jumok.errors import InputError
from jumok.safe_json import MAX_BYTES, parse_json

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
ADDED = "added_tokens.json"

_LARGEST_VOCABULARY = 64 * 2**20  # bytes; that of XLM-R, with 250,000 pieces, has 17 MiB

# What makes a tokeniser, and what says more about it.
_VOCABULARIES = (
    TOKENIZER,
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
)
_SETTINGS = (CONFIG, SPECIAL, ADDED)


@dataclass(frozen=True)
class TokenizerFiles:
    """The bytes of a folder's tokeniser files, by name.

    >>> TokenizerFiles({"vocab.txt": b"[UNK]"}).fingerprint[:8]
    'b525587e'
    """

    content: Mapping[str, bytes]

    @classmethod
    def read(cls, folder: Path) -> "TokenizerFiles | None":
        """The files of `folder`; None where no file of it is a vocabulary.

        Raises StorageError for a file that cannot be read or is too large.
        """
        with storage_errors(f"{folder}: cannot be read"):
            there = {path.name for path in folder.iterdir()}
        if there.isdisjoint(_VOCABULARIES):
            return None
        limits = dict.fromkeys(_VOCABULARIES, _LARGEST_VOCABULARY)
        limits |= dict.fromkeys(_SETTINGS, MAX_BYTES)
        return cls(
            {
                name: read_regular(folder / name, limits[name])
                for name in sorted(limits.keys() & there)
            }
        )

    def __contains__(self, name: str) -> bool:
        return name in self.content

    def bytes_of(self, name: str) -> bytes:
        """The bytes of a file; one that is not there is an InputError."""
        if name not in self.content:
            raise InputError(f"the folder has no {name}, which its kind of tokeniser needs; add it")
        return self.content[name]

    def text(self, name: str) -> str:
        """The text of a file in UTF-8."""
        try:
            return self.bytes_of(name).decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name} is no UTF-8 at byte {error.start}; get it again from its source"
            ) from None

    def table(self, name: str) -> dict[str, Any]:
        """The table in a JSON file; a file that is not there is an empty table."""
        if name not in self.content:
            return {}
        try:
            return parse_json(self.content[name])
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 over the names and the SHA-256 of all files, in hexadecimal."""
        digest = hashlib.sha256()
        for name in sorted(self.content):
            digest.update(name.encode() + b"\0" + hashlib.sha256(self.content[name]).digest())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write the very files into `folder`, which is made where it is missing."""
        with storage_errors(f"{folder}: cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.content.items():
            write_atomically(folder / name, content)
