"""What a run reads and writes with: one vocabulary for both, one for each side, or an imported one.

In the folder of a run stand `vocabulary.model`, perhaps `vocabulary.target.model`; or the folder
`vocabulary` with the very files of an imported tokeniser.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from jumok.atomic_io import storage_errors, write_atomically
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.pretrained.config_reader import ConfigReader
from jumok.safe_json import read_json
from jumok.tasks.inputs.special_tokens import embedding_rows
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import VocabularyRecipe
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS
from jumok.tasks.registry import get_task
from jumok.text.pretrained import PretrainedTokenizer, load_tokenizer
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer

SOURCE, TARGET = "vocabulary.model", "vocabulary.target.model"
IMPORTED = "vocabulary"  # a folder
_FACTS = "facts.json"  # in it: what the tokeniser's files alone do not tell


@dataclass(frozen=True)
class TokenizerPair:
    """The vocabulary of what is read and that of what is written; the same one when joint."""

    source: Tokenizer
    target: Tokenizer

    @classmethod
    def from_pretrained(cls, imported: PretrainedTokenizer) -> "TokenizerPair":
        """The two sides of an imported tokeniser, most often one."""
        return cls(imported, imported.target)

    @property
    def joint(self) -> bool:
        """Whether both sides share one."""
        return self.target is self.source

    @property
    def fingerprints(self) -> dict[str, str]:
        """The checksum of each, by name."""
        prints = {"vocabulary": self.source.fingerprint}
        return prints if self.joint else prints | {"target_vocabulary": self.target.fingerprint}

    @property
    def checksums(self) -> dict[str, str]:
        """What config.json keeps: the fingerprints, and of an imported one its identity too."""
        if not isinstance(self.source, PretrainedTokenizer):
            return self.fingerprints
        return self.fingerprints | {"vocabulary_identity": self.source.identity}

    def apply_to(self, recipe: Recipe) -> Recipe:
        """The recipe with the sizes of these vocabularies in its model."""
        target = None if self.joint else embedding_rows(self.target)
        return recipe.with_vocabulary(embedding_rows(self.source), target)

    def check(self, recipe: Recipe) -> None:
        """Raises InputError for a recipe that asks of them what they cannot do."""
        imported = isinstance(self.source, PretrainedTokenizer)
        if imported and recipe.augmentation.subword_sampling:
            raise InputError(
                f"augmentation.subword_sampling {recipe.augmentation.subword_sampling} came, and "
                "an imported tokeniser cuts every text one way; set it to 0"
            )
        if recipe.augmentation.subword_sampling:  # a model may have but one way to cut
            for vocabulary in (self.source, self.target):
                alpha = recipe.augmentation.sampling_alpha
                vocabulary.sample_batch(["가"], alpha=alpha, seed=0)
        wanted = {
            "mask_id": recipe.augmentation.token_dropout > 0
            or recipe.task == "masked_language_modeling",
            "sep_id": recipe.paired and (not imported or recipe.model.n_segments > 1),
            "eos_id": recipe.task in GENERATIVE_TASKS,
            "bos_id": recipe.task == "language_modeling",
        }
        for name, needed in wanted.items():
            if needed:
                getattr(self.source, name)  # which says what is missing

    def save(self, folder: Path) -> None:
        """Write them into the folder of a run."""
        if isinstance(self.source, PretrainedTokenizer):
            save_imported(self.source, folder)
            return
        for vocabulary, name in ((self.source, SOURCE), (self.target, TARGET)):
            assert isinstance(vocabulary, SentencePieceTokenizer)
            if name == SOURCE or not self.joint:
                vocabulary.save(folder / name)

    @classmethod
    def load(cls, folder: Path, *, joint: bool) -> "TokenizerPair | None":
        """Those in the folder of a run; None when there are none.

        Raises InputError when one of two is missing, or a file is none of a vocabulary.
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
) -> PretrainedTokenizer | None:
    """The tokeniser beside a foreign model, None where there is none.

    What its decoder is given first generation_config.json says, else config.json.
    """
    start = ConfigReader(generation).token_id("decoder_start_token_id")
    told = {} if start is None else {"decoder_start_token_id": start}
    return load_tokenizer(folder, {**config, **told})


def save_imported(vocabulary: PretrainedTokenizer, folder: Path) -> None:
    """Write the files of an imported tokeniser, and what else a reader of them must know."""
    inside = folder / IMPORTED
    with storage_errors(f"{inside}: cannot be made"):
        inside.mkdir(parents=True, exist_ok=True)
    vocabulary.save(inside)
    facts = json.dumps(dict(vocabulary.model_config), indent=2)
    write_atomically(inside / _FACTS, facts.encode())


def load_imported(folder: Path) -> PretrainedTokenizer:
    """The imported tokeniser in the folder of a run."""
    inside = folder / IMPORTED
    found = load_tokenizer(inside, read_json(inside / _FACTS))
    if found is None:
        raise InputError(f"{inside} holds no tokeniser; restore the run's own files")
    return found


def matches(config: Mapping[str, Any], vocabulary: Tokenizer, name: str = "vocabulary") -> bool:
    """Whether it is the very one that a run's config.json tells the sums of.

    Runs of earlier versions have no identities in theirs: there the fingerprint decides.
    """
    identity = config.get(f"{name}_identity_sha256") or vocabulary.identity
    return (config.get(f"{name}_sha256"), identity) == (vocabulary.fingerprint, vocabulary.identity)


def non_default_keys(choice: VocabularyRecipe) -> list[str]:
    """The keys of a [vocabulary] table that are not at their default; `joint` says how many.

    >>> stated(VocabularyRecipe(size=4_000, kind="bpe"))
    ['vocabulary.kind', 'vocabulary.size']
    """
    return [
        f"vocabulary.{field.name}"
        for field in fields(choice)
        if field.name != "joint" and getattr(choice, field.name) != field.default
    ]


def train_or_load(recipe: Recipe, train: Table) -> TokenizerPair:
    """The vocabularies a recipe names, or those learnt from the training rows."""
    choice = recipe.vocabulary
    if choice.joint:
        only = _train_or_load_one(choice, get_task(recipe).vocabulary_texts(recipe, train))
        return TokenizerPair(only, only)
    own = replace(choice, file=choice.target_file, size=choice.target_size or choice.size)
    source = _train_or_load_one(choice, train.column("source"))
    try:
        return TokenizerPair(source, _train_or_load_one(own, train.column("target")))
    except InputError as error:
        raise InputError(f"vocabulary of the targets (vocabulary.target_size): {error}") from error


def _train_or_load_one(choice: VocabularyRecipe, texts: Iterable[str]) -> SentencePieceTokenizer:
    if choice.file:
        return SentencePieceTokenizer.load(choice.file)
    return SentencePieceTokenizer.train(texts, choice)
