"""The moving average of the weights against a loop in numpy, and the swap."""

import numpy as np
import pytest
import torch
from torch import nn

from jumok.training.ema import EMA


def walk(step: int) -> torch.Tensor:
    """Weights that change every step."""
    return torch.tensor([[float(step), 1 / step], [step**0.5, -1.0]])


def test_the_average_of_two_hundred_steps() -> None:
    weight = nn.Parameter(walk(1).clone())
    ema = EMA({"w": weight}, decay=0.97)
    expected = walk(1).double().numpy()
    for step in range(1, 201):
        weight.data.copy_(walk(step))
        ema.update(step)
        decay = min(0.97, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * walk(step).double().numpy()
    np.testing.assert_allclose(ema.values["w"].numpy(), expected, rtol=1e-5)  # float32 sums


def test_swap_gives_the_model_the_average_and_restores_it() -> None:
    model = nn.Linear(2, 2, bias=False)
    ema = EMA(dict(model.named_parameters()), decay=0.5)
    own = model.weight.detach().clone()
    ema.values["weight"].fill_(3.0)
    with ema.swap():
        assert model(torch.ones(1, 2)).tolist() == [[6.0, 6.0]]
    assert torch.equal(model.weight, own)
    assert (ema.values["weight"] == 3.0).all()
    with pytest.raises(KeyError), ema.swap():
        raise KeyError
    assert torch.equal(model.weight, own)


def test_without_a_decay_there_is_no_average() -> None:
    model = nn.Linear(2, 2)
    ema = EMA(dict(model.named_parameters()), decay=0.0)
    ema.update(step=1)
    own = model.weight.detach().clone()
    with ema.swap():
        assert torch.equal(model.weight, own)
    assert ema.values == {}


def test_a_loaded_average_continues() -> None:
    weight = nn.Parameter(torch.zeros(2))
    ema = EMA({"w": weight}, decay=0.5)
    ema.load({"w": torch.tensor([1.0, 2.0])})
    ema.update(step=1000)
    assert ema.values["w"].tolist() == [0.5, 1.0]
