"""The default config is the paper's base model; invalid values are rejected."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from jumok.errors import InputError
from jumok.models import (
    Decoder,
    EncoderDecoder,
    LanguageModel,
    TextClassifier,
    TransformerConfig,
)
from tests.errors import raises
from tests.models.small_models import VOCABULARY, small
from tests.nn.strategies import tokens


def n_parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def table_3(vocabulary: int, n: int, d: int, ff: int) -> int:
    """Counted from the paper: biases and norms, one shared embedding, no sinusoids."""
    attention = 4 * (d * d + d)
    feed_forward = d * ff + ff + ff * d + d
    norm = 2 * d
    encoder = n * (attention + feed_forward + 2 * norm)
    decoder = n * (2 * attention + feed_forward + 3 * norm)
    return vocabulary * d + encoder + decoder


def test_the_defaults_are_the_papers_base_model() -> None:
    """Table 3 says 65 million, for N = 6, d_model = 512, d_ff = 2048."""
    with torch.device("meta"):  # counted without allocating
        n = n_parameters(EncoderDecoder(TransformerConfig()))
    assert n == table_3(37_000, 6, 512, 2048)
    assert 63e6 <= n <= 65e6


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"n_heads": 7}, "nn.d_model_not_divisible"),
        ({"vocabulary_size": 0}, "config.out_of_range"),
        ({"n_layers": -1}, "config.out_of_range"),
        ({"max_length": -1}, "config.out_of_range"),
        ({"max_length": 100_000_000}, "config.out_of_range"),
        ({"positions": "rotary", "d_model": 6, "n_heads": 2}, "model.odd_d_head"),
        ({"positions": "rotary", "d_head": 5}, "model.odd_d_head"),
        ({"d_head": -4}, "config.out_of_range"),
        ({"d_head": 0}, "config.out_of_range"),
        ({"n_segments": -1}, "config.out_of_range"),
        ({"target_vocabulary_size": 0}, "config.out_of_range"),
        ({"norm_eps": -1.0}, "config.out_of_range"),
        ({"norm_eps": math.nan}, "config.out_of_range"),
        ({"attention_scale": math.inf}, "config.out_of_range"),
        ({"relative_attention_max_distance": 8}, "config.out_of_range"),
        ({"relative_attention_max_distance": 16}, "config.out_of_range"),
        ({"relative_attention_num_buckets": 2}, "config.out_of_range"),
        ({"relative_attention_max_distance": 0}, "config.out_of_range"),
        ({"relative_attention_max_distance": 2**40}, "config.out_of_range"),
    ],
)
def test_invalid_values_are_rejected(changes: dict[str, Any], code: str) -> None:
    with raises(InputError, code):
        TransformerConfig(**changes)


@pytest.mark.parametrize(("buckets", "distance"), [(4, 3), (5, 3), (32, 17)])
def test_minimal_relative_buckets_cover_every_distance(buckets: int, distance: int) -> None:
    model = EncoderDecoder(
        small(
            positions="relative",
            relative_attention_num_buckets=buckets,
            relative_attention_max_distance=distance,
        )
    )
    drawn = tokens(1, 12, size=VOCABULARY)
    assert model(drawn, drawn).isfinite().all()


def test_a_text_longer_than_max_length_is_rejected() -> None:
    model = TextClassifier(small(max_length=4), 2)
    assert model(tokens(1, 4, size=VOCABULARY)).shape == (1, 2)
    with pytest.raises(InputError) as error:
        model(tokens(1, 5, size=VOCABULARY))
    assert str(error.value) == (
        "a text must have at most 4 tokens, got 5; "
        "shorten it or train with a larger model.max_length"
    )


def test_a_full_cache_of_a_model_raises() -> None:
    model = LanguageModel(small())
    cache = model.decoder.make_cache(capacity=2)
    with pytest.raises(ValueError, match="capacity 2 must hold at most 2 positions, got 3"):
        model(tokens(1, 3, size=VOCABULARY), cache=cache)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
def test_decoding_beyond_max_length_raises(positions: str) -> None:
    model = LanguageModel(small(positions=positions)).eval()
    most = model.decoder.embedding.max_length
    cache = model.decoder.make_cache(capacity=most)
    model(tokens(1, most, size=VOCABULARY), cache=cache)
    with pytest.raises(InputError, match=f"at most {most} tokens, got {most + 1}"):
        model(tokens(1, 1, size=VOCABULARY), cache=cache)


def test_the_decoder_may_have_its_own_number_of_layers() -> None:
    model = EncoderDecoder(small(n_layers=3, n_decoder_layers=1))
    assert (len(model.encoder.stack.layers), len(model.decoder.stack.layers)) == (3, 1)
    assert len(model.decoder.make_cache(4).caches) == 1


def test_a_decoder_without_layers_is_rejected() -> None:
    with raises(InputError, "config.out_of_range"):
        TransformerConfig(n_decoder_layers=0)


def test_a_cache_longer_than_max_length_is_rejected() -> None:
    decoder = Decoder(TransformerConfig(vocabulary_size=9, d_model=8, n_heads=2, max_length=16))
    with raises(InputError, "model.cache_too_long"):
        decoder.make_cache(17)


def test_untied_output_has_its_own_weight() -> None:
    config = TransformerConfig(vocabulary_size=9, d_model=8, n_heads=2, tie_embeddings=False)
    model = EncoderDecoder(config)
    assert model.output.weight is not model.decoder.embedding.tokens.weight
