"""A model's weights as named tensors; tied weights appear once."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.models.finite_weights import FLOAT32_MAX, not_finite_error
from jumok.models.weight_shapes import check_shapes


def named_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Every weight by name; a tied weight by the first of its names.

    >>> model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    >>> model["b"].weight = model["a"].weight
    >>> list(named_weights(model)), tied_weights(model)
    (['a.weight'], {'b.weight': 'a.weight'})
    """
    return dict(model.named_parameters())


def tied_weights(model: nn.Module) -> dict[str, str]:
    """The other names of tied weights, each with the name in `named_weights`."""
    kept = {id(p): name for name, p in model.named_parameters()}
    every = dict(model.named_parameters(remove_duplicate=False))
    return {name: kept[id(p)] for name, p in every.items() if kept[id(p)] != name}


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy the tensors into the model.

    Raises the errors of `check_weights`; then nothing is copied.
    """
    check_weights(model, tensors)
    for name, parameter in named_weights(model).items():
        parameter.copy_(tensors[name])


def check_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Raise InputError unless these are finite tensors for all weights of the model.

    The message has every missing or unexpected name and every wrong shape or dtype.
    """
    check_shapes(
        {name: tuple(weight.shape) for name, weight in named_weights(model).items()},
        {name: tuple(tensor.shape) for name, tensor in tensors.items()},
        {
            name: str(tensor.dtype).removeprefix("torch.")
            for name, tensor in tensors.items()
            if not tensor.is_floating_point()
        },
    )
    check_finite(tensors, "the weights")


@torch.no_grad()
def check_finite(tensors: Mapping[str, Tensor], where: str) -> None:
    """Raise InputError, which names the tensor, unless all elements are finite in float32.

    One pass at the speed of memory: the smallest and the largest element are NaN if any element
    is, and infinite if one is.

    >>> check_finite({"bias": torch.tensor([0.0, torch.nan])}, "model.safetensors")
    Traceback (most recent call last):
    jumok.errors.ConfigError: model.safetensors must have finite weights, got nan in bias; get or \
train it again
    """
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.numel():
            continue
        values = tensor.float() if tensor.element_size() == 1 else tensor  # float8 has no aminmax
        for value in torch.aminmax(values):
            if not abs(value.item()) <= FLOAT32_MAX:  # NaN compares as False
                raise not_finite_error(where, value.item(), name)


def initialize(model: nn.Module) -> None:
    """Xavier uniform (Glorot and Bengio 2010) for every linear layer, 0 for its bias.

    Embeddings do not change, and tied output layers keep their weights.
    """
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for module in model.modules():
        if not isinstance(module, nn.Linear):
            continue
        if id(module.weight) not in tables:
            nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
