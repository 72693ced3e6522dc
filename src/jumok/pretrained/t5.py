"""T5 (Raffel et al. 2020), v1.0 and v1.1, and mT5, for example pko-t5 and ke-t5.

Pre-norm layers with RMSNorm, no biases, unscaled scores, relative positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jumok.errors import ModelFileError
from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import NameRule, rule, with_prefix

UNLIMITED_LENGTH = 2**17  # relative positions have no maximum length

SELF_ATTENTION = (
    rule("SelfAttention.q", "self_attention.query"),
    rule("SelfAttention.k", "self_attention.key"),
    rule("SelfAttention.v", "self_attention.value"),
    rule("SelfAttention.o", "self_attention.output"),
    rule("layer_norm", "self_attention_norm.norm"),
)
CROSS_ATTENTION = (
    rule("EncDecAttention.q", "cross_attention.query"),
    rule("EncDecAttention.k", "cross_attention.key"),
    rule("EncDecAttention.v", "cross_attention.value"),
    rule("EncDecAttention.o", "cross_attention.output"),
    rule("layer_norm", "cross_attention_norm.norm"),
)
FEED_FORWARD = (rule("DenseReluDense.wi", "feed_forward.up"),)
GATED_FEED_FORWARD = (
    rule("DenseReluDense.wi_0", "feed_forward.up"),
    rule("DenseReluDense.wi_1", "feed_forward.gate"),
)
FEED_FORWARD_OUTPUT = (
    rule("DenseReluDense.wo", "feed_forward.down"),
    rule("layer_norm", "feed_forward_norm.norm"),
)


def _stack(name: str, sublayers: tuple[tuple[NameRule, ...], ...]) -> tuple[NameRule, ...]:
    layers = [
        layer_rule
        for index, sublayer in enumerate(sublayers)
        for layer_rule in with_prefix(
            f"{name}.block.{{}}.layer.{index}", f"{name}.stack.layers.{{}}", sublayer
        )
    ]
    relative = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias"
    return (
        *layers,
        rule(relative, f"{name}.stack.relative.bias"),
        rule(f"{name}.final_layer_norm", f"{name}.stack.norm"),
    )


def _backbone(config: TransformerConfig) -> tuple[NameRule, ...]:
    feed_forward = (*(GATED_FEED_FORWARD if config.gated else FEED_FORWARD), *FEED_FORWARD_OUTPUT)
    return (
        rule("shared", "encoder.embedding.tokens"),
        *_stack("encoder", (SELF_ATTENTION, feed_forward)),
        *_stack("decoder", (SELF_ATTENTION, CROSS_ATTENTION, feed_forward)),
    )


@dataclass(frozen=True)
class _Defaults:
    """The defaults of missing keys."""

    vocabulary_size: int
    d_ff: int
    n_layers: int
    n_heads: int
    feed_forward: str


def _config(reader: ConfigReader, defaults: _Defaults, *, may_scale: bool) -> TransformerConfig:
    reader.check_supported("is_decoder", False)
    tied = reader.boolean("tie_word_embeddings", True)
    feed_forward = reader.string("feed_forward_proj", defaults.feed_forward)
    kind, _, activation = feed_forward.rpartition("-")
    if kind not in ("", "gated"):
        raise ModelFileError(
            "pretrained.unknown_feed_forward_proj",
            "config.json: feed_forward_proj must be an activation such as relu, or gated-gelu, "
            "got {feed_forward!r}",
            feed_forward=feed_forward,
        )
    name = "gelu_new" if feed_forward == "gated-gelu" else activation
    layers = reader.layer_count("num_layers", defaults.n_layers)
    rate = reader.probability("dropout_rate", 0.1)
    return TransformerConfig(
        vocabulary_size=reader.positive_int("vocab_size", defaults.vocabulary_size),
        d_model=reader.positive_int("d_model", 512),
        n_layers=layers,
        n_decoder_layers=reader.layer_count("num_decoder_layers", layers),
        n_heads=reader.positive_int("num_heads", defaults.n_heads),
        d_head=reader.positive_int("d_kv", 64),
        d_ff=reader.positive_int("d_ff", defaults.d_ff),
        activation=ConfigReader({"feed_forward_proj": name}).activation("feed_forward_proj", name),
        gated=kind == "gated",
        bias=False,
        norm="rms",
        norm_first=True,
        norm_eps=reader.epsilon("layer_norm_epsilon", 1e-6),
        attention_scale=1.0,
        relative_attention_num_buckets=reader.positive_int("relative_attention_num_buckets", 32),
        relative_attention_max_distance=reader.positive_int("relative_attention_max_distance", 128),
        positions="relative",
        max_length=UNLIMITED_LENGTH,
        scale_embedding=False,
        # The output map is the token embedding unless another weight is stored. Hidden states are
        # scaled before it unless the config says that it is untied (v1.1).
        tie_embeddings=True,
        scale_output=may_scale and reader.boolean("scale_decoder_outputs", tied),
        dropout=rate,
        attention_dropout=rate,
        activation_dropout=rate,
    )


def _heads(name: str, reader: ConfigReader) -> Mapping[str, Head]:
    inputs = {f"{side}.embed_tokens.weight": "shared.weight" for side in ("encoder", "decoder")}
    unused = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    return {
        f"{name}ForConditionalGeneration": Head(
            "encoder_decoder",
            (rule("lm_head", "output"),),
            unused=(unused,),  # stored by the first T5, never used
            aliases=inputs | {"lm_head.weight": "shared.weight"},
        ),
        f"{name}Model": Head("encoder_decoder", unused=(unused,), aliases=inputs, has_task=False),
        f"{name}EncoderModel": Head(
            "encoder", aliases={"encoder.embed_tokens.weight": "shared.weight"}, has_task=False
        ),
    }


def _family(model_type: str, name: str, defaults: _Defaults, *, may_scale: bool) -> Family:
    return Family(
        model_type=model_type,
        prefix="",
        read_config=lambda reader: _config(reader, defaults, may_scale=may_scale),
        backbone=_backbone,
        heads=lambda reader: _heads(name, reader),
        derived_buffers={},
    )


T5 = _family("t5", "T5", _Defaults(32_128, 2_048, 6, 8, "relu"), may_scale=True)
MT5 = _family("mt5", "MT5", _Defaults(250_112, 1_024, 8, 6, "gated-gelu"), may_scale=False)
