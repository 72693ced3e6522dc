"""A folder in the format of Hugging Face, before anybody opens its weights."""

from pathlib import Path

from jumok.jsonfile import read_json
from jumok.models.config import TransformerConfig
from jumok.pretrained.described import describe


def is_foreign(folder: Path) -> bool:
    """Whether a folder is a checkpoint in the format of Hugging Face and no run of ours."""
    return (folder / "config.json").is_file() and not (folder / "recipe.toml").is_file()


def measures_of(folder: Path) -> TransformerConfig:
    """The measures of the model in a foreign folder, from its config.json alone."""
    return describe(read_json(folder / "config.json"), []).config
