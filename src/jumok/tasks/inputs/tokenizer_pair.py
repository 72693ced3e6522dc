"""The tokenizers of a run: one for source and target, one for each side, or an imported one.

The folder of a run holds `vocabulary.model` and, for a second tokenizer, `vocabulary.target.model`;
or the folder `vocabulary` with the original files of an imported tokenizer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jumok.atomic_io import storage_errors, write_atomically
from jumok.errors import InputError
from jumok.pretrained.config_reader import ConfigReader
from jumok.safe_json import read_json
from jumok.tasks.recipe.tables import VocabularyRecipe
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # loaded for imported tokenizers only
    from jumok.text.pretrained import PretrainedTokenizer

SOURCE, TARGET = "vocabulary.model", "vocabulary.target.model"
IMPORTED = "vocabulary"  # a folder
_MODEL_CONFIG = "model_config.json"  # in it: the keys of the model that the tokenizer reads


@dataclass(frozen=True)
class TokenizerPair:
    """The tokenizers of sources and of targets; the same object when joint."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def from_pretrained(cls, imported: "PretrainedTokenizer") -> "TokenizerPair":
        """The two sides of an imported tokenizer, usually the same."""
        return cls(imported, imported.target)

    @property
    def joint(self) -> bool:
        """Whether both sides share one tokenizer."""
        return self.target is self.source

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each tokenizer, by name."""
        found = {"vocabulary": self.source.fingerprint}
        return found if self.joint else found | {"target_vocabulary": self.target.fingerprint}

    @property
    def checksums(self) -> dict[str, str]:
        """The checksums in config.json: fingerprints, and identities of imported tokenizers."""
        both = {"vocabulary": self.source, "target_vocabulary": self.target}
        return self.fingerprints | {
            f"{name}_identity": both[name].identity
            for name in self.fingerprints
            if both[name].identity != both[name].fingerprint
        }

    @property
    def sizes(self) -> tuple[int, int | None]:
        """The rows of the embeddings of source and target; None for a joint tokenizer."""
        return self.source.n_embeddings, None if self.joint else self.target.n_embeddings

    def save(self, folder: Path) -> None:
        """Write the tokenizers into the folder of a run."""
        if not isinstance(self.source, SentencePieceTokenizer):
            save_imported(cast("PretrainedTokenizer", self.source), folder)
            return
        for tokenizer, name in ((self.source, SOURCE), (self.target, TARGET)):
            assert isinstance(tokenizer, SentencePieceTokenizer)
            if name == SOURCE or not self.joint:
                tokenizer.save(folder / name)

    @classmethod
    def load(cls, folder: Path, *, joint: bool) -> "TokenizerPair | None":
        """Load the tokenizers in the folder of a run; None when there are none.

        Raises InputError when one of two is missing, or a file is not a tokenizer.
        """
        if (folder / IMPORTED).is_dir():
            return cls.from_pretrained(load_imported(folder))
        if not (folder / SOURCE).is_file():
            return None
        source = SentencePieceTokenizer.load(folder / SOURCE)
        if joint:
            return cls(source, source)
        return cls(source, SentencePieceTokenizer.load(folder / TARGET))


def read_hf_tokenizer(
    folder: Path, config: Mapping[str, Any], generation: Mapping[str, Any]
) -> "PretrainedTokenizer | None":
    """Read the tokenizer in the folder of a Hugging Face model, None where there is none.

    `decoder_start_token_id` of generation_config.json overrides that of config.json.
    """
    from jumok.text.pretrained import load_tokenizer
    from jumok.text.pretrained.tokenizer_config import name_unread_keys

    start = ConfigReader(generation).token_id("decoder_start_token_id")
    overrides = {} if start is None else {"decoder_start_token_id": start}
    found = load_tokenizer(folder, {**config, **overrides})
    if found is not None:
        name_unread_keys(found.files)
    return found


def save_imported(tokenizer: "PretrainedTokenizer", folder: Path) -> None:
    """Write the files of an imported tokenizer and the config keys that it reads."""
    subfolder = folder / IMPORTED
    with storage_errors(f"{subfolder}: cannot be made"):
        subfolder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(subfolder)
    config = json.dumps(dict(tokenizer.model_config), indent=2)
    write_atomically(subfolder / _MODEL_CONFIG, config.encode())


def load_imported(folder: Path) -> "PretrainedTokenizer":
    """Load the imported tokenizer in the folder of a run."""
    from jumok.text.pretrained import load_tokenizer

    subfolder = folder / IMPORTED
    found = load_tokenizer(subfolder, read_json(subfolder / _MODEL_CONFIG))
    if found is None:
        raise InputError(
            "input.no_tokenizer",
            "{subfolder} must hold a tokenizer; restore the run's own files",
            subfolder=subfolder,
        )
    return found


def matches(config: Mapping[str, Any], tokenizer: Tokenizer, name: str = "vocabulary") -> bool:
    """Whether the checksums in a run's config.json are those of this tokenizer."""
    identity = config.get(f"{name}_identity_sha256") or config.get(f"{name}_sha256")
    return (config.get(f"{name}_sha256"), identity) == (tokenizer.fingerprint, tokenizer.identity)


def non_default_keys(table: VocabularyRecipe) -> list[str]:
    """The keys of a [vocabulary] table that differ from their defaults, except `joint`.

    >>> non_default_keys(VocabularyRecipe(size=4_000, kind="bpe"))
    ['vocabulary.kind', 'vocabulary.size']
    """
    return [
        f"vocabulary.{field.name}"
        for field in fields(table)
        if field.name != "joint" and getattr(table, field.name) != field.default
    ]
