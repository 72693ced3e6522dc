"""Build modules on the meta device and assign the weights of a file to them.

Weights that will be replaced are neither allocated nor initialized.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from jumok.errors import InputError
from jumok.models.weights import named_weights

MAX_NAMES = 12  # in an error message


def on_meta_device(build: Callable[[], nn.Module]) -> nn.Module:
    """The module that `build` returns, with weights on the meta device; buffers have values.

    >>> on_meta_device(lambda: nn.Linear(2, 3)).weight.device
    device(type='meta')
    """
    with torch.device("meta"), _SkipInitialization():
        return build()


def assign_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Make these tensors the weights of the model, without a copy and in any dtype.

    Raises InputError, before any change, if a tensor is missing or has another shape.
    """
    weights = named_weights(model)
    mismatched = sorted(
        name
        for name, parameter in weights.items()
        if name not in tensors or tensors[name].shape != parameter.shape
    )
    if mismatched:
        raise InputError(
            f"the weights must have the shapes of the model, got others or none for "
            f"{join_names(mismatched)}; give the model's own weights"
        )
    new = {
        id(parameter): nn.Parameter(tensors[name], requires_grad=tensors[name].is_floating_point())
        for name, parameter in weights.items()
    }
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and id(parameter) in new:
                module._parameters[name] = new[id(parameter)]


def join_names(names: Sequence[str]) -> str:
    """The first names, separated by commas."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


class _SkipInitialization(TorchFunctionMode):
    """Skips torch.nn.init functions: the weights will be replaced."""

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
