"""How a checkpoint on somebody's disk differs from what transformers writes today."""

import re
from collections.abc import Callable
from typing import Any

from torch import Tensor

Change = Callable[[dict[str, Any], dict[str, Tensor]], None]
"""config.json, tensors by name: changed in place."""


def set_config(**keys: Any) -> Change:
    """Its config.json says this; None: it does not speak of it."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        for key, value in keys.items():
            config[key] = value
            if value is None:
                del config[key]

    return change


def set_tensor(name: str, tensor: Tensor) -> Change:
    """One tensor more, or another in its place."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors[name] = tensor.clone()

    return change


def drop_tensor(name: str) -> Change:
    """One tensor less."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        del tensors[name]

    return change


def copy_tensor(second: str, first: str) -> Change:
    """The tensor `first` also under the name `second`."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors[second] = tensors[first].clone()

    return change


def rename_tensors(pattern: str, replacement: str) -> Change:
    """What the pattern finds in names is written otherwise."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[re.sub(pattern, replacement, name)] = tensors.pop(name)

    return change
