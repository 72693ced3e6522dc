"""The tokenizer files of a folder: known names and regular files, read once, within limits."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jumok.atomic_io import read_regular, storage_errors, write_atomically
from jumok.errors import TokenizerError, located
from jumok.safe_json import MAX_BYTES, parse_json

TOKENIZER = "tokenizer.json"
CONFIG = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
ADDED = "added_tokens.json"
CHAT_TEMPLATE = "chat_template.jinja"

_MAX_VOCABULARY_BYTES = 64 * 2**20  # XLM-R, with 250,000 pieces, has 17 MiB

# Files with a vocabulary, and files with settings only.
_VOCABULARIES = (
    TOKENIZER,
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "spm.model",
    "tokenizer_78b3253a26.model",  # KoBERT's
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
)
_SETTINGS = (CONFIG, SPECIAL, ADDED, CHAT_TEMPLATE)


@dataclass(frozen=True)
class TokenizerFiles:
    """The bytes of the tokenizer files of a folder, by name.

    >>> TokenizerFiles({"vocab.txt": b"[UNK]"}).fingerprint[:8]
    'b525587e'
    """

    content: Mapping[str, bytes]

    @classmethod
    def read(cls, folder: Path) -> "TokenizerFiles | None":
        """The files of `folder`; None if none of them is a vocabulary.

        Raises StorageError for a file that cannot be read or is too large.
        """
        with storage_errors(f"{folder}: cannot be read"):
            there = {path.name for path in folder.iterdir()}
        if there.isdisjoint(_VOCABULARIES):
            return None
        limits = dict.fromkeys(_VOCABULARIES, _MAX_VOCABULARY_BYTES)
        limits |= dict.fromkeys(_SETTINGS, MAX_BYTES)
        return cls(
            {
                name: read_regular(folder / name, limits[name])
                for name in sorted(limits.keys() & there)
            }
        )

    def __contains__(self, name: str) -> bool:
        return name in self.content

    def data(self, name: str) -> bytes:
        """The bytes of a file; InputError if it is missing."""
        if name not in self.content:
            raise TokenizerError(
                "tokenizer.file_missing",
                "the folder has no {name}, which its tokenizer requires; add it",
                name=name,
            )
        return self.content[name]

    def text(self, name: str) -> str:
        """The text of a file in UTF-8."""
        try:
            return self.data(name).decode()
        except UnicodeDecodeError as error:
            raise TokenizerError(
                "tokenizer.not_utf8",
                "{name} must be UTF-8, got an invalid byte at {start}; download it again",
                name=name,
                start=error.start,
            ) from None

    def table(self, name: str) -> dict[str, Any]:
        """The table in a JSON file, empty if the file is missing."""
        if name not in self.content:
            return {}
        with located(name):
            return parse_json(self.content[name])

    @property
    def chat_template(self) -> str | None:
        """The text of the chat template; None if the folder has none.

        It is a program, which only `jumok.text.chat` renders, within limits.
        """
        if CHAT_TEMPLATE in self.content:
            return self.text(CHAT_TEMPLATE)
        found = self.table(CONFIG).get("chat_template")
        if isinstance(found, list):  # several with names
            named = [each for each in found if isinstance(each, dict)]
            found = next((e.get("template") for e in named if e.get("name") == "default"), None)
        return found if isinstance(found, str) else None

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the names and SHA-256s of all files, in hexadecimal."""
        digest = hashlib.sha256()
        for name in sorted(self.content):
            digest.update(name.encode() + b"\0" + hashlib.sha256(self.content[name]).digest())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Save the files unchanged into `folder`, which is created if missing."""
        with storage_errors(f"{folder}: cannot be made"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.content.items():
            write_atomically(folder / name, content)
