"""Packed, cast and quantized linear maps match nn.Linear."""

import pytest
import torch
from torch import nn

from jumok.inference.linear import (
    CastLinear,
    PackedLinear,
    concat_linears,
    linear_factory,
    quantized_linear,
)
from jumok.nn.feedforward import get_activation

ACTIVATIONS = (None, "relu", "gelu", "gelu_tanh", "silu")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", ACTIVATIONS)
@torch.no_grad()
def test_linear_factories_match_nn_linear(name, bias: bool) -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(24, 50, bias=bias), 3 * torch.randn(2, 7, 24)
    activation = None if name is None else get_activation(name)
    expected = linear(x) if activation is None else activation(linear(x))
    for factory, tolerance in (
        (linear_factory(torch.float32), 2e-6),
        (linear_factory(torch.bfloat16), 6e-2),
    ):
        assert (factory(linear, activation)(x) - expected).abs().max() < tolerance
    assert (quantized_linear(linear, activation)(x) - expected).abs().max() < 6e-2
    cast = CastLinear(linear, torch.float32, activation)(x)
    torch.testing.assert_close(cast, expected)


@torch.no_grad()
def test_float32_products_are_full_float32() -> None:
    """Compared with float64: 16-bit rounding in the products would give errors of 1e-3."""
    torch.manual_seed(0)
    linear, x = nn.Linear(768, 256), torch.randn(128, 768)
    exact = nn.functional.linear(x.double(), linear.weight.double(), linear.bias.double())
    assert (PackedLinear(linear, torch.float32)(x) - exact).abs().max() < 5e-6


@torch.no_grad()
def test_concat_linears() -> None:
    linears, x = [nn.Linear(8, n) for n in (3, 4)], torch.randn(2, 8)
    torch.testing.assert_close(
        concat_linears(linears)(x), torch.cat([linear(x) for linear in linears], -1)
    )
