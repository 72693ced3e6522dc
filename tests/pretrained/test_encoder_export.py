"""Encoders of ModernBERT's and DeBERTa's kinds that jumok trained, exported to transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jumok.models import MaskedLanguageModel, TextClassifier, TokenClassifier, TransformerConfig
from jumok.pretrained.architecture import parse_config
from jumok.pretrained.to_hf import convert_to_hf
from tests.pretrained.random_encoders import FAMILIES, random_encoder
from tests.pretrained.test_to_hf import (
    difference,
    family,
    load_in_transformers,
    source_model,
)

transformers = pytest.importorskip("transformers")


def config_of(name: str, seed: int) -> TransformerConfig:
    """The config of a random encoder with the vocabulary of the tests."""
    variant = random_encoder(name, seed)
    values = getattr(transformers, variant.config)(**variant.config_values).to_dict()
    values |= {"position_buckets": 3, "pos_att_type": ["p2c", "c2p"], "relative_attention": True}
    return replace(parse_config(values, ()).config, vocabulary_size=50)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_same_outputs_in_transformers(name: str, seed: int, tmp_path: Path) -> None:
    config = config_of(name, seed)
    pooler: Any = "none" if name == "modernbert" else ("gelu", "tanh", "relu")[seed]
    pooling: Any = ("first", "mean", "mean")[seed] if name == "modernbert" else "first"
    texts = TextClassifier(config, 3, pooling, pooler)
    for kind, model, extra in (
        ("text_classifier", texts, {"pooling": pooling, "pooler": pooler}),
        ("token_classifier", TokenClassifier(config, 3), {}),
        ("masked_language_model", MaskedLanguageModel(config), {}),
    ):
        source: Any = source_model(kind, model, config, **extra)  # type: ignore[arg-type]
        converted = convert_to_hf(source)
        assert family(converted) == name
        folder = tmp_path / kind
        folder.mkdir()
        found = difference(kind, model, load_in_transformers(converted, folder))  # type: ignore[arg-type]
        assert found <= 1e-5, kind
