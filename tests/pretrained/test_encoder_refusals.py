"""Keys of ModernBERT and DeBERTa without support, and settings that do not fit together."""

from typing import Any

import pytest

from jumok.errors import InputError, ModelFileError
from jumok.models import EncoderDecoder, TransformerConfig
from jumok.pretrained.architecture import parse_config
from jumok.tasks.recipe.tables import ModelConfig
from tests.errors import raises
from tests.pretrained.hf_variants import DEBERTA, MODERNBERT


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"conv_kernel_size": 3}, "pretrained.config_value_unsupported"),
        ({"embedding_size": 12}, "pretrained.config_value_unsupported"),
        ({"pooler_hidden_act": "swish"}, "pretrained.config_value_unsupported"),
        ({"pos_att_type": ["p2p"]}, "pretrained.position_terms"),
        ({"pos_att_type": []}, "pretrained.relative_attention"),
        ({"position_buckets": 20}, "pretrained.relative_attention"),
    ],
)
def test_keys_of_deberta_without_support(values: dict[str, Any], code: str) -> None:
    parse_config({"model_type": "deberta-v2", **DEBERTA}, ())
    with raises(ModelFileError, code):
        parse_config({"model_type": "deberta-v2", **DEBERTA, **values}, ())


def test_keys_of_modernbert_without_support() -> None:
    plain = {"model_type": "modernbert", **MODERNBERT}
    assert parse_config(plain, ()).unread == ()
    assert parse_config(plain | {"invented": 1}, ()).unread == ("invented",)
    for values in ({"decoder_bias": False}, {"classifier_pooling": "max"}):
        with raises(ModelFileError, "pretrained.config_value_unsupported"):
            parse_config(plain | values, ())


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"first_norm": False}, "nn.first_norm_of_post_norm"),
        ({"relative_attention_num_buckets": 7}, "nn.disentangled"),
        ({"n_kv_heads": 4}, "nn.disentangled"),
        ({"positions": "relative"}, "model.two_relative_positions"),
    ],
)
def test_settings_that_do_not_fit(values: dict[str, Any], code: str) -> None:
    with raises(InputError, code):
        TransformerConfig(**{"attention": "disentangled", "positions": "none"} | values)


def test_parts_that_do_not_fit() -> None:
    small = {"vocabulary_size": 10, "d_model": 8, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    with raises(InputError, "nn.disentangled_cross_attention"):
        EncoderDecoder(TransformerConfig(**small, attention="disentangled", positions="none"))  # type: ignore[arg-type]
    with raises(InputError, "recipe.pooler_and_head_transform"):
        ModelConfig(head_transform=True, pooler="tanh")
