"""A model's weights as named tensors; tied weights appear once."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.errors import InputError


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

    Raises InputError with every missing or unexpected name and every wrong shape; then nothing is
    copied.
    """
    expected = named_weights(model)
    wrong = [f"{name} is missing" for name in sorted(expected.keys() - tensors.keys())]
    wrong += [f"{name} is unexpected" for name in sorted(tensors.keys() - expected.keys())]
    wrong += [
        f"{name} is {tuple(tensors[name].shape)}, not {tuple(expected[name].shape)}"
        for name in sorted(expected.keys() & tensors.keys())
        if tensors[name].shape != expected[name].shape
    ]
    if wrong:
        raise InputError(
            f"the weights do not fit the model: {'; '.join(wrong)}; give the weights of this model"
        )
    for name, parameter in expected.items():
        parameter.copy_(tensors[name])
