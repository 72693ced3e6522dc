"""AdamW against forty lines of numpy in float64, and its state taken along."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from jumok.training.config import TrainingConfig
from jumok.training.optimizer import Named, Optimizer

Array = NDArray[np.float64]
CONFIG = TrainingConfig(steps=1, learning_rate=1e-2, weight_decay=0.1)
STEPS = 100


class NumpyAdamW:
    """Algorithm 2 of Loshchilov and Hutter (2019) for one array."""

    def __init__(self, weight: Array, decay: float) -> None:
        self.weight, self.decay = weight.copy(), decay
        self.mean, self.square, self.t = np.zeros_like(weight), np.zeros_like(weight), 0

    def step(self, gradient: Array, rate: float, beta1: float = 0.9, beta2: float = 0.98) -> None:
        self.t += 1
        self.weight -= rate * self.decay * self.weight
        self.mean = beta1 * self.mean + (1 - beta1) * gradient
        self.square = beta2 * self.square + (1 - beta2) * gradient**2
        mean = self.mean / (1 - beta1**self.t)
        square = self.square / (1 - beta2**self.t)
        self.weight -= rate * mean / (np.sqrt(square) + 1e-9)


def weights() -> Named:
    generator = torch.Generator().manual_seed(0)
    return {
        "matrix": nn.Parameter(torch.randn(5, 7, generator=generator)),
        "bias": nn.Parameter(torch.randn(7, generator=generator)),
    }


def gradients(step: int) -> dict[str, torch.Tensor]:
    """The gradients of one step, of very different sizes."""
    generator = torch.Generator().manual_seed(step)
    return {
        name: torch.randn(p.shape, generator=generator) * 10.0 ** (step % 5 - 3)
        for name, p in weights().items()
    }


def rate(step: int) -> float:
    return 1e-2 * min(step / 20, (20 / step) ** 0.5)


def take_step(optimizer: Optimizer, step: int) -> None:
    for name, gradient in gradients(step).items():
        optimizer.parameters[name].grad = gradient
    optimizer.step(rate(step))


def test_a_hundred_steps_are_numpy_s() -> None:
    named = weights()
    optimizer = Optimizer(named, CONFIG)
    numpy = {
        name: NumpyAdamW(p.detach().double().numpy(), 0.1 if p.ndim > 1 else 0.0)
        for name, p in named.items()
    }
    for step in range(1, STEPS + 1):
        take_step(optimizer, step)
        for name, gradient in gradients(step).items():
            numpy[name].step(gradient.double().numpy(), rate(step))
    for name, ours in named.items():
        wanted = numpy[name].weight
        error = np.abs(ours.detach().numpy() - wanted).max() / np.abs(wanted).max()
        assert error < 1e-6  # float32 keeps 6e-8 a step; they do not add up


def test_gradients_are_forgotten_after_a_step() -> None:
    optimizer = Optimizer(weights(), CONFIG)
    take_step(optimizer, 1)
    assert all(p.grad is None for p in optimizer.parameters.values())


def test_the_state_taken_along_goes_on_bit_for_bit() -> None:
    whole = Optimizer(weights(), CONFIG)
    for step in range(1, 11):
        take_step(whole, step)

    first = Optimizer(weights(), CONFIG)
    for step in range(1, 6):
        take_step(first, step)
    state = {name: value.clone() for name, value in first.state().items()}
    assert sorted(state) == [
        f"{part}:{name}"
        for part in ("exp_avg", "exp_avg_sq", "step")
        for name in ("bias", "matrix")
    ]
    second = Optimizer({n: nn.Parameter(p.detach()) for n, p in first.parameters.items()}, CONFIG)
    second.load(state)
    for step in range(6, 11):
        take_step(second, step)
    for name, p in whole.parameters.items():
        assert torch.equal(p, second.parameters[name])
    assert all(torch.equal(a, second.state()[name]) for name, a in whole.state().items())
