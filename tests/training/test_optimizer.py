"""AdamW and Muon against numpy in float64, states, learning rates, frozen weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel, TextClassifier
from jumok.models.config import TransformerConfig
from jumok.models.weights import named_weights
from jumok.training.config import TrainingConfig
from jumok.training.layer_decay import frozen_parameters, lr_multipliers
from jumok.training.optimizer import MuonKind, Named, Optimizer
from tests.errors import raises

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


def test_a_hundred_steps_equal_numpy() -> None:
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
    for name, actual in named.items():
        expected = numpy[name].weight
        error = np.abs(actual.detach().numpy() - expected).max() / np.abs(expected).max()
        assert error < 1e-6  # float32 keeps 6e-8 a step; they do not add up


def test_gradients_are_none_after_a_step() -> None:
    optimizer = Optimizer(weights(), CONFIG)
    take_step(optimizer, 1)
    assert all(p.grad is None for p in optimizer.parameters.values())


def classifier_weights(layers: int = 3) -> Named:
    """The weights of a tiny classifier, with the names of real ones."""
    config = TransformerConfig(
        vocabulary_size=11, d_model=4, n_heads=2, d_ff=8, n_layers=layers, norm_first=True
    )
    torch.manual_seed(0)
    return named_weights(TextClassifier(config, n_labels=2))


def changes(config: TrainingConfig, steps: int = 1) -> dict[str, float]:
    """The largest change of each weight with gradients of 1 everywhere."""
    named = classifier_weights()
    before = {name: p.detach().clone() for name, p in named.items()}
    optimizer = Optimizer(named, config)
    for _ in range(steps):
        for p in named.values():
            p.grad = torch.ones_like(p) if p.requires_grad else None
        optimizer.step(1e-2)
    return {name: (p.detach() - before[name]).abs().max().item() for name, p in named.items()}


def test_lower_layers_have_lower_learning_rates() -> None:
    """Adam's first step equals the learning rate, whatever the gradient: 0.01 for the head."""
    change = changes(TrainingConfig(steps=1, weight_decay=0.0, layer_decay=0.5))
    expected = {
        "encoder.embedding.tokens.weight": 1 / 8,
        "encoder.stack.layers.0.self_attention.query.weight": 1 / 4,
        "encoder.stack.layers.1.feed_forward.up.bias": 1 / 2,
        "encoder.stack.layers.2.self_attention_norm.norm.weight": 1.0,
        "encoder.stack.norm.weight": 1.0,
        "output.weight": 1.0,
    }
    for name, multiplier in expected.items():
        assert abs(change[name] - 1e-2 * multiplier) < 1e-6  # float32 near 1


def test_the_relative_position_bias_counts_as_an_embedding() -> None:
    """The layers of an encoder or decoder share one bias, as they share the embeddings."""
    config = TransformerConfig(
        vocabulary_size=11, d_model=4, n_heads=2, d_ff=8, n_layers=3, positions="relative"
    )
    for model, n_biases in ((EncoderDecoder(config), 2), (LanguageModel(config), 1)):
        names = named_weights(model)
        biases = {name for name in names if name.endswith("stack.relative.bias.weight")}
        assert len(biases) == n_biases
        assert {lr_multipliers(names, 0.5)[name] for name in biases} == {1 / 8}
        assert biases < frozen_parameters(names, ["embeddings"])
        assert not biases & frozen_parameters(names, ["layers.0-2"])


def test_without_layer_decay_all_rates_are_equal() -> None:
    change = changes(TrainingConfig(steps=1, weight_decay=0.0))
    assert max(abs(each - 1e-2) for each in change.values()) < 1e-6


def test_frozen_weights_do_not_change() -> None:
    config = TrainingConfig(
        steps=1, weight_decay=0.5, freeze=("embeddings", "layers.0-1", "output.bias")
    )
    change = changes(config, steps=3)
    frozen = {name for name, each in change.items() if each == 0.0}
    assert frozen == {
        name
        for name in change
        if ".embedding." in name or ".layers.0." in name or ".layers.1." in name
    } | {"output.bias"}


@pytest.mark.parametrize("pattern", ["layers.3", "layers.2-", "embedding", "encode", "layers", ""])
def test_freeze_must_match_weights(pattern: str) -> None:
    with raises(InputError, "training.freeze_matches_nothing"):
        Optimizer(classifier_weights(), TrainingConfig(steps=1, freeze=(pattern,)))


def test_some_weights_must_be_trainable() -> None:
    with raises(InputError, "training.all_weights_frozen"):
        Optimizer(classifier_weights(), TrainingConfig(steps=1, freeze=("encoder", "output")))


def numpy_muon(weight: Array, mean: Array, gradient: Array, rate: float, decay: float) -> Array:
    """One step of Muon (Jordan 2024) with the factor of Liu et al. (2025); `mean` is updated."""
    mean *= 0.95
    mean += 0.05 * gradient
    update = 0.05 * gradient + 0.95 * mean
    tall = len(update) > len(update[0])
    x = update.T if tall else update
    x = x / np.linalg.norm(x)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    update = 0.2 * max(weight.shape) ** 0.5 * (x.T if tall else x)
    result: Array = (1 - rate * decay) * weight - rate * update
    return result


def test_muon_equals_numpy_and_leaves_the_other_weights_to_adamw() -> None:
    muon_config = TrainingConfig(
        steps=1, weight_decay=0.1, layer_decay=0.5, optimizer="muon", precision="float32"
    )
    named, others = classifier_weights(), classifier_weights()
    optimizer = Optimizer(named, muon_config)
    adamw = Optimizer(others, replace(muon_config, optimizer="adamw"))
    matrices = {n for n, p in named.items() if ".layers." in n and p.ndim == 2}
    by_muon = {n for n, kind in optimizer.kind_of.items() if isinstance(kind, MuonKind)}
    assert by_muon == matrices
    assert len(matrices) == 3 * 6  # query, key, value, output, up, down
    weights = {n: named[n].detach().double().numpy() for n in matrices}
    means = {n: np.zeros_like(weights[n]) for n in matrices}
    rates = lr_multipliers(named, 0.5)
    for step in range(1, 11):
        generator = torch.Generator().manual_seed(step)
        for name, p in named.items():
            gradient = torch.randn(p.shape, generator=generator)
            p.grad, others[name].grad = gradient, gradient.clone()
            if name in matrices:
                weights[name] = numpy_muon(
                    weights[name], means[name], gradient.double().numpy(), 1e-2 * rates[name], 0.1
                )
        optimizer.step(1e-2)
        adamw.step(1e-2)
    for name, p in named.items():
        if name in matrices:
            error = np.abs(p.detach().numpy() - weights[name]).max()
            assert error < 1e-5  # float32; ten updates change a weight by about 0.02
            assert not torch.equal(p, others[name])
        else:
            assert torch.equal(p, others[name])


def test_muon_needs_whole_matrices() -> None:
    with raises(InputError, "training.not_with_sharding"):
        TrainingConfig(steps=1, optimizer="muon", sharding="full")


@pytest.mark.parametrize("decay", [0.0, -0.5, 1.5, float("nan")])
def test_layer_decay_is_at_most_one(decay: float) -> None:
    with raises(InputError, "config.out_of_range"):
        TrainingConfig(steps=1, layer_decay=decay)
