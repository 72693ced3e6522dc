"""BART (Lewis et al. 2020) and mBART: KoBART is of this kind. mBART's layers are pre-norm."""

from collections.abc import Mapping
from dataclasses import replace

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import ROW_VECTOR, NameRule, rule, with_prefix

POSITION_OFFSET = 2  # the first rows of the table of positions nobody uses
MAX_POSITIONS = 2**15  # tables of sines are made, whatever the file holds


def _attention(theirs: str, ours: str) -> tuple[NameRule, ...]:
    return (
        rule(f"{theirs}.q_proj", f"{ours}.query"),
        rule(f"{theirs}.k_proj", f"{ours}.key"),
        rule(f"{theirs}.v_proj", f"{ours}.value"),
        rule(f"{theirs}.out_proj", f"{ours}.output"),
        rule(f"{theirs}_layer_norm", f"{ours}_norm.norm"),
    )


LAYER = (
    *_attention("self_attn", "self_attention"),
    *_attention("encoder_attn", "cross_attention"),
    rule("fc1", "feed_forward.up"),
    rule("fc2", "feed_forward.down"),
    rule("final_layer_norm", "feed_forward_norm.norm"),
)


def backbone(config: TransformerConfig) -> tuple[NameRule, ...]:
    """The lines of both towers of BART, mBART and Marian, with or without a common table."""
    shared = config.tying in ("all", "inputs")
    tables = (
        [rule("model.shared", "encoder.embedding.tokens")]
        if shared
        else [
            rule(f"model.{tower}.embed_tokens", f"{tower}.embedding.tokens")
            for tower in ("encoder", "decoder")
        ]
    )
    both = [
        each
        for tower in ("encoder", "decoder")
        for each in with_prefix(
            f"model.{tower}",
            tower,
            (
                rule("embed_positions", "embedding.positions"),
                rule("layernorm_embedding", "embedding.norm"),
                rule("layer_norm", "stack.norm"),
                *with_prefix("layers.{}", "stack.layers.{}", LAYER),
            ),
        )
    ]
    return (*tables, *both)


def heads(name: str, generation: str, settings: ConfigReader) -> Mapping[str, Head]:
    """The architectures of BART, mBART and Marian."""
    tied = settings.boolean("tie_word_embeddings", True)
    shared = tied and settings.boolean("share_encoder_decoder_embeddings", True)
    table = "model.shared.weight"
    tables = {f"model.{tower}.embed_tokens.weight": table for tower in ("encoder", "decoder")}
    inputs = tables if shared else {}
    output = table if shared else "model.decoder.embed_tokens.weight"
    carried = (
        r"model\.(?:encoder|decoder)\.version",  # of fairseq, from which the first came
        *(() if shared else (r"model\.shared\.weight",)),
    )
    return {
        f"{name}{generation}": Head(
            "encoder_decoder",
            (
                rule("lm_head.weight", "output.weight"),
                rule("final_logits_bias", "output.bias", transform=ROW_VECTOR),
            ),
            unused=carried,
            aliases=inputs | ({"lm_head.weight": output} if tied else {}),
            optional=("final_logits_bias",),
            output_bias=True,
        ),
        f"{name}Model": Head("encoder_decoder", unused=carried, aliases=inputs, has_task=False),
    }


def common_config(
    settings: ConfigReader, *, layers: int, d_ff: int, heads: int
) -> TransformerConfig:
    """The measures BART, mBART and Marian have in common; the defaults are the family's."""
    settings.check_supported("is_decoder", False)
    for encoder, decoder, absent in (
        ("encoder_ffn_dim", "decoder_ffn_dim", d_ff),
        ("encoder_attention_heads", "decoder_attention_heads", heads),
    ):
        ours, other = settings.positive_int(encoder, absent), settings.positive_int(decoder, absent)
        if ours != other:
            raise InputError(
                f"config.json: {encoder} {ours} and {decoder} {other} came; towers of like width "
                "can be read"
            )
    tied = settings.boolean("tie_word_embeddings", True)
    return TransformerConfig(
        vocabulary_size=settings.positive_int("vocab_size", 50_265),
        d_model=settings.positive_int("d_model", 1_024),
        n_layers=settings.layer_count("encoder_layers", layers),
        n_decoder_layers=settings.layer_count("decoder_layers", layers),
        n_heads=settings.positive_int("encoder_attention_heads", heads),
        d_ff=settings.positive_int("encoder_ffn_dim", d_ff),
        activation=settings.activation("activation_function", "gelu"),
        positions="learned",
        max_length=settings.positive_int("max_position_embeddings", 1_024, maximum=MAX_POSITIONS),
        position_offset=POSITION_OFFSET,
        scale_embedding=settings.boolean("scale_embedding", False),
        embedding_norm=True,
        tie_embeddings="all" if tied else "none",
        dropout=settings.probability("dropout", 0.1),
        attention_dropout=settings.probability("attention_dropout", 0.0),
        activation_dropout=settings.probability("activation_dropout", 0.0),
    )


def _family(model_type: str, name: str, *, norm_first: bool) -> Family:
    def config(settings: ConfigReader) -> TransformerConfig:
        plain = common_config(settings, layers=12, d_ff=4_096, heads=16)
        return replace(plain, norm_first=norm_first)

    return Family(
        model_type=model_type,
        prefix="model.",
        read_config=config,
        backbone=backbone,
        heads=lambda settings: heads(name, "ForConditionalGeneration", settings),
        derived_buffers={},
    )


BART = _family("bart", "Bart", norm_first=False)
MBART = _family("mbart", "MBart", norm_first=True)
