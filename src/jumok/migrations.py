"""Older formats of runs and checkpoints: which names changed, and their translation.

Each format has one table. `config.json` and the manifest of a checkpoint name their format; a
`recipe.toml` is translated by the keys that it contains. A recipe that a user gives is never
translated: an old key is refused with the new name.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

FORMAT = 2  # of config.json and of the manifest of a checkpoint

Tensor = TypeVar("Tensor")


def _unchanged(value: object) -> object:
    return value


@dataclass(frozen=True)
class RenamedKey:
    """The new key of a recipe, with its table, and how a value of the old key is converted."""

    key: str
    convert: Callable[[Any], object] = _unchanged


# A value of a wrong type is left as it is: the recipe's reader reports it.


def _double(value: object) -> object:
    return 2 * value if isinstance(value, int | float) else value


def _early_stopping(value: object) -> object:
    known = {"full": True, "likely": False, "exact": "never"}
    return known.get(value, value) if isinstance(value, str) else value


def _kernel(value: object) -> object:
    # "plain" was the default, written into every run: there was no choice between kernels
    return "auto" if value == "plain" else value


def _module_paths(value: object) -> object:
    if not isinstance(value, list) or not all(isinstance(path, str) for path in value):
        return value
    return [rename_tensor(path + ".", 1).removesuffix(".") for path in value]


# old format -> the keys of recipe.toml, and of the `model` table of config.json, that it replaced
RENAMED_KEYS: dict[int, dict[str, RenamedKey]] = {
    1: {
        "training.accumulate": RenamedKey("training.gradient_accumulation_steps"),
        "training.keep": RenamedKey("training.keep_checkpoints"),
        "training.report_every": RenamedKey("training.log_every"),
        "training.on_bad_step": RenamedKey("training.on_nonfinite"),
        "training.spike": RenamedKey("training.spike_factor"),
        "training.ema": RenamedKey("training.ema_decay"),
        "training.recompute": RenamedKey("training.activation_checkpointing"),
        "training.freeze": RenamedKey("training.freeze", _module_paths),
        "augmentation.consistency": RenamedKey("augmentation.rdrop_alpha", _double),
        "masking.share": RenamedKey("masking.mlm_probability"),
        "model.relative_buckets": RenamedKey("model.relative_attention_num_buckets"),
        "model.relative_distance": RenamedKey("model.relative_attention_max_distance"),
        "model.first_position": RenamedKey("model.position_offset"),
        "decoding.early_stop": RenamedKey("decoding.early_stopping", _early_stopping),
        "decoding.kernel": RenamedKey("decoding.kernel", _kernel),
    }
}

# old format -> patterns of tensor names and their replacements
RENAMED_TENSORS: dict[int, tuple[tuple[str, str], ...]] = {
    1: (
        (r"(layers\.\d+\.)attention\.", r"\1self_attention."),
        (r"(layers\.\d+\.)cross\.", r"\1cross_attention."),
        (r"(layers\.\d+\.)around_attention\.", r"\1self_attention_norm."),
        (r"(layers\.\d+\.)around_cross\.", r"\1cross_attention_norm."),
        (r"(layers\.\d+\.)around_feed_forward\.", r"\1feed_forward_norm."),
        (r"embedding\.widen\.", "embedding.projection."),
        (r"(^|:)likeness\.", r"\1similarity."),
    )
}


def migrate_recipe(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of an existing run's recipe.toml in the current format.

    >>> migrate_recipe({"training": {"ema": 0.9}, "augmentation": {"consistency": 0.5}})
    {'training': {'ema_decay': 0.9}, 'augmentation': {'rdrop_alpha': 1.0}}
    """
    tables = {k: dict(v) if isinstance(v, Mapping) else v for k, v in tree.items()}
    for old_keys in RENAMED_KEYS.values():
        for old, new in old_keys.items():
            table, _, key = old.partition(".")
            content = tables.get(table)
            if isinstance(content, dict) and key in content:
                content[new.key.partition(".")[2]] = new.convert(content.pop(key))
    return tables


def rename_tensor(name: str, written: int) -> str:
    """The current name of a tensor in a file of the format `written`.

    >>> rename_tensor("exp_avg:encoder.stack.layers.0.attention.key.bias", 1)
    'exp_avg:encoder.stack.layers.0.self_attention.key.bias'
    """
    for old, patterns in RENAMED_TENSORS.items():
        if written <= old:
            for pattern, replacement in patterns:
                name = re.sub(pattern, replacement, name)
    return name


def rename_tensors(tensors: Mapping[str, Tensor], written: int) -> dict[str, Tensor]:
    """The tensors of a file of the format `written`, under their current names."""
    return {rename_tensor(name, written): tensor for name, tensor in tensors.items()}
