"""Changes that turn a checkpoint of transformers into an older or invalid one."""

import re
from collections.abc import Callable
from typing import Any

from torch import Tensor

Change = Callable[[dict[str, Any], dict[str, Tensor]], None]
"""Changes config.json and the tensors by name in place."""


def set_config(**keys: Any) -> Change:
    """Set keys of config.json; None deletes the key."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        for key, value in keys.items():
            config[key] = value
            if value is None:
                del config[key]

    return change


def set_tensor(name: str, tensor: Tensor) -> Change:
    """Add or replace a tensor."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors[name] = tensor.clone()

    return change


def drop_tensor(name: str) -> Change:
    """Delete a tensor."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        del tensors[name]

    return change


def copy_tensor(second: str, first: str) -> Change:
    """Store the tensor `first` also under the name `second`."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        tensors[second] = tensors[first].clone()

    return change


def rename_tensors(pattern: str, replacement: str) -> Change:
    """Replace a pattern in the names of all tensors."""

    def change(config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            tensors[re.sub(pattern, replacement, name)] = tensors.pop(name)

    return change
