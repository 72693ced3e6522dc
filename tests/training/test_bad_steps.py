"""The first layer or gradient that is not finite."""

import pytest
import torch
from torch import Tensor, nn

from jumok.training.bad_steps import find_first_nonfinite


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 3)), nn.Linear(3, 1)
    )


def n_hooks(model: nn.Module) -> int:
    return sum(len(module._forward_hooks) for module in model.modules())


def test_the_first_nonfinite_layer_is_found() -> None:
    model = network()
    with torch.no_grad():
        model[1][1].bias[0] = torch.inf
    assert find_first_nonfinite(model, lambda: model(torch.ones(1, 2))) == "1.1"
    assert find_first_nonfinite(model, lambda: model(torch.full((1, 2), torch.nan))) == "0"
    assert n_hooks(model) == 0


def test_a_nonfinite_gradient_is_found() -> None:
    model = network()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    model[2].weight.grad[0, 1] = torch.nan
    assert (
        find_first_nonfinite(model, lambda: model(torch.ones(1, 2))) == "the gradient of 2.weight"
    )


def test_the_loss_itself() -> None:
    model = network()
    assert find_first_nonfinite(model, lambda: model(torch.ones(1, 2)).log()) == "the loss itself"


def test_the_model_itself() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sqrt()

    model = Root()
    assert find_first_nonfinite(model, lambda: model(torch.tensor(-1.0))) == "the model"


def test_hooks_are_removed_after_an_error() -> None:
    model = network()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        find_first_nonfinite(model, lambda: model(torch.ones(1, 5)))
    assert n_hooks(model) == 0
