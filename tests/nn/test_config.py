"""The default config of a layer is the paper's base model; invalid values are rejected."""

from typing import Any

import pytest

from jumok.errors import InputError
from jumok.nn import LayerConfig


def test_the_defaults_are_the_papers_base_model() -> None:
    config = LayerConfig()
    assert (config.d_model, config.n_heads, config.d_ff) == (512, 8, 2048)
    assert (config.dropout, config.activation, config.norm) == (0.1, "relu", "layer")
    assert not config.norm_first


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"n_heads": 7},
            "d_model must be divisible by n_heads, got d_model=512, n_heads=7; try 8 heads",
        ),
        (
            {"d_model": 100, "n_heads": 3},
            "d_model must be divisible by n_heads, got d_model=100, n_heads=3; try 4 heads",
        ),
        ({"n_heads": 0}, "n_heads must be at least 1, got 0"),
        ({"d_model": -8}, "d_model must be at least 1, got -8"),
        ({"d_ff": 0}, "d_ff must be at least 1, got 0"),
        (
            {"d_model": 2**63, "n_heads": 7},
            "d_model must be at least 1 and at most 2147483648, got 9223372036854775808",
        ),
        (
            {"d_model": 2**31 - 1, "n_heads": 7},
            "d_model must be divisible by n_heads, got d_model=2147483647, n_heads=7; try 1 heads",
        ),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, got -0.1"),
        (
            {"attention_dropout": 2.0},
            "attention_dropout must be at least 0 and below 1, got 2.0",
        ),
        (
            {"activation_dropout": float("nan")},
            "activation_dropout must be at least 0 and below 1, got nan",
        ),
    ],
)
def test_invalid_values_are_rejected(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        LayerConfig(**changes)
    assert str(error.value) == sentence
