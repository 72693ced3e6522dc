"""BART (Lewis et al. 2020), for example KoBART, and mBART, whose layers are pre-norm."""

from collections.abc import Mapping
from dataclasses import replace

from jumok.errors import ModelFileError
from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import ROW_VECTOR, NameRule, rule, with_prefix

POSITION_OFFSET = 2  # unused first rows of the position table
MAX_POSITIONS = 2**15  # sinusoidal tables are computed at this length


def _attention(hf_name: str, jumok_name: str) -> tuple[NameRule, ...]:
    return (
        rule(f"{hf_name}.q_proj", f"{jumok_name}.query"),
        rule(f"{hf_name}.k_proj", f"{jumok_name}.key"),
        rule(f"{hf_name}.v_proj", f"{jumok_name}.value"),
        rule(f"{hf_name}.out_proj", f"{jumok_name}.output"),
        rule(f"{hf_name}_layer_norm", f"{jumok_name}_norm.norm"),
    )


LAYER = (
    *_attention("self_attn", "self_attention"),
    *_attention("encoder_attn", "cross_attention"),
    rule("fc1", "feed_forward.up"),
    rule("fc2", "feed_forward.down"),
    rule("final_layer_norm", "feed_forward_norm.norm"),
)


def backbone(config: TransformerConfig) -> tuple[NameRule, ...]:
    """The rules of the encoder and decoder of BART, mBART and Marian, with shared or own tables."""
    shared = config.tying in ("all", "inputs")
    tables = (
        [rule("model.shared", "encoder.embedding.tokens")]
        if shared
        else [
            rule(f"model.{side}.embed_tokens", f"{side}.embedding.tokens")
            for side in ("encoder", "decoder")
        ]
    )
    both = [
        backbone_rule
        for side in ("encoder", "decoder")
        for backbone_rule in with_prefix(
            f"model.{side}",
            side,
            (
                rule("embed_positions", "embedding.positions"),
                rule("layernorm_embedding", "embedding.norm"),
                rule("layer_norm", "stack.norm"),
                *with_prefix("layers.{}", "stack.layers.{}", LAYER),
            ),
        )
    ]
    return (*tables, *both)


def heads(name: str, generation: str, reader: ConfigReader) -> Mapping[str, Head]:
    """The architectures of BART, mBART and Marian."""
    tied = reader.boolean("tie_word_embeddings", True)
    shared = tied and reader.boolean("share_encoder_decoder_embeddings", True)
    table = "model.shared.weight"
    tables = {f"model.{side}.embed_tokens.weight": table for side in ("encoder", "decoder")}
    inputs = tables if shared else {}
    output = table if shared else "model.decoder.embed_tokens.weight"
    unused = (
        r"model\.(?:encoder|decoder)\.version",  # of checkpoints converted from fairseq
        *(() if shared else (r"model\.shared\.weight",)),
    )
    return {
        f"{name}{generation}": Head(
            "encoder_decoder",
            (
                rule("lm_head.weight", "output.weight"),
                rule("final_logits_bias", "output.bias", transform=ROW_VECTOR),
            ),
            unused=unused,
            aliases=inputs | ({"lm_head.weight": output} if tied else {}),
            optional=("final_logits_bias",),
            output_bias=True,
        ),
        f"{name}Model": Head("encoder_decoder", unused=unused, aliases=inputs, has_task=False),
    }


def common_config(reader: ConfigReader, *, layers: int, d_ff: int, heads: int) -> TransformerConfig:
    """The config that BART, mBART and Marian have in common; the defaults are the family's."""
    reader.check_supported("is_decoder", False)
    for encoder, decoder, default in (
        ("encoder_ffn_dim", "decoder_ffn_dim", d_ff),
        ("encoder_attention_heads", "decoder_attention_heads", heads),
    ):
        encoder_size = reader.positive_int(encoder, default)
        decoder_size = reader.positive_int(decoder, default)
        if encoder_size != decoder_size:
            raise ModelFileError(
                "pretrained.unequal_config_values",
                "config.json: {encoder} and {decoder} must be equal, got {encoder_size} and "
                "{decoder_size}",
                encoder=encoder,
                decoder=decoder,
                encoder_size=encoder_size,
                decoder_size=decoder_size,
            )
    tied = reader.boolean("tie_word_embeddings", True)
    return TransformerConfig(
        vocabulary_size=reader.positive_int("vocab_size", 50_265),
        d_model=reader.positive_int("d_model", 1_024),
        n_layers=reader.layer_count("encoder_layers", layers),
        n_decoder_layers=reader.layer_count("decoder_layers", layers),
        n_heads=reader.positive_int("encoder_attention_heads", heads),
        d_ff=reader.positive_int("encoder_ffn_dim", d_ff),
        activation=reader.activation("activation_function", "gelu"),
        positions="learned",
        max_length=reader.positive_int("max_position_embeddings", 1_024, maximum=MAX_POSITIONS),
        position_offset=POSITION_OFFSET,
        scale_embedding=reader.boolean("scale_embedding", False),
        embedding_norm=True,
        tie_embeddings="all" if tied else "none",
        dropout=reader.probability("dropout", 0.1),
        attention_dropout=reader.probability("attention_dropout", 0.0),
        activation_dropout=reader.probability("activation_dropout", 0.0),
    )


def _family(model_type: str, name: str, *, norm_first: bool) -> Family:
    def read_config(reader: ConfigReader) -> TransformerConfig:
        config = common_config(reader, layers=12, d_ff=4_096, heads=16)
        return replace(config, norm_first=norm_first)

    return Family(
        model_type=model_type,
        prefix="model.",
        read_config=read_config,
        backbone=backbone,
        heads=lambda reader: heads(name, "ForConditionalGeneration", reader),
        derived_buffers={},
    )


BART = _family("bart", "Bart", norm_first=False)
MBART = _family("mbart", "MBart", norm_first=True)
