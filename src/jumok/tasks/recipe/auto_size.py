"""The size of a model by the minutes of its training: `model.size = "auto"`."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jumok.config_io import ConfigDict, Overrides, apply_overrides
from jumok.tasks.registry import TASKS, TRANSFORMER

if TYPE_CHECKING:
    from jumok.tasks.recipe.recipe import Recipe

# Layers and d_model; the layers of each have two to four times the weights of the one before.
SIZES = ((1, 128), (2, 128), (3, 192), (4, 256), (6, 320), (6, 512), (8, 768), (12, 1024))
CHOSEN = ("n_layers", "d_model", "n_heads", "d_ff")  # by `model.size = "auto"`
D_HEAD = 64
# Measured on koen and nsmc: with fewer tokens for each weight smaller models did better.
TOKENS_PER_WEIGHT = 5
REPETITIONS = 15.4  # after which more add little: R* of Muennighoff et al. (2023)


def with_auto_size(recipe: Mapping[str, Any], overrides: Overrides) -> ConfigDict | None:
    """A user's recipe with `model.size = "auto"`; None with a size, other weights or another end.

    The defaults of such a training from scratch also have a pre-norm Transformer, a linear
    schedule and small steps.
    """
    tree = apply_overrides(recipe, overrides)
    model, training = tree.get("model", {}), tree.get("training", {})
    if (
        tree.get("task") not in TASKS
        or not isinstance(model, dict)
        or not isinstance(training, dict)
        or "minutes" not in training
        or {"steps", "epochs"} & training.keys()
        or {*CHOSEN, "d_head", "n_kv_heads", "d_embedding", "size"} & model.keys()
        or model.get("init")
        or model.get("architecture", TRANSFORMER) != TRANSFORMER
    ):
        return None
    begin = {"size": "auto", "norm_first": True}
    defaults = {
        "schedule": "linear",
        "learning_rate": 1.5e-3,
        "batch_tokens": 2048,  # more steps: half the tokens a step had a lower loss on koen
        "warmup_steps": 100,
        "ema_decay": 0.99,
    }
    return {
        **recipe,
        "model": {**begin, **recipe.get("model", {})},
        "training": {**defaults, **recipe.get("training", {})},
    }


def with_size(recipe: "Recipe", n_layers: int, d_model: int) -> "Recipe":
    """The recipe with a model of this depth and width; the rest of [model] stays."""
    model = replace(
        recipe.model,
        n_layers=n_layers,
        d_model=d_model,
        n_heads=d_model // D_HEAD,
        d_ff=4 * d_model,
        size="given",
    )
    return replace(recipe, model=model)


def useful_tokens(tokens: float, tokens_per_epoch: float) -> float:
    """The tokens that are read, of which repeated ones count less and less.

    Muennighoff et al. (2023), equation 5: a hundred epochs are worth 16, four nearly four.

    >>> [round(useful_tokens(epochs * 1e6, 1e6) / 1e6, 1) for epochs in (0.5, 1, 4, 100)]
    [0.5, 1.0, 3.7, 16.4]
    """
    repeated = max(tokens / tokens_per_epoch - 1, 0.0)
    unique = min(tokens, tokens_per_epoch)
    return unique * (1 + REPETITIONS * -math.expm1(-repeated / REPETITIONS))
