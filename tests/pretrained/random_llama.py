"""Random configurations of the families of Llama, drawn from a seed.

Heads, key/value heads, widths, biases, tied tables, activations, windows for some layers or all,
rotations with and without scaling. Texts are longer than the windows and than the original length
of a scaled rotation.
"""

import random
from typing import Any

from tests.pretrained.hf_variants import (
    EXAONE_CONFIG,
    EXAONE_NAMES,
    HAS_EXAONE,
    Variant,
    set_config,
)

FAMILIES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig"),
    "mistral": ("MistralForCausalLM", "MistralConfig"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config"),
    "gemma3_text": ("Gemma3ForCausalLM", "Gemma3TextConfig"),
    "exaone4": ("Exaone4ForCausalLM", "Exaone4Config"),
    "exaone": ("LlamaForCausalLM", "LlamaConfig"),  # even seeds: files of the published code
}


def random_llama(family: str, seed: int) -> Variant:
    """The configuration of this family and seed."""
    draw = random.Random(f"{family} {seed}")
    heads = draw.choice([1, 2, 3, 4, 6])
    width = 2 * heads * draw.randint(2, 6)
    values: dict[str, Any] = {
        "vocab_size": draw.randint(51, 90),
        "hidden_size": width,
        "intermediate_size": draw.randint(5, 60),
        "num_hidden_layers": draw.randint(1, 4),
        "num_attention_heads": heads,
        "num_key_value_heads": draw.choice([n for n in range(1, heads + 1) if heads % n == 0]),
        "max_position_embeddings": draw.randint(18, 40),
        "rms_norm_eps": draw.choice([1e-6, 1e-5, 1e-3]),
        "tie_word_embeddings": draw.random() < 0.5,
        "pad_token_id": 0,
        "rope_parameters": _rope(draw),
    }
    if draw.random() < 0.5 or family in ("qwen3", "gemma3_text"):
        values["head_dim"] = 2 * draw.randint(1, 8)
    values |= _OWN.get(family, lambda *_: {})(draw, values["num_hidden_layers"])
    architecture, config = FAMILIES[family]
    name = f"{family}-random-{seed}"
    if family != "exaone":
        return Variant(name, architecture, config, values)
    if HAS_EXAONE and seed % 2:  # files of transformers
        values |= {"attention_bias": draw.random() < 0.3, "mlp_bias": draw.random() < 0.3}
        values |= {"bos_token_id": 1, "eos_token_id": 2}
        return Variant(name, architecture, "ExaoneConfig", values, (), (), EXAONE_NAMES)
    changes = (
        *EXAONE_CONFIG,
        set_config(
            num_layers=values["num_hidden_layers"], layer_norm_epsilon=values["rms_norm_eps"]
        ),
    )
    return Variant(name, architecture, config, values, (), changes, EXAONE_NAMES)


def _rope(draw: random.Random) -> dict[str, Any]:
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": draw.choice([50.0, 1e4, 1e6])}
    kind = draw.choice(["default", "linear", "llama3"])
    if kind == "default":
        return rope
    rope |= {"rope_type": kind, "factor": draw.choice([1.0, 2.5, 8.0])}
    if kind == "llama3":
        rope |= {
            "low_freq_factor": 1.0,
            "high_freq_factor": draw.choice([1.5, 4.0]),
            "original_max_position_embeddings": draw.randint(4, 16),
        }
    return rope


def _layer_types(draw: random.Random, layers: int) -> list[str]:
    return [draw.choice(["sliding_attention", "full_attention"]) for _ in range(layers)]


def _llama(draw: random.Random, layers: int) -> dict[str, Any]:
    return {
        "attention_bias": draw.random() < 0.3,
        "mlp_bias": draw.random() < 0.3,
        "hidden_act": draw.choice(["silu", "gelu", "relu"]),
    }


def _mistral(draw: random.Random, layers: int) -> dict[str, Any]:
    return {"sliding_window": draw.choice([None, 1, 2, 3, 5, 8, 30])}


def _qwen2(draw: random.Random, layers: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "use_sliding_window": draw.random() < 0.7,
        "sliding_window": draw.choice([1, 2, 3, 5, 8]),
    }
    if draw.random() < 0.5 or not found["use_sliding_window"]:
        return found | {"max_window_layers": draw.randint(0, layers)}
    return found | {"layer_types": _layer_types(draw, layers)}


def _qwen3(draw: random.Random, layers: int) -> dict[str, Any]:
    return _qwen2(draw, layers) | {"attention_bias": draw.random() < 0.3}


def _gemma3(draw: random.Random, layers: int) -> dict[str, Any]:
    return {
        "query_pre_attn_scalar": draw.choice([4, 9, 16]),
        "sliding_window": draw.choice([1, 2, 3, 5, 8]),
        "layer_types": _layer_types(draw, layers),
        "attention_bias": draw.random() < 0.3,
        "final_logit_softcapping": draw.choice([None, 3.0, 30.0]),
        "rope_parameters": {
            "full_attention": _rope(draw),
            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
        },
    }


def _exaone4(draw: random.Random, layers: int) -> dict[str, Any]:
    if draw.random() < 0.3:
        return {"sliding_window": None, "layer_types": ["full_attention"] * layers}
    found: dict[str, Any] = {"sliding_window": draw.choice([1, 2, 3, 5, 8])}
    if draw.random() < 0.5:
        return found | {"sliding_window_pattern": draw.choice([2, 3, 4])}
    return found | {"layer_types": _layer_types(draw, layers)}


_OWN = {
    "llama": _llama,
    "mistral": _mistral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3_text": _gemma3,
    "exaone4": _exaone4,
}
