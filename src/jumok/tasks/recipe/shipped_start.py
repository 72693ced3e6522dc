"""A pretrained encoder as the start of a user's recipe, and the values of fine-tuning."""

import os
from collections.abc import Mapping
from typing import Any

from jumok.config_io import ConfigDict, Overrides, apply_overrides
from jumok.pretrained.hub import find_model, is_hf_folder
from jumok.shipped import has_weights
from jumok.tasks.recipe.inherited_config import INHERITED, ORIGIN_FOLDER
from jumok.tasks.registry import TASKS, TRANSFORMER, get_task
from jumok.training.config import WARMUP_STEPS

SHIPPED_MODEL = "ko-small"  # a user's recipe begins from it unless it sets another start,
SHIPPED_VECTORS = "ko-small-vectors"  # or from this one for pairs of texts
SHIPPED_STATIC = "ko-static"  # token vectors without layers, where a recipe names it
SHIPPED = (SHIPPED_MODEL, SHIPPED_VECTORS, SHIPPED_STATIC)
COMPARED_PAIRS = {"pooling": "compare", "n_segments": 2}  # as the recipe `question_pair`
EPOCHS = 6.0  # without another end
FINE_TUNING = {
    "batch_tokens": 1024,  # some thousand texts are hundreds of steps
    "learning_rate": 1e-3,
    "layer_decay": 0.8,
    "schedule": "linear",
    "warmup_steps": WARMUP_STEPS[1],
}
IMPORTED_RATE = 1.5e-4  # of other encoders, as of multilingual-e5-small (docs/recipes.md)
LINEAR_FIRST = {  # besides, of tasks with such an output layer
    "method": "auto",
    "class_weights": "auto",
    "ema_decay": 0.95,  # the mean of 20 steps: single ones of so high a rate scatter by points
}
SAMPLED_EPOCHS = 10.0  # of a shipped model after its linear layer, with the two tables below:
SAMPLED_AUGMENTATION = {"subword_sampling": 0.5}  # half of the texts, in each epoch
SAMPLED_TRAINING = {"ema_decay": 0.99}  # the mean of 100 steps


def with_pretrained(recipe: Mapping[str, Any], overrides: Overrides) -> ConfigDict | None:
    """A user's recipe with an encoder as `model.init`, or None where it begins from none.

    For tasks with a `start` it is a shipped model, unless the file or the overrides set another
    `model.init`, a hyperparameter of the architecture or a key of [vocabulary]. The values of
    fine-tuning then become the defaults, also where the recipe names a shipped model or the
    checkpoint of an encoder (a folder of transformers, or an imported one); an imported one has a
    lower learning rate. Without a name single texts begin from the better shipped model.
    """
    tree = apply_overrides(recipe, overrides)
    model, training, data = (tree.get(name, {}) for name in ("model", "training", "data"))
    paired = isinstance(data, dict) and bool(data.get("pair"))
    name = str(tree.get("task"))
    start = get_task(name).start(paired=paired) if name in TASKS else None
    if start is None:
        return None
    init, head = start
    named = model.get("init", init) if isinstance(model, dict) else init
    if named != init:
        init, head = named, {}  # with the head of the recipe
    if (
        not isinstance(model, dict)
        or not isinstance(training, dict)
        or tree.get("vocabulary")
        or {*INHERITED} & model.keys()
        or model.get("kind", "encoder") != "encoder"
        or model.get("architecture", TRANSFORMER) != TRANSFORMER
        or not (has_weights(init) if init in SHIPPED else _is_checkpoint(init))
    ):
        return None
    defaults: dict[str, Any] = {**FINE_TUNING, **_method(tree)}
    if init not in SHIPPED:
        defaults["learning_rate"] = IMPORTED_RATE
    augmentation = recipe.get("augmentation", {})
    sampled = init in SHIPPED and isinstance(augmentation, dict) and _samples(tree, defaults)
    if sampled:
        defaults |= SAMPLED_TRAINING
    if not {"steps", "epochs", "minutes"} & training.keys():
        defaults["epochs"] = SAMPLED_EPOCHS if sampled else EPOCHS
    begin: dict[str, Any] = {"init": init, **head}
    compares = "method" in defaults and training.get("method") != "fine-tune"
    if "init" not in model and init == SHIPPED_MODEL and compares:
        begin["candidates"] = [SHIPPED_MODEL, SHIPPED_VECTORS]
    tables: dict[str, Any] = {"model": {**begin, **recipe.get("model", {})}}
    if sampled:
        tables["augmentation"] = {**SAMPLED_AUGMENTATION, **augmentation}
    return {**recipe, **tables, "training": {**defaults, **recipe.get("training", {})}}


def _samples(tree: Mapping[str, Any], defaults: Mapping[str, Any]) -> bool:
    """Whether fine-tuning after a linear layer may sample segmentations (Kudo 2018)."""
    training, data = tree.get("training", {}), tree.get("data", {})
    method = training.get("method", defaults.get("method"))
    pieces = isinstance(data, dict) and data.get("pieces")
    task = get_task(str(tree.get("task")))
    return method == "auto" and not pieces and "subword_sampling" in task.augmentations


def _is_checkpoint(init: object) -> bool:
    """Whether `model.init` names a folder of transformers, or one that `jumok import` wrote."""
    if not isinstance(init, str) or not init:
        return False
    folder = find_model(os.path.expanduser(init))
    return is_hf_folder(folder) or (folder / ORIGIN_FOLDER).is_dir()


def _method(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of [training] of a linear layer first, for the tasks that have one."""
    task = get_task(str(tree.get("task")))
    training = tree.get("training", {})
    if not task.has_linear_head or tree.get("distillation") or training.get("lora"):
        return {}
    return {k: v for k, v in LINEAR_FIRST.items() if k != "class_weights" or task.weighs_classes}
