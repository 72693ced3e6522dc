"""Modules without numbers, and how they come to hold those of a file.

A weight that will be replaced is not made first: no memory, no drawing of random numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from jumok.errors import InputError
from jumok.models.weights import named_weights

MAX_NAMES = 12  # names in an error


def on_meta_device(make: Callable[[], nn.Module]) -> nn.Module:
    """The module that `make` makes, its weights without memory; tables of sines are there.

    >>> unfilled(lambda: nn.Linear(2, 3)).weight.device
    device(type='meta')
    """
    with torch.device("meta"), _SkipInitialization():
        return make()


def assign_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Let the model hold these tensors themselves, of whatever dtype, by the names of its weights.

    Raises InputError when one is missing or of another shape; then nothing was changed.
    """
    wanted = named_weights(model)
    unfit = sorted(
        name
        for name, parameter in wanted.items()
        if name not in tensors or tensors[name].shape != parameter.shape
    )
    if unfit:
        raise InputError(f"the weights do not fit the model: {join_names(unfit)}; give its own")
    new = {
        id(parameter): nn.Parameter(tensors[name], requires_grad=tensors[name].is_floating_point())
        for name, parameter in wanted.items()
    }
    for module in model.modules():
        for name, held in list(module._parameters.items()):
            if held is not None and id(held) in new:
                module._parameters[name] = new[id(held)]


def join_names(names: Sequence[str]) -> str:
    """The first names in a line."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


class _SkipInitialization(TorchFunctionMode):
    """Weights that will be replaced are not drawn first."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
