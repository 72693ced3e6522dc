"""Every choice of a config and of a module is checked in Python, with the nearest valid one."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import jumok
from jumok.data.config import DataConfig
from jumok.decoding.config import DecodingConfig
from jumok.errors import InputError
from jumok.nn import LayerConfig, PositionwiseFeedForward, RopeConfig
from jumok.tasks.recipe.tables import ModelConfig
from jumok.training.config import TrainingConfig
from tests.errors import raises

WRONG: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (jumok.TransformerConfig, {"positions": "sinusodial"}, "sinusoidal"),
    (jumok.TransformerConfig, {"tie_embeddings": "al"}, "all"),
    (jumok.TransformerConfig, {"head_activation": "gello"}, "gelu"),
    (LayerConfig, {"norm": "lyaer"}, "layer"),
    (LayerConfig, {"activation": "rellu"}, "relu"),
    (LayerConfig, {"ffn_projection": "conv2d"}, "conv1d"),
    (LayerConfig, {"attention_bias": "qvk"}, "qkv"),
    (ModelConfig, {"pooling": "frist"}, "first"),
    (ModelConfig, {"kind": "encodr"}, "encoder"),
    (ModelConfig, {"pooler": "tahn"}, "tanh"),
    (RopeConfig, {"scaling": "liner"}, "linear"),
    (TrainingConfig, {"steps": 1, "schedule": "cosin"}, "cosine"),
    (DecodingConfig, {"length_norm": "powr"}, "power"),
    (DataConfig, {"on_bad_rows": "skipp"}, "skip"),
    (PositionwiseFeedForward, {"d_model": 4, "d_ff": 8, "activation": "gellu"}, "gelu"),
    (PositionwiseFeedForward, {"d_model": 4, "d_ff": 8, "projection": "linaer"}, "linear"),
]


@pytest.mark.parametrize(("kind", "arguments", "nearest"), WRONG)
def test_a_wrong_choice_names_the_nearest(
    kind: Callable[..., Any], arguments: dict[str, Any], nearest: str
) -> None:
    with pytest.raises(InputError) as e:
        kind(**arguments)
    assert e.value.code in ("config.wrong_type", "extension.unknown_name")
    assert str(e.value).endswith(f"did you mean {nearest}?")


def test_a_wrong_pooling_of_a_model_is_refused() -> None:
    config = jumok.TransformerConfig(vocabulary_size=9, d_model=8, n_heads=2, d_ff=8, n_layers=1)
    with raises(InputError, "config.wrong_type"):
        jumok.TextClassifier(config, 2, pooling="avg")  # type: ignore[arg-type]
    with raises(InputError, "config.wrong_type"):
        jumok.TextClassifier(config, 2, pooler="gellu")  # type: ignore[arg-type]


def test_help_explains_every_field_of_a_model() -> None:
    lines = (jumok.TransformerConfig.__doc__ or "").splitlines()
    explained = {
        line.split()[0] for line in lines if line.startswith("    ") and len(line.split()) > 1
    }
    missing = {field.name for field in fields(jumok.TransformerConfig)} - explained
    assert not missing
