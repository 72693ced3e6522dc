"""Renamed recipe keys: refused in a recipe that a user gives, translated in an existing run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumok.config_io import ConfigDict, read_toml
from jumok.errors import InputError
from jumok.migrations import RENAMED_KEYS as KEYS_BY_FORMAT
from jumok.migrations import migrate_recipe

RENAMED_KEYS = {  # old key -> new key
    old: new.key for keys in KEYS_BY_FORMAT.values() for old, new in keys.items() if old != new.key
}
_NOTES = {"augmentation.consistency": " (the alpha of the R-Drop paper: twice the former value)"}


def check_renamed_keys(tree: Mapping[str, Any]) -> None:
    """Raise InputError with the new name for a key that was renamed.

    >>> check_renamed_keys({"training": {"ema_decay": 0.9}})
    """
    for old, new in RENAMED_KEYS.items():
        table, _, key = old.partition(".")
        content = tree.get(table)
        if isinstance(content, Mapping) and key in content:
            raise InputError(f"{old} was renamed; use {new}{_NOTES.get(old, '')}")


def read_run_recipe(path: Path) -> ConfigDict:
    """Read the recipe.toml of an existing run, in the current format."""
    return migrate_recipe(read_toml(path))
