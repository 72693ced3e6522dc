"""A model's weights as named tensors: shared ones once, none missing, none left over."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.errors import InputError


def named_weights(model: nn.Module) -> dict[str, nn.Parameter]:
    """Every weight under its plain name; one that has two names (tied) under its first.

    >>> model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    >>> model["b"].weight = model["a"].weight
    >>> list(weights_of(model)), tied_weights(model)
    (['a.weight'], {'b.weight': 'a.weight'})
    """
    return dict(model.named_parameters())


def tied_weights(model: nn.Module) -> dict[str, str]:
    """The other names of tied weights, each with the name it is kept under."""
    kept = {id(p): name for name, p in model.named_parameters()}
    every = dict(model.named_parameters(remove_duplicate=False))
    return {name: kept[id(p)] for name, p in every.items() if kept[id(p)] != name}


@torch.no_grad()
def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy the tensors into the model.

    Raises InputError that lists every name missing, unexpected or of another shape; then nothing
    was copied.
    """
    wanted = named_weights(model)
    wrong = [f"{name} is missing" for name in sorted(wanted.keys() - tensors.keys())]
    wrong += [f"{name} is unexpected" for name in sorted(tensors.keys() - wanted.keys())]
    wrong += [
        f"{name} is {tuple(tensors[name].shape)}, not {tuple(wanted[name].shape)}"
        for name in sorted(wanted.keys() & tensors.keys())
        if tensors[name].shape != wanted[name].shape
    ]
    if wrong:
        raise InputError(f"the weights do not fit the model: {'; '.join(wrong)}; give its own")
    for name, parameter in wanted.items():
        parameter.copy_(tensors[name])
