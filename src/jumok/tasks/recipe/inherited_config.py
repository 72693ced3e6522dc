"""Model hyperparameters inherited from `model.init`, unless the recipe sets them explicitly."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumok.atomic_io import expand_home
from jumok.config_io import ConfigDict, Overrides, apply_overrides, read_toml
from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.checkpoint import is_hf_folder
from jumok.pretrained.hub import find_model
from jumok.pretrained.state_dict import hf_model_config
from jumok.shipped import has_weights

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
SHIPPED_MODEL = "ko-small"  # a user's recipe begins from it unless it sets another start,
SHIPPED_VECTORS = "ko-small-vectors"  # or from this one for pairs of texts
FINE_TUNED_TASKS = (
    "classification",
    "multi_label_classification",
    "regression",
    "similarity",
    "tagging",
)
COMPARED_PAIRS = {"pooling": "compare", "n_segments": 2}  # as the recipe `question_pair`
TAGGED_CHARACTERS = {"tagging": "characters"}  # as `klue-ner`: its pieces cross borders of names
FINE_TUNING = {
    "batch_tokens": 1024,  # some thousand texts are hundreds of steps
    "learning_rate": 1e-3,
    "layer_decay": 0.8,
    "schedule": "linear",
    "warmup_steps": 10,
}

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
        init = expand_home(init)
        explicit = overridden if isinstance(overridden, dict) and "init" in overridden else model
        tree["model"] = model | _inherited_from(find_model(init)) | explicit | {"init": init}
    return tree


def with_shipped_model(recipe: Mapping[str, Any], overrides: Overrides) -> ConfigDict | None:
    """A user's recipe with the shipped model as `model.init`, or None where it is not used.

    It is used for tasks of an encoder when neither the file nor the overrides set `model.init`, a
    hyperparameter of the architecture or a key of [vocabulary]. The values of fine-tuning then
    become the defaults. Pairs of texts begin from vectors, which know the similarity of texts. Tags
    are those of characters.
    """
    tree = apply_overrides(recipe, overrides)
    model, training, data = (tree.get(name, {}) for name in ("model", "training", "data"))
    vectors = tree.get("task") == "similarity"
    pairs = isinstance(data, dict) and bool(data.get("pair")) and not vectors
    init = SHIPPED_VECTORS if pairs or vectors else SHIPPED_MODEL
    if (
        tree.get("task") not in FINE_TUNED_TASKS
        or not isinstance(model, dict)
        or not isinstance(training, dict)
        or tree.get("vocabulary")
        or {"init", *INHERITED} & model.keys()
        or model.get("kind", "encoder") != "encoder"
        or not has_weights(init)
    ):
        return None
    head = TAGGED_CHARACTERS if tree.get("task") == "tagging" else COMPARED_PAIRS if pairs else {}
    start = {"init": init, **head}
    table = {"model": {**start, **recipe.get("model", {})}}
    return {**recipe, **table, "training": {**FINE_TUNING, **recipe.get("training", {})}}


def check_same_architecture(
    config: TransformerConfig, run: TransformerConfig, folder: Path
) -> None:
    """Raise InputError when a model differs from the run that it is initialized from."""
    for name in INHERITED:
        value, expected = getattr(config, name), getattr(run, name)
        if value != expected and not _is_addable(name, expected):
            raise InputError(
                f"model.{name} must be {_toml(expected)} as in {folder}, got {_toml(value)}; leave "
                "it out, or initialize from another run"
            )


def _inherited_from(folder: Path) -> ConfigDict:
    path = folder / "recipe.toml"
    if is_hf_folder(folder):
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


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
