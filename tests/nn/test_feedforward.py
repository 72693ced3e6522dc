"""Feed-forward layers: equation (2) at each position, every activation, gated variant."""

from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jumok.nn import GatedFeedForward, PositionwiseFeedForward
from jumok.nn.config import Activation
from tests.nn.strategies import noise
from tests.nn.tolerances import FLOAT64, close, randomized

ACTIVATIONS = get_args(Activation)


def activated(name: str, x: Tensor) -> Tensor:
    """The formulas, from torch's elementary functions."""
    if name == "relu":
        return x.clamp(min=0)
    if name == "gelu":
        return x * 0.5 * (1 + torch.erf(x / 2**0.5))
    if name == "gelu_tanh":
        return x * 0.5 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))
    return x / (1 + torch.exp(-x))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_equation_2(name: Activation, bias: bool) -> None:
    x = noise(2, 3, 4, dtype=torch.float64)
    plain = randomized(PositionwiseFeedForward(4, 10, activation=name, bias=bias)).double()
    inner = activated(name, F.linear(x, plain.up.weight, plain.up.bias))
    assert close(plain(x), F.linear(inner, plain.down.weight, plain.down.bias), FLOAT64)
    gated = randomized(GatedFeedForward(4, 10, activation=name, bias=bias)).double()
    inner = activated(name, F.linear(x, gated.up.weight, gated.up.bias))
    inner = inner * F.linear(x, gated.gate.weight, gated.gate.bias)
    assert close(gated(x), F.linear(inner, gated.down.weight, gated.down.bias), FLOAT64)
    assert (plain.up.bias is not None) == (gated.gate.bias is not None) == bias


@pytest.mark.parametrize("kind", [PositionwiseFeedForward, GatedFeedForward])
def test_dropout_only_in_training(kind: type[PositionwiseFeedForward]) -> None:
    feed_forward = randomized(kind(4, 10, dropout=0.5))
    x = noise(2, 3, 4)
    assert not torch.equal(feed_forward.train()(x), feed_forward(x))
    assert torch.equal(feed_forward.eval()(x), feed_forward(x))
