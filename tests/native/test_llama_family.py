"""The kernel decodes the layers of the Llama family as PyTorch does."""

from typing import Any

import pytest
import torch

from jumok.decoding.incremental.decoder import CausalLMDecoder
from jumok.models import LanguageModel, TransformerConfig
from jumok.native import DecoderPrecision, KernelError, NativeDecoder, NativeModel
from jumok.nn import RopeConfig
from tests.combinations import pairwise, singly
from tests.native.conftest import randomize_vectors
from tests.native.test_decoder import (
    TOLERANCE,
    check_same_steps,
    difference,
    tokens,
    with_weights_of,
)

pytestmark = pytest.mark.usefixtures("compiled")

LLAMA: dict[str, Any] = {
    "vocabulary_size": 77,
    "d_model": 24,
    "n_heads": 4,
    "n_kv_heads": 2,
    "d_ff": 50,
    "n_layers": 3,
    "norm": "rms",
    "norm_first": True,
    "gated": True,
    "activation": "silu",
    "bias": False,
    "positions": "rotary",
    "max_length": 40,
    "scale_embedding": False,
}
LLAMA3 = RopeConfig(scaling="llama3", factor=4.0, original_length=8)
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"rope": LLAMA3},
    "mistral": {"layer_pattern": "L", "sliding_window": 3},
    "qwen2": {"attention_bias": "qkv", "n_kv_heads": 1},
    "qwen3": {"qk_norm": True, "layer_pattern": "LG", "sliding_window": 2, "d_head": 20},
    "gemma3": {
        "norm": "rms_offset",
        "sublayer_norm": True,
        "qk_norm": True,
        "scale_embedding": True,
        "activation": "gelu_tanh",
        "layer_pattern": "LG",
        "sliding_window": 3,
        "rope": RopeConfig(base=1e6, scaling="linear", factor=8.0),
        "local_rope": RopeConfig(base=100.0),
    },
    "exaone4": {
        "norm_first": False,
        "sublayer_norm": True,
        "qk_norm": True,
        "layer_pattern": "LN",
        "sliding_window": 4,
        "rope": LLAMA3,
    },
}


def model(family: str, **settings: Any) -> LanguageModel:
    torch.manual_seed(1)
    return randomize_vectors(
        LanguageModel(TransformerConfig(**LLAMA | FAMILIES[family] | settings))
    )


@pytest.mark.parametrize(
    ("family", "precision"), pairwise(FAMILIES, ["float32"]) + singly(FAMILIES, list(TOLERANCE)[1:])
)
@torch.no_grad()
def test_same_logits_at_every_position(family: str, precision: DecoderPrecision) -> None:
    """A prompt of 9 tokens, then one at a time: beyond every window and the original length."""
    reference, ids = model(family), tokens(3, 20)
    native = NativeDecoder(NativeModel(reference, precision), capacity=40)
    parts = [native.step_all(ids[:, :9])]
    parts += [native.step_all(ids[:, i : i + 1]) for i in range(9, 20)]
    expected = with_weights_of(reference, precision)(ids)
    assert difference(torch.cat(parts, 1), expected) < TOLERANCE[precision]


@pytest.mark.parametrize("family", FAMILIES)
def test_reordered_and_rewound_rows_with_padding(family: str) -> None:
    reference, padding = model(family), torch.tensor([0, 3, 1])
    first = tokens(3, 6)
    check_same_steps(
        NativeDecoder(NativeModel(reference, "float32"), padding=padding, capacity=20),
        CausalLMDecoder(reference, padding, capacity=20),
        first,
        TOLERANCE["float32"],
    )


def test_softcaps_stay_in_pytorch() -> None:
    for settings in ({"attention_softcap": 5.0}, {"output_softcap": 5.0}):
        with pytest.raises(KernelError, match="does not support softcaps"):
            NativeModel(model("llama", **settings))
