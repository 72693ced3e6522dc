"""Model hyperparameters inherited from `model.init`, unless the recipe sets them explicitly."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumok.config_io import ConfigDict, Overrides, apply_overrides, read_toml
from jumok.errors import RecipeError
from jumok.models.config import TransformerConfig
from jumok.pretrained.hub import find_model, is_hf_folder
from jumok.tasks.recipe.fixed_values import shown

ORIGIN_FOLDER = "origin"  # in an imported run: the JSON files of the original checkpoint

# Hyperparameters that depend on the task, on its vocabularies or on the training.
_NOT_INHERITED = {
    "vocabulary_size",
    "target_vocabulary_size",
    "tie_embeddings",
    "n_decoder_layers",
    "dropout",
    "attention_dropout",
    "activation_dropout",
}
_INHERITED_FROM_HF = ("n_decoder_layers", "tie_embeddings")  # rarely the defaults of our recipes

INHERITED = tuple(
    field.name
    for field in dataclasses.fields(TransformerConfig)
    if field.name not in _NOT_INHERITED
)


def inherit_model_config(recipe: Mapping[str, Any], overrides: Overrides) -> ConfigDict:
    r"""Apply `key=value` overrides to the tables of a recipe file and resolve `model.init`.

    With `model.init` the model gets the hyperparameters of that run. A hyperparameter that is set
    in the same place as `model.init` (both in the file, or both as overrides) is kept;
    `check_same_architecture` raises if it differs. A folder without a recipe is reported when the
    training starts.

    >>> import tempfile
    >>> run = tempfile.mkdtemp()
    >>> _ = (Path(run) / "recipe.toml").write_text("[model]\nn_layers = 4\ndropout = 0.0\n")
    >>> recipe = {"model": {"n_layers": 2, "dropout": 0.2}}
    >>> inherit_model_config(recipe, [f'model.init="{run}"'])["model"] == {
    ...     "n_layers": 4, "dropout": 0.2, "init": run}
    True
    """
    tree = apply_overrides(recipe, overrides)
    model, overridden = tree.get("model"), apply_overrides({}, overrides).get("model")
    init = model.get("init") if isinstance(model, dict) else None
    if isinstance(model, dict) and isinstance(init, str) and init:
        init = os.path.expanduser(init)
        explicit = overridden if isinstance(overridden, dict) and "init" in overridden else model
        tree["model"] = model | _inherited_from(find_model(init)) | explicit | {"init": init}
    return tree


def check_same_architecture(
    config: TransformerConfig, run: TransformerConfig, folder: Path
) -> None:
    """Raise InputError when a model differs from the run that it is initialized from."""
    for name in INHERITED:
        value, expected = getattr(config, name), getattr(run, name)
        if value != expected and not _is_addable(name, expected):
            raise RecipeError(
                "recipe.differs_from_init",
                "model.{name} must be {toml} as in {folder}, got {toml_2}; leave it out, or "
                "initialize from another run",
                name=name,
                toml=shown(expected),
                folder=folder,
                toml_2=shown(value),
            )


def _inherited_from(folder: Path) -> ConfigDict:
    path = folder / "recipe.toml"
    if is_hf_folder(folder):
        from jumok.pretrained.state_dict import hf_model_config  # with all model families

        config = hf_model_config(folder)
        values = {name: getattr(config, name) for name in (*INHERITED, *_INHERITED_FROM_HF)}
        return {name: value for name, value in values.items() if value is not None}
    if not path.is_file():
        return {}
    imported = (folder / ORIGIN_FOLDER).is_dir()
    names = (*INHERITED, *_INHERITED_FROM_HF) if imported else INHERITED
    model: ConfigDict = read_toml(path).get("model", {})
    return {
        name: value
        for name, value in model.items()
        if name in names and not _is_addable(name, value)
    }


def _is_addable(name: str, value: object) -> bool:
    """Whether the new model may have it where the run has none: a new segment embedding."""
    return name == "n_segments" and value == 0
