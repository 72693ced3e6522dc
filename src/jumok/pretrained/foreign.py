"""A folder in the format of Hugging Face, before anybody makes a model of it."""

from pathlib import Path

from jumok.models.config import TransformerConfig
from jumok.pretrained.architecture import parse_config
from jumok.pretrained.assign import canonical_names, resolve_tying
from jumok.pretrained.checkpoint import open_checkpoint


def is_hf_folder(folder: Path) -> bool:
    """Whether a folder is a checkpoint in the format of Hugging Face and no run of ours."""
    return (folder / "config.json").is_file() and not (folder / "recipe.toml").is_file()


def hf_model_config(folder: Path) -> TransformerConfig:
    """The measures of the model in a foreign folder; which tables are tied its tensors say.

    Raises InputError for what we do not read, StorageError for what cannot be read.
    """
    checkpoint = open_checkpoint(folder)  # mapped: of the tensors only those compared are read
    described = parse_config(checkpoint.config, list(checkpoint.tensors))
    named = canonical_names(list(checkpoint.tensors), described)
    given = {canonical: checkpoint.tensors[name] for canonical, name in named.items()}
    return resolve_tying(described, given).config
