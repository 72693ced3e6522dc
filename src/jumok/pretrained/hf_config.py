"""The config.json of each family that a jumok model can be converted to."""

from collections.abc import Mapping
from typing import Any

from jumok.nn.config import Activation
from jumok.nn.rope import RopeConfig
from jumok.pretrained.adapt import SourceModel
from jumok.pretrained.bart import MAX_POSITIONS

Json = dict[str, Any]

ACTIVATION_NAMES: Mapping[Activation, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "silu": "silu",
}


def bert_config(source: SourceModel) -> Json:
    """BERT's and MegatronBERT's config.json."""
    config = source.config
    return {
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.d_ff,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": config.n_segments,
        "layer_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tying != "none",
    }


def gpt2_config(source: SourceModel) -> Json:
    """GPT-2's config.json."""
    config = source.config
    return {
        "vocab_size": config.vocabulary_size,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "n_positions": config.max_length,
        "activation_function": ACTIVATION_NAMES[config.activation],
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tying != "none",
    }


def llama_config(source: SourceModel) -> Json:
    """Llama's config.json."""
    config = source.config
    return {
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads or config.n_heads,
        "head_dim": config.d_head or config.d_model // config.n_heads,
        "intermediate_size": config.d_ff,
        "hidden_act": ACTIVATION_NAMES[config.activation],
        "max_position_embeddings": config.max_length,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope.base,
        "rope_scaling": rope_scaling(config.rope),
        "attention_dropout": config.attention_dropout,
        "tie_word_embeddings": config.tying != "none",
    }


def rope_scaling(rope: RopeConfig) -> Json | None:
    """The scaling of a rotation, if it has one."""
    if rope.scaling == "none":
        return None
    if rope.scaling == "linear":
        return {"rope_type": "linear", "factor": rope.factor}
    return {
        "rope_type": "llama3",
        "factor": rope.factor,
        "low_freq_factor": rope.low_frequency_factor,
        "high_freq_factor": rope.high_frequency_factor,
        "original_max_position_embeddings": rope.original_length,
    }


def mistral_config(source: SourceModel) -> Json:
    """Mistral's config.json: all layers have the window."""
    return llama_config(source) | {"sliding_window": source.config.sliding_window}


def exaone4_config(source: SourceModel) -> Json:
    """EXAONE 4's config.json, which names the layers with the window."""
    kinds = source.config.layer_kinds(source.config.n_layers)
    names = ["sliding_attention" if kind == "L" else "full_attention" for kind in kinds]
    return mistral_config(source) | {"layer_types": names}


def qwen3_config(source: SourceModel) -> Json:
    """Qwen3's config.json."""
    uses_window = source.config.sliding_window is not None
    return exaone4_config(source) | {"use_sliding_window": uses_window}


def bart_config(source: SourceModel) -> Json:
    """BART's, mBART's and Pegasus' config.json; longer models are converted to T5."""
    config = source.config
    return {
        "vocab_size": config.vocabulary_size,
        "d_model": config.d_model,
        "encoder_layers": config.n_layers,
        "decoder_layers": config.n_decoder_layers or config.n_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": min(config.max_length, MAX_POSITIONS),
        "activation_function": ACTIVATION_NAMES[config.activation],
        "scale_embedding": config.scale_embedding,
        "tie_word_embeddings": config.tying != "none",
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "is_encoder_decoder": True,
        "decoder_start_token_id": (source.ids or {}).get("bos", 0),
        "forced_eos_token_id": None,
    }


def marian_config(source: SourceModel) -> Json:
    """Marian's config.json."""
    config = source.config
    return bart_config(source) | {
        "share_encoder_decoder_embeddings": config.tying in ("all", "inputs"),
        "decoder_vocab_size": config.output_size,
    }


def t5_config(source: SourceModel) -> Json:
    """T5's config.json."""
    config = source.config
    name = ACTIVATION_NAMES[config.activation]
    if config.gated:
        name = "gated-gelu" if config.activation == "gelu_tanh" else f"gated-{name}"
    return {
        "vocab_size": config.vocabulary_size,
        "d_model": config.d_model,
        "d_kv": config.d_head or config.d_model // config.n_heads,
        "d_ff": config.d_ff,
        "num_layers": config.n_layers,
        "num_decoder_layers": config.n_decoder_layers or config.n_layers,
        "num_heads": config.n_heads,
        "relative_attention_num_buckets": config.relative_attention_num_buckets,
        "relative_attention_max_distance": config.relative_attention_max_distance,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.norm_eps,
        "feed_forward_proj": name,
        "tie_word_embeddings": config.scale_output,
        "is_encoder_decoder": True,
        "decoder_start_token_id": (source.ids or {}).get("bos", 0),
    }
