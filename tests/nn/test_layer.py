"""A layer: its sublayers in the order of figure 1."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from jumok.nn import NO_MASK, AttentionMask, LayerConfig, ResidualNorm, TransformerLayer
from tests.nn.strategies import noise
from tests.nn.tolerances import FLOAT64, close, randomized

SMALL = {"d_model": 4, "n_heads": 2, "d_ff": 6}


def test_cross_attention_needs_a_memory() -> None:
    layer = TransformerLayer(LayerConfig(**SMALL), cross=True)
    with pytest.raises(ValueError, match="memory must be given to a layer with cross-attention"):
        layer(noise(1, 2, 4), NO_MASK)


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_order_of_figure_1(norm_first: bool, norm: Any) -> None:
    """Self-attention, cross-attention with its output, then the feed-forward layer."""
    config = LayerConfig(**SMALL, norm_first=norm_first, norm=norm)
    layer = randomized(TransformerLayer(config, cross=True)).double().eval()
    x, memory = noise(2, 3, 4, dtype=torch.float64), noise(2, 5, 4, seed=1, dtype=torch.float64)
    mask, hidden = AttentionMask(causal=True), AttentionMask(torch.arange(5) < 4)
    n1, n2, n3 = (
        around.norm
        for around in (
            layer.self_attention_norm,
            layer.cross_attention_norm,
            layer.feed_forward_norm,
        )
        if around is not None
    )

    def attend(x: Tensor) -> Tensor:
        return layer.self_attention(x, x, mask)

    def ask(x: Tensor) -> Tensor:
        assert layer.cross_attention is not None
        return layer.cross_attention(x, memory, hidden)

    if norm_first:
        a = x + attend(n1(x))
        b = a + ask(n2(a))
        y = b + layer.feed_forward(n3(b))
    else:
        a = n1(x + attend(x))
        b = n2(a + ask(a))
        y = n3(b + layer.feed_forward(b))
    assert close(layer(x, mask, memory, hidden), y, FLOAT64)


@given(gated=st.booleans(), bias=st.booleans(), norm_first=st.booleans(), cross=st.booleans())
def test_every_parameter_is_used(gated: bool, bias: bool, norm_first: bool, cross: bool) -> None:
    config = LayerConfig(**SMALL, gated=gated, bias=bias, norm_first=norm_first, activation="gelu")
    layer = randomized(TransformerLayer(config, cross=cross))
    y = layer(noise(2, 3, 4), NO_MASK, noise(2, 5, 4, seed=1) if cross else None)
    (y * noise(2, 3, 4, seed=2)).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        if not name.endswith("key.bias"):  # constant over the scores of a query: softmax ignores it
            assert parameter.grad.abs().max() > 1e-7, name
    assert any(name.endswith("query.bias") for name, _ in layer.named_parameters()) == bias


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_gradcheck(norm: Any, norm_first: bool, cross: bool) -> None:
    config = LayerConfig(
        d_model=4, n_heads=2, d_ff=5, norm=norm, norm_first=norm_first, activation="gelu"
    )
    layer = randomized(TransformerLayer(config, cross=cross)).double().eval()
    x = noise(1, 3, 4, seed=1, dtype=torch.float64).requires_grad_()
    memory = noise(1, 2, 4, seed=2, dtype=torch.float64).requires_grad_()

    def result(x: Tensor, memory: Tensor, *parameters: Tensor) -> Tensor:
        return layer(x, AttentionMask(causal=True), memory if cross else None)

    inputs = (x, memory if cross else memory.detach(), *layer.parameters())
    assert torch.autograd.gradcheck(result, inputs, fast_mode=True)
    assert torch.autograd.gradcheck(lambda x: result(x, memory.detach()), (x,))


@pytest.mark.parametrize(
    ("part", "rate"),
    [
        ("self_attention", "attention_dropout"),
        ("cross_attention", "attention_dropout"),
        ("feed_forward", "activation_dropout"),
        ("self_attention_norm", "dropout"),
        ("cross_attention_norm", "dropout"),
        ("feed_forward_norm", "dropout"),
    ],
)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_each_sublayer_has_its_own_dropout_rate(
    part: str, rate: str, gated: bool, norm_first: bool
) -> None:
    """Only one rate is above 0, and only one sublayer is in training."""
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0} | {rate: 0.5}
    config = LayerConfig(**SMALL, **rates, gated=gated, norm_first=norm_first)
    layer = randomized(TransformerLayer(config, cross=True)).eval()
    x, memory = noise(2, 3, 4), noise(2, 5, 4, seed=1)
    assert torch.equal(layer(x, NO_MASK, memory), layer(x, NO_MASK, memory))
    layer.get_submodule(part).train()
    torch.manual_seed(0)
    assert not torch.equal(layer(x, NO_MASK, memory), layer(x, NO_MASK, memory))


def test_every_sublayer_has_dropout_only_in_training() -> None:
    layer = randomized(TransformerLayer(LayerConfig(**SMALL, dropout=0.5)))
    x = noise(2, 3, 4)
    assert not torch.equal(layer.train()(x, NO_MASK), layer(x, NO_MASK))
    assert torch.equal(layer.eval()(x, NO_MASK), layer(x, NO_MASK))
    with torch.no_grad():
        around = layer.self_attention_norm.train()
        kept = around(torch.zeros(4, 100, 4), lambda x: x + 1)  # norm after dropout
    assert kept.unique().numel() > 4  # without dropout each of the 4 columns has one value


@pytest.mark.parametrize("norm_first", [False, True])
def test_add_and_norm(norm_first: bool) -> None:
    around = randomized(ResidualNorm(LayerConfig(**SMALL, norm_first=norm_first))).double().eval()
    x, w = noise(2, 3, 4, dtype=torch.float64), noise(4, 4, seed=1, dtype=torch.float64)
    by_hand = x + around.norm(x) @ w if norm_first else around.norm(x + x @ w)
    assert close(around(x, lambda x: x @ w), by_hand, FLOAT64)
