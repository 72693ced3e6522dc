"""The default config of a layer is the paper's base model; invalid values are rejected."""

from typing import Any

import pytest

from jumok.errors import InputError
from jumok.nn import LayerConfig
from tests.errors import raises


def test_the_defaults_are_the_papers_base_model() -> None:
    config = LayerConfig()
    assert (config.d_model, config.n_heads, config.d_ff) == (512, 8, 2048)
    assert (config.dropout, config.activation, config.norm) == (0.1, "relu", "layer")
    assert not config.norm_first


def test_heads_that_do_not_divide_the_width_have_a_proposal() -> None:
    for d_model, n_heads, proposal in ((512, 7, 8), (100, 3, 4), (2**31 - 1, 7, 1)):
        with raises(InputError, "nn.d_model_not_divisible") as error:
            LayerConfig(d_model=d_model, n_heads=n_heads)
        assert str(error.value).endswith(f"; try {proposal} heads")


@pytest.mark.parametrize(
    "changes",
    [
        *({"n_heads": 0}, {"d_model": -8}, {"d_ff": 0}, {"d_model": 2**63, "n_heads": 7}),
        *({"dropout": 1.0}, {"dropout": -0.1}, {"attention_dropout": 2.0}),
        {"activation_dropout": float("nan")},
    ],
)
def test_invalid_values_are_rejected(changes: dict[str, Any]) -> None:
    with raises(InputError, "config.out_of_range") as error:
        LayerConfig(**changes)
    assert str(error.value).startswith(f"{next(iter(changes))} must be at least ")
