"""DecoderSession: a model from its config and arrays, against the same model from its modules."""

import numpy as np
import pytest
import torch
from torch import nn

from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel, TransformerConfig
from jumok.models.weights import named_weights
from jumok.native import NativeModel, layout
from jumok.native.decoder_session import DecoderSession, DecoderWeights
from jumok.native.torch_weights import as_array
from jumok.nn.positions import RelativePositionBias
from jumok.text.ragged import Ragged
from tests.combinations import singly
from tests.errors import raises
from tests.native.conftest import KINDS, POSITIONS, SIZE, config, randomize_vectors

pytestmark = pytest.mark.usefixtures("compiled")

SOURCES = Ragged.from_lists([[5, 6, 7], [8], [9] * 40])
MORE = {  # of language models alone
    "grouped heads": {"n_kv_heads": 1, "d_head": 16, "qk_norm": True, "norm": "rms"},
    "norms": {"sublayer_norm": True, "norm": "rms_offset"},
    "both norms": {"sublayer_norm": True, "norm_first": True},
    "local layers": {"layer_pattern": "LN", "sliding_window": 3, "positions": "rotary"},
    "biases": {"attention_bias": "qkv", "bias": False, "output_bias": True},
}


def packed(model: nn.Module, plan: TransformerConfig, kind: layout.GeneratorKind) -> DecoderWeights:
    """The kernel's weights from a config and the arrays that a file of the model has."""
    assert layout.unsupported_generator(plan, kind) is None
    arrays = {name: as_array(weight) for name, weight in named_weights(model).items()}
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == layout.generator_shapes(plan, kind)
    arrays |= {name: arrays[first] for name, first in layout.tied_names(plan, kind).items()}
    weights = DecoderWeights(layout.generator_dims(plan, kind), "float32")
    weights.add_model(plan, kind, arrays)
    return weights


def logits(weights: DecoderWeights) -> list[np.ndarray]:
    sources = SOURCES if weights.has_encoder else None
    session = DecoderSession(weights, sources, capacity=40)
    ids = np.random.default_rng(2).integers(0, SIZE["vocabulary_size"], (3, 12))
    return [session.step_all(ids), session.step(ids[:, :1])]


def check(kind: layout.GeneratorKind, plan: TransformerConfig) -> None:
    torch.manual_seed(1)
    built = EncoderDecoder(plan) if kind == "encoder_decoder" else LanguageModel(plan)
    model = randomize_vectors(built)
    mine, other = packed(model, plan, kind), NativeModel(model, "float32").weights
    for found, expected in zip(logits(mine), logits(other), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-6)  # of sines, which round otherwise


@pytest.mark.parametrize(("kind", "positions"), singly(KINDS, POSITIONS))
def test_encoder_decoders_from_config_and_arrays(kind: str, positions: str) -> None:
    check("encoder_decoder", config(kind, positions, n_segments=2))


@pytest.mark.parametrize("tying", ["all", "inputs", "target", "none"])
def test_tied_weights(tying: str) -> None:
    size = {"target_vocabulary_size": 33} if tying in ("target", "none") else {}
    plan = config("vaswani", tie_embeddings=tying, output_bias=True, **size)
    torch.manual_seed(1)
    model = randomize_vectors(EncoderDecoder(plan))
    mine = packed(model, plan, "encoder_decoder")
    other = NativeModel(model, "float32").weights
    assert mine.source_vocabulary_size == other.source_vocabulary_size == 77
    prompts = np.full((3, 4), 2)
    found, expected = (
        DecoderSession(weights, SOURCES, capacity=9).step(prompts) for weights in (mine, other)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("kind", "positions"), singly(KINDS, POSITIONS))
def test_language_models_from_config_and_arrays(kind: str, positions: str) -> None:
    plan = config(kind, positions, position_offset=1 if positions == "learned" else 0)
    check("decoder", plan)


@pytest.mark.parametrize("more", MORE)
def test_layers_of_language_models(more: str) -> None:
    check("decoder", config("vaswani", **MORE[more]))


def test_what_the_kernel_does_not_compute_is_named() -> None:
    for kind, more, what in (
        ("decoder", {"output_softcap": 30.0}, "a softcap"),
        ("encoder_decoder", {"scale_output": True}, "scaling before the output"),
        ("encoder_decoder", {"n_kv_heads": 1}, "grouped key/value heads"),
    ):
        reason = layout.unsupported_generator(config(**more), kind)  # type: ignore[arg-type]
        assert what in str(reason)


def test_the_bias_of_a_decoder_is_that_of_the_module() -> None:
    for buckets, distance in ((32, 128), (8, 20)):
        bias = RelativePositionBias(
            3, bidirectional=False, n_buckets=buckets, max_distance=distance
        )
        weight = bias.bias.weight.detach().numpy()
        found = layout.relative_table(500, weight, distance, bidirectional=False)
        expected = bias.bias(bias.bucket(torch.arange(-499, 500))).T.detach().numpy()
        np.testing.assert_array_equal(found, expected)


def test_sources_are_checked() -> None:
    plan = config()
    weights = packed(randomize_vectors(EncoderDecoder(plan)), plan, "encoder_decoder")
    with raises(InputError, "kernel.source_too_long"):
        DecoderSession(weights, Ragged.from_lists([[5] * 41]), capacity=4)
    with raises(InputError, "kernel.token_id_range"):
        DecoderSession(weights, Ragged.from_lists([[77]]), capacity=4)
    with raises(InputError, "kernel.source_of_decoder"):
        DecoderSession(weights, capacity=4)
