"""The shipped models as the start of a user's recipe, and the values of fine-tuning."""

from collections.abc import Mapping
from typing import Any

from jumok.config_io import ConfigDict, Overrides, apply_overrides
from jumok.shipped import has_weights
from jumok.tasks.recipe.inherited_config import INHERITED
from jumok.tasks.registry import TASKS, get_task

SHIPPED_MODEL = "ko-small"  # a user's recipe begins from it unless it sets another start,
SHIPPED_VECTORS = "ko-small-vectors"  # or from this one for pairs of texts
COMPARED_PAIRS = {"pooling": "compare", "n_segments": 2}  # as the recipe `question_pair`
FINE_TUNING = {
    "batch_tokens": 1024,  # some thousand texts are hundreds of steps
    "learning_rate": 1e-3,
    "layer_decay": 0.8,
    "schedule": "linear",
    "warmup_steps": 10,
}


def with_shipped_model(recipe: Mapping[str, Any], overrides: Overrides) -> ConfigDict | None:
    """A user's recipe with the shipped model as `model.init`, or None where it is not used.

    It is used for tasks with a `start` when neither the file nor the overrides set another
    `model.init`, a hyperparameter of the architecture or a key of [vocabulary]. The values of
    fine-tuning then become the defaults. Naming a shipped model changes nothing but the model.
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
        init not in (SHIPPED_MODEL, SHIPPED_VECTORS)
        or not isinstance(model, dict)
        or not isinstance(training, dict)
        or tree.get("vocabulary")
        or {*INHERITED} & model.keys()
        or model.get("kind", "encoder") != "encoder"
        or not has_weights(init)
    ):
        return None
    table = {"model": {"init": init, **head, **recipe.get("model", {})}}
    return {**recipe, **table, "training": {**FINE_TUNING, **recipe.get("training", {})}}
