"""Which models llama.cpp computes as jumok does: the others have no GGUF file.

From llama.cpp's own graphs (src/models/*.cpp) and what they read of a file.
"""

import math
from collections.abc import Mapping
from typing import Any

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


def unsupported_in_gguf(config: Mapping[str, Any]) -> str | None:
    """Why a config.json has no GGUF file that jumok writes; None if it has.

    >>> print(unsupported_in_gguf({"model_type": "bert"}))
    GGUF is written for gpt2, llama, qwen2, qwen3, gemma3_text, exaone, exaone4, mistral, got 'bert'
    """
    family = config.get("model_type")
    if family not in BY_MODEL_TYPE:
        return f"GGUF is written for {', '.join(BY_MODEL_TYPE)}, got {family!r}"
    assert isinstance(family, str)
    model = FAMILIES[family].read_config(ConfigReader(config))
    activation = "gelu_tanh" if family in ("gpt2", "gemma3_text") else "silu"
    if model.activation != activation:
        return f"llama.cpp computes {family} with {activation}, got {model.activation}"
    if family == "gpt2":
        scaled = model.attention_scale is None
        return None if scaled else "llama.cpp scales the attention of gpt2"
    if model.bias or model.attention_bias == "all":
        return f"llama.cpp has no biases in {family}"
    return _windows(family, model) or _rotation(family, model) or _shape(family, model)


def _windows(family: str, model: TransformerConfig) -> str | None:
    if family == "exaone4" and (model.n_layers == LAYERS_32B) != (model.sliding_window is not None):
        return f"llama.cpp has windows in exaone4 with {LAYERS_32B} layers, and only then"
    if model.sliding_window is None:
        return None
    if family not in ("gemma3_text", "exaone4"):
        return f"llama.cpp has no attention windows in {family}"
    if window_period(model.layer_kinds(model.n_layers)) is None:
        return f"llama.cpp has windows in {family} in all layers but each n-th"
    return None


def _rotation(family: str, model: TransformerConfig) -> str | None:
    for rope in filter(None, (model.rope, model.local_rope)):
        limits = rope.low_frequency_factor, rope.high_frequency_factor
        has_table = BY_MODEL_TYPE[family].has_rope_table
        if rope.scaling == "llama3" and (not has_table or limits != (LOW, HIGH)):
            return (
                "rotary positions scaled as in Llama 3 are written for llama, exaone and exaone4 "
                f"with limits {LOW:g} and {HIGH:g}"
            )
    if model.local_rope is not None and model.local_rope.scaling != "none":
        return f"llama.cpp does not scale the rotation of the local layers of {family}"
    return None


def _shape(family: str, model: TransformerConfig) -> str | None:
    d_head = head_width(model)
    if family == "exaone4" and d_head * model.n_heads != model.d_model:
        return "llama.cpp has heads in exaone4 that fill the width of the model"
    if family == "gemma3_text":
        width = gemma3_scale_width(model.n_layers, model.d_model, model.n_heads, d_head)
        assert model.attention_scale is not None
        if not math.isclose(model.attention_scale, width**-0.5):
            return f"llama.cpp computes this gemma3_text with query_pre_attn_scalar {width}"
    return None
