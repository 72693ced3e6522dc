"""The architectures of GGUF files that jumok reads and writes: names and layout of their tensors.

Names and layout are those of llama.cpp's own converter (conversion/*.py; the tensors of the `gguf`
package). Queries and keys of `llama` are stored in pairs for an interleaved rotation, and the norms
of `gemma3` as 1 + w.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jumok.models.config import TransformerConfig

ROPE_TABLE = "rope_freqs.weight"  # the divisors of Llama 3's rotation, of the whole model
LOCAL_BASE = 10_000.0  # of the rotation of gemma3's local layers, where a file has no other
LAYERS_27B = 62  # of Gemma 3 27B, the only size with another attention scale
LAYERS_32B = 64  # of EXAONE 4.0 32B: llama.cpp has windows in exaone4 with 64 layers, and only then

GPT2_NAMES = {
    "token_embd": "wte",
    "position_embd": "wpe",
    "output_norm": "ln_f",
    "output": "lm_head",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
EXAONE_NAMES = {
    "token_embd": "wte",
    "output_norm": "ln_f",
    "output": "lm_head",
    "attn_norm": "ln_1",
    **{f"attn_{letter}": f"attn.attention.{letter}_proj" for letter in "qkv"},
    "attn_output": "attn.attention.out_proj",
    "ffn_norm": "ln_2",
    "ffn_gate": "mlp.c_fc_0",
    "ffn_up": "mlp.c_fc_1",
    "ffn_down": "mlp.c_proj",
}
_COMMON_NAMES = {
    "token_embd": "embed_tokens",
    "output_norm": "norm",
    "output": "lm_head",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_output": "self_attn.o_proj",
    **{f"attn_{letter}": f"self_attn.{letter}_proj" for letter in "qkv"},
    **{f"attn_{letter}_norm": f"self_attn.{letter}_norm" for letter in "qk"},
}
LLAMA_NAMES = _COMMON_NAMES | {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
EXAONE4_NAMES = _COMMON_NAMES | {
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
GEMMA3_NAMES = EXAONE4_NAMES | {
    "attn_norm": "input_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
}


@dataclass(frozen=True)
class GGUFArchitecture:
    """One `general.architecture`: its class in transformers and the names of its tensors.

    `names` maps the part of a tensor's name in GGUF to that in transformers. The prefix of a layer
    is `blk.N.` in GGUF and `{body}.{layers}.N.` in transformers.
    """

    name: str
    model_type: str
    class_name: str
    names: Mapping[str, str]
    body: str = "model"
    layers: str = "layers"
    has_pairs: bool = False  # rows of queries and keys in pairs
    has_transposed_maps: bool = False  # Conv1D of transformers
    has_rope_table: bool = False
    has_offset_norms: bool = False  # stored as 1 + w


ARCHITECTURES: Mapping[str, GGUFArchitecture] = {
    each.name: each
    for each in (
        GGUFArchitecture(
            "gpt2",
            "gpt2",
            "GPT2LMHeadModel",
            GPT2_NAMES,
            body="transformer",
            layers="h",
            has_transposed_maps=True,
        ),
        GGUFArchitecture(
            "llama",
            "llama",
            "LlamaForCausalLM",
            LLAMA_NAMES,
            has_pairs=True,
            has_rope_table=True,
        ),
        GGUFArchitecture("qwen2", "qwen2", "Qwen2ForCausalLM", LLAMA_NAMES),
        GGUFArchitecture("qwen3", "qwen3", "Qwen3ForCausalLM", LLAMA_NAMES),
        GGUFArchitecture(
            "gemma3",
            "gemma3_text",
            "Gemma3ForCausalLM",
            GEMMA3_NAMES,
            has_offset_norms=True,
        ),
        GGUFArchitecture(
            "exaone",
            "exaone",
            "ExaoneForCausalLM",
            EXAONE_NAMES,
            body="transformer",
            layers="h",
            has_rope_table=True,
        ),
        GGUFArchitecture(
            "exaone4",
            "exaone4",
            "Exaone4ForCausalLM",
            EXAONE4_NAMES,
            has_rope_table=True,
        ),
    )
}
BY_MODEL_TYPE: Mapping[str, GGUFArchitecture] = {
    **{each.model_type: each for each in ARCHITECTURES.values()},
    "mistral": ARCHITECTURES["llama"],
}


def head_width(model: TransformerConfig) -> int:
    """The width of a head."""
    return model.d_head or model.d_model // model.n_heads


def gemma3_scale_width(n_layers: int, d_model: int, n_heads: int, d_head: int) -> int:
    """The n of the attention scale 1/sqrt(n) that llama.cpp has for gemma3.

    >>> gemma3_scale_width(26, 1152, 4, 256), gemma3_scale_width(62, 5376, 32, 128)
    (256, 168)
    """
    return d_model // max(n_heads, 1) if n_layers == LAYERS_27B else d_head


def window_period(kinds: str) -> int | None:
    """The p of layers of which each p-th alone has no window; None for others.

    `kinds` has the letter of `LayerConfig.layer_kinds` for each layer, L with a window.

    >>> window_period("LLGLLG"), window_period("LLGL"), window_period("LL"), window_period("LGG")
    (3, 3, 3, None)
    """
    for period in range(2, len(kinds) + 2):
        if all((kind == "L") == ((i + 1) % period > 0) for i, kind in enumerate(kinds)):
            return period
    return None
