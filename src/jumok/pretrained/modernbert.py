"""ModernBERT (Warner et al. 2024): A.X-Encoder, mmBERT, Ettin and other encoders for long texts.

Pre-norm layers with rotary positions and gated feed-forward layers, without biases. Every third
layer is global; the others attend within a window and have a rotation of their own.
"""

from collections.abc import Mapping

from jumok.models.config import TransformerConfig
from jumok.pretrained.adapt import SourceModel
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import Family, Head
from jumok.pretrained.hf_config import ACTIVATION_NAMES, Json, rope_scaling
from jumok.pretrained.llama import read_layers, read_rope
from jumok.pretrained.name_map import ROWS, NameRule, rule, with_prefix

_ATTENTION = tuple(f"self_attention.{name}" for name in ("query", "key", "value"))
_LAYER = (
    rule("attn_norm", "self_attention_norm.norm"),  # the first layer has none
    rule("attn.Wqkv", *_ATTENTION, transform=ROWS),
    rule("attn.Wo", "self_attention.output"),
    rule("mlp_norm", "feed_forward_norm.norm"),
    rule("mlp.Wi", "feed_forward.up", "feed_forward.gate", transform=ROWS),
    rule("mlp.Wo", "feed_forward.down"),
)
_TOKENS = "model.embeddings.tok_embeddings"
_BACKBONE = (
    rule(_TOKENS, "encoder.embedding.tokens"),
    rule("model.embeddings.norm", "encoder.embedding.norm"),
    *with_prefix("model.layers.{}", "encoder.stack.layers.{}", _LAYER),
    rule("model.final_norm", "encoder.stack.norm"),
)


def _transform(module: str) -> tuple[NameRule, ...]:
    return rule("head.dense", f"{module}.0"), rule("head.norm", f"{module}.2")


# How transformers computes the same outputs, and how the first files were trained.
_WITHOUT_EFFECT = (
    *("reference_compile", "repad_logits_with_grad", "deterministic_flash_attn"),
    *("sparse_prediction", "sparse_pred_ignore_index", "position_embedding_type"),
    *("layer_norm_eps", "embedding_dropout", "mlp_dropout", "attention_dropout"),
)


def _config(reader: ConfigReader) -> TransformerConfig:
    reader.check_supported("decoder_bias", True)
    reader.without_effect(*_WITHOUT_EFFECT)
    length = reader.positive_int("max_position_embeddings", 8192)
    n_layers = reader.layer_count("num_hidden_layers", 22)
    every = reader.positive_int("global_attn_every_n_layers", 3)
    pattern = "".join("L" if index % every else "G" for index in range(n_layers))
    window = 1 + reader.non_negative_int("local_attention", 128) // 2  # of both sides together
    layers = read_layers(reader, pattern, window)
    base = reader.positive_number("global_rope_theta", 160_000.0)
    local_base = reader.positive_number("local_rope_theta", 10_000.0)
    rope = read_rope(reader, base, length, "full_attention")
    local = read_rope(reader, local_base, length, "sliding_attention")
    return TransformerConfig(
        vocabulary_size=reader.positive_int("vocab_size", 50_368),
        d_model=reader.positive_int("hidden_size", 768),
        n_layers=n_layers,
        n_heads=reader.positive_int("num_attention_heads", 12),
        d_ff=reader.positive_int("intermediate_size", 1_152),
        activation=reader.activation("hidden_activation", "gelu"),
        gated=True,
        bias=reader.boolean("mlp_bias", False),
        attention_bias="all" if reader.boolean("attention_bias", False) else "none",
        norm="layer" if reader.boolean("norm_bias", False) else "layer_without_bias",
        norm_first=True,
        first_norm=False,
        norm_eps=reader.epsilon("norm_eps", 1e-5),
        positions="rotary",
        rope=rope,
        local_rope=None if layers["sliding_window"] is None else local,
        max_length=length,
        scale_embedding=False,
        embedding_norm=True,
        tie_embeddings=reader.boolean("tie_word_embeddings", True),
        dropout=reader.probability("embedding_dropout", 0.0),
        attention_dropout=reader.probability("attention_dropout", 0.0),
        activation_dropout=reader.probability("mlp_dropout", 0.0),
        head_activation=reader.activation("classifier_activation", "gelu"),
        head_bias=reader.boolean("classifier_bias", False),
        head_transform=True,
        **layers,
    )


def _heads(reader: ConfigReader) -> Mapping[str, Head]:
    reader.check_supported("classifier_pooling", "cls", "mean")
    pooling = reader.string("classifier_pooling", "cls")
    aliases = {"decoder.weight": f"{_TOKENS}.weight"}
    tied = reader.boolean("tie_word_embeddings", True)
    classifier = rule("classifier", "output")
    return {
        "ModernBertForSequenceClassification": Head(
            "text_classifier",
            (*_transform("pooler"), classifier),
            pooling="mean" if pooling == "mean" else "first",
        ),
        "ModernBertForTokenClassification": Head(
            "token_classifier", (*_transform("transform"), classifier)
        ),
        "ModernBertForMaskedLM": Head(
            "masked_language_model",
            (*_transform("transform"), rule("decoder", "output")),
            aliases=aliases if tied else {},
        ),
        "ModernBertModel": Head("encoder", has_task=False),
    }


def modernbert_config(source: SourceModel) -> Json:
    """ModernBERT's config.json."""
    config = source.config
    kinds = config.layer_kinds(config.n_layers)
    names = ["sliding_attention" if kind == "L" else "full_attention" for kind in kinds]
    ropes = {"full_attention": config.rope, "sliding_attention": config.local_rope or config.rope}
    return {
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.d_ff,
        "hidden_activation": ACTIVATION_NAMES[config.activation],
        "max_position_embeddings": config.max_length,
        "norm_eps": config.norm_eps,
        "norm_bias": config.norm == "layer",
        "attention_bias": config.attention_output_bias,
        "mlp_bias": config.bias,
        "attention_dropout": config.attention_dropout,
        "embedding_dropout": config.dropout,
        "mlp_dropout": config.activation_dropout,
        "layer_types": names,
        "local_attention": 2 * ((config.sliding_window or 1) - 1),
        "rope_parameters": {
            name: {"rope_type": "default"} | (rope_scaling(rope) or {}) | {"rope_theta": rope.base}
            for name, rope in ropes.items()
        },
        "decoder_bias": True,
        "classifier_pooling": "mean" if source.pooling == "mean" else "cls",
        "classifier_bias": config.head_bias,
        "classifier_activation": ACTIVATION_NAMES[config.head_activation],
        "tie_word_embeddings": config.tying != "none",
        # of transformers' vocabulary by default, which the model's own may not reach
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
    }


MODERNBERT = Family(
    model_type="modernbert",
    prefix="model.",
    read_config=_config,
    backbone=lambda config: _BACKBONE,
    heads=_heads,
    derived_buffers={},
)
