"""Build modules on the meta device and assign the weights of a file to them.

Weights that will be replaced are neither allocated nor initialized.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from jumok.errors import ModelFileError
from jumok.models.weights import check_weights, named_weights
from jumok.pretrained.memory_map import release_pages

WeightType = Literal["float32", "auto"]  # auto: that of the file

_KEPT = ({torch.bfloat16}, {torch.float16})


def on_meta_device(build: Callable[[], nn.Module]) -> nn.Module:
    """The module that `build` returns, with weights on the meta device; buffers have values.

    Raises ModelFileError for a module of an extension whose buffer has none.

    >>> on_meta_device(lambda: nn.Linear(2, 3)).weight.device
    device(type='meta')
    """
    with torch.device("meta"), _SkipInitialization():
        module = build()
    for name, buffer in module.named_buffers():
        if buffer.is_meta:
            raise ModelFileError(
                "pretrained.buffer_without_values",
                'buffer {name} must be computed with device="cpu" in its module: weights are '
                "loaded into models without memory",
                name=name,
            )
    return module


def build_with_weights(
    build: Callable[[], nn.Module], tensors: Mapping[str, Tensor], dtype: WeightType = "float32"
) -> nn.Module:
    """The module that `build` returns, with these tensors as its weights, in float32.

    A tensor in float32 is not copied; a mapped one in another type is converted and its pages are
    released, unless `dtype` keeps it (`convert_weights`). Raises the errors of `check_weights`.

    >>> weight = torch.ones(3, 2)
    >>> module = build_with_weights(lambda: nn.Linear(2, 3, bias=False), {"weight": weight})
    >>> module.weight.data_ptr() == weight.data_ptr()
    True
    """
    model = on_meta_device(build)
    check_weights(model, tensors)
    assign_weights(model, tensors)
    convert_weights(model, dtype)
    return model


def convert_weights(model: nn.Module, dtype: WeightType) -> None:
    """Convert the weights to float32, one at a time.

    With "auto" matrices stay as they are, mapped or not, if all are bfloat16 or all float16.
    Vectors, which GGUF files have in float32, and tables that are computed from the config become
    the same type.

    >>> linear = nn.Linear(1, 1, dtype=torch.bfloat16)
    >>> convert_weights(linear, "auto")
    >>> linear.weight.dtype
    torch.bfloat16
    """
    weights = named_weights(model)
    found = {weight.dtype for weight in weights.values() if weight.ndim > 1}
    if dtype == "auto" and found in _KEPT:
        [kept] = found
        assign_weights(model, {name: weight.to(kept) for name, weight in weights.items()})
        for buffer in model.buffers():
            if buffer.is_floating_point():
                buffer.data = buffer.data.to(kept)
        return
    assign_weights(model, {name: in_float32(weight) for name, weight in weights.items()})


def in_float32(tensor: Tensor) -> Tensor:
    """The tensor itself in float32, else a copy, after which the pages of a file are released."""
    found = tensor.float()
    if found is not tensor:
        release_pages(tensor)
    return found


def assign_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Make the tensors of a model its weights, without a copy and in any dtype."""
    new = {
        id(parameter): nn.Parameter(tensors[name], requires_grad=tensors[name].is_floating_point())
        for name, parameter in named_weights(model).items()
    }
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and id(parameter) in new:
                module._parameters[name] = new[id(parameter)]


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
