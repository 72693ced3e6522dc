"""The config of a layer is the paper's base model as it stands, and refuses what cannot be."""

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
        ({"n_heads": 7}, "d_model 512 does not divide into 7 heads; try 8"),
        ({"d_model": 100, "n_heads": 3}, "d_model 100 does not divide into 3 heads; try 4"),
        ({"n_heads": 0}, "n_heads 0 is not a size; give 1 or more"),
        ({"d_model": -8}, "d_model -8 is not a size; give 1 or more"),
        ({"d_ff": 0}, "d_ff 0 is not a size; give 1 or more"),
        (
            {"d_model": 2**63, "n_heads": 7},
            "d_model 9223372036854775808 is beyond every machine; give 2,147,483,648 or less",
        ),
        (
            {"d_model": 2**31 - 1, "n_heads": 7},
            "d_model 2147483647 does not divide into 7 heads; try 1",
        ),
        ({"dropout": 1.0}, "dropout 1.0 is not a probability; give 0 or more, below 1"),
        ({"dropout": -0.1}, "dropout -0.1 is not a probability; give 0 or more, below 1"),
        (
            {"attention_dropout": 2.0},
            "attention_dropout 2.0 is not a probability; give 0 or more, below 1",
        ),
        (
            {"activation_dropout": float("nan")},
            "activation_dropout nan is not a probability; give 0 or more, below 1",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        LayerConfig(**changes)
    assert str(error.value) == sentence
