"""Which models llama.cpp computes as jumok does: the others have no GGUF file.

From llama.cpp's own graphs (src/models/*.cpp) and what they read of a file.
"""

import math
from collections.abc import Mapping
from typing import Any

from jumok.errors import Message
from jumok.formats.gguf_architectures import (
    BY_MODEL_TYPE,
    LAYERS_32B,
    gemma3_scale_width,
    head_width,
    window_period,
)
from jumok.formats.gguf_rope import HIGH, LOW
from jumok.models.config import TransformerConfig
from jumok.pretrained.architecture import FAMILIES
from jumok.pretrained.config_reader import ConfigReader


def unsupported_in_gguf(config: Mapping[str, Any]) -> Message | None:
    """Why a config.json has no GGUF file that jumok writes; None if it has.

    >>> print(unsupported_in_gguf({"model_type": "bert"}))
    GGUF is written for gpt2, llama, qwen2, qwen3, gemma3_text, exaone, exaone4, mistral, got 'bert'
    """
    family = config.get("model_type")
    if family not in BY_MODEL_TYPE:
        return Message(
            "export.gguf_family",
            "GGUF is written for {families}, got {family!r}",
            families=", ".join(BY_MODEL_TYPE),
            family=family,
        )
    assert isinstance(family, str)
    model = FAMILIES.get(family).read_config(ConfigReader(config))
    activation = "gelu_tanh" if family in ("gpt2", "gemma3_text") else "silu"
    if model.activation != activation:
        return Message(
            "export.gguf_activation",
            "llama.cpp computes {family} with {activation}, got {found}",
            family=family,
            activation=activation,
            found=model.activation,
        )
    if family == "gpt2":
        if model.attention_scale is None:
            return None
        return Message("export.gguf_scale", "llama.cpp scales the attention of gpt2")
    if model.bias or model.attention_bias == "all":
        return Message("export.gguf_biases", "llama.cpp has no biases in {family}", family=family)
    return _windows(family, model) or _rotation(family, model) or _shape(family, model)


def _windows(family: str, model: TransformerConfig) -> Message | None:
    if family == "exaone4" and (model.n_layers == LAYERS_32B) != (model.sliding_window is not None):
        return Message(
            "export.gguf_windows_by_layers",
            "llama.cpp has windows in exaone4 with {n_layers} layers, and only then",
            n_layers=LAYERS_32B,
        )
    if model.sliding_window is None:
        return None
    if family not in ("gemma3_text", "exaone4"):
        return Message(
            "export.gguf_no_windows",
            "llama.cpp has no attention windows in {family}",
            family=family,
        )
    if window_period(model.layer_kinds(model.n_layers)) is None:
        return Message(
            "export.gguf_other_windows",
            "llama.cpp has windows in {family} in all layers but each n-th",
            family=family,
        )
    return None


def _rotation(family: str, model: TransformerConfig) -> Message | None:
    for rope in filter(None, (model.rope, model.local_rope)):
        limits = rope.low_frequency_factor, rope.high_frequency_factor
        has_table = BY_MODEL_TYPE[family].has_rope_table
        if rope.scaling == "llama3" and (not has_table or limits != (LOW, HIGH)):
            return Message(
                "export.gguf_scaled_rotation",
                "rotary positions scaled as in Llama 3 are written for llama, exaone and exaone4 "
                "with limits {low:g} and {high:g}",
                low=LOW,
                high=HIGH,
            )
    if model.local_rope is not None and model.local_rope.scaling != "none":
        return Message(
            "export.gguf_local_rotation",
            "llama.cpp does not scale the rotation of the local layers of {family}",
            family=family,
        )
    return None


def _shape(family: str, model: TransformerConfig) -> Message | None:
    d_head = head_width(model)
    if family == "exaone4" and d_head * model.n_heads != model.d_model:
        return Message(
            "export.gguf_heads", "llama.cpp has heads in exaone4 that fill the width of the model"
        )
    if family == "gemma3_text":
        width = gemma3_scale_width(model.n_layers, model.d_model, model.n_heads, d_head)
        assert model.attention_scale is not None
        if not math.isclose(model.attention_scale, width**-0.5):
            return Message(
                "export.gguf_query_scale",
                "llama.cpp computes this gemma3_text with query_pre_attn_scalar {width}",
                width=width,
            )
    return None
