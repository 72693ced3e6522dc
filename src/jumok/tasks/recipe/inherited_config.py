"""Whose measures a model has that begins from another run: that run's, unless somebody objects."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jumok.config_io import apply_overrides, read_toml
from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.foreign import hf_model_config, is_hf_folder
from jumok.tasks.pipeline.origin import ORIGIN_FOLDER

# What is a matter of the task, of its vocabularies or of how it is learnt.
_FREE = {
    "vocabulary_size",
    "target_vocabulary_size",
    "tie_embeddings",
    "n_decoder_layers",
    "dropout",
    "attention_dropout",
    "activation_dropout",
}
_OF_FOREIGN = ("n_decoder_layers", "tie_embeddings")  # what our recipes seldom have otherwise
INHERITED = tuple(f.name for f in dataclasses.fields(TransformerConfig) if f.name not in _FREE)


def inherit_model_config(recipe: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    r"""The tables of a recipe file with `key=value` words laid over them, as `override` does it.

    Where they name a run to begin from, the model gets the measures of that run. A measure that is
    stated beside `model.init`, by words beside a word, in the file beside a line of the file,
    stays: if it is another one, `refuse_other_measures` says so. A folder without a recipe is
    refused when the training begins.

    >>> import tempfile
    >>> run = tempfile.mkdtemp()
    >>> _ = (Path(run) / "recipe.toml").write_text("[model]\nn_layers = 4\ndropout = 0.0\n")
    >>> recipe = {"model": {"n_layers": 2, "dropout": 0.2}}
    >>> with_measures(recipe, [f'model.init="{run}"'])["model"] == {
    ...     "n_layers": 4, "dropout": 0.2, "init": run}
    True
    """
    tree, spoken = apply_overrides(recipe, overrides), apply_overrides({}, overrides)
    stated, said = tree.get("model"), spoken.get("model")
    folder = stated.get("init") if isinstance(stated, dict) else None
    if isinstance(stated, dict) and isinstance(folder, str) and folder:
        beside = said if isinstance(said, dict) and "init" in said else stated
        tree["model"] = stated | _measures_of(Path(folder)) | beside
    return tree


def check_same_architecture(
    config: TransformerConfig, run: TransformerConfig, folder: Path
) -> None:
    """Raises InputError when a model does not have the measures of the run it begins from."""
    for name in INHERITED:
        came, wanted = getattr(config, name), getattr(run, name)
        if came != wanted and not _may_be_added(name, wanted):
            raise InputError(
                f"model.{name} {_toml(came)} came, {folder} has {_toml(wanted)}; leave it out, or "
                "begin from another run"
            )


def _measures_of(folder: Path) -> dict[str, Any]:
    path = folder / "recipe.toml"
    if is_hf_folder(folder):
        found = hf_model_config(folder)
        measures = {name: getattr(found, name) for name in (*INHERITED, *_OF_FOREIGN)}
        return {name: value for name, value in measures.items() if value is not None}
    if not path.is_file():
        return {}
    names = (*INHERITED, *_OF_FOREIGN) if (folder / ORIGIN_FOLDER).is_dir() else INHERITED
    stated: dict[str, Any] = read_toml(path).get("model", {})
    return {
        name: value
        for name, value in stated.items()
        if name in names and not _may_be_added(name, value)
    }


def _may_be_added(name: str, value: object) -> bool:
    """Segments that a run knows nothing of: a table of them begins anew."""
    return name == "n_segments" and value == 0


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
