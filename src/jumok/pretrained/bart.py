"""BART (Lewis et al. 2020) and mBART: KoBART is of this kind. mBART's layers are pre-norm."""

from collections.abc import Mapping
from dataclasses import replace

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import ROW, Line, line, under

OFFSET = 2  # the first rows of the table of positions nobody uses
MOST_POSITIONS = 2**15  # tables of sines are made, whatever the file holds


def _attention(theirs: str, ours: str) -> tuple[Line, ...]:
    return (
        line(f"{theirs}.q_proj", f"{ours}.query"),
        line(f"{theirs}.k_proj", f"{ours}.key"),
        line(f"{theirs}.v_proj", f"{ours}.value"),
        line(f"{theirs}.out_proj", f"{ours}.output"),
        line(f"{theirs}_layer_norm", f"around_{ours}.norm"),
    )


LAYER = (
    *_attention("self_attn", "attention"),
    *_attention("encoder_attn", "cross"),
    line("fc1", "feed_forward.up"),
    line("fc2", "feed_forward.down"),
    line("final_layer_norm", "around_feed_forward.norm"),
)


def towers(config: TransformerConfig) -> tuple[Line, ...]:
    """The lines of both towers of BART, mBART and Marian, with or without a common table."""
    shared = config.tying in ("all", "inputs")
    tables = (
        [line("model.shared", "encoder.embedding.tokens")]
        if shared
        else [
            line(f"model.{tower}.embed_tokens", f"{tower}.embedding.tokens")
            for tower in ("encoder", "decoder")
        ]
    )
    both = [
        each
        for tower in ("encoder", "decoder")
        for each in under(
            f"model.{tower}",
            tower,
            (
                line("embed_positions", "embedding.positions"),
                line("layernorm_embedding", "embedding.norm"),
                line("layer_norm", "stack.norm"),
                *under("layers.{}", "stack.layers.{}", LAYER),
            ),
        )
    ]
    return (*tables, *both)


def heads(name: str, generation: str, settings: Settings) -> Mapping[str, Head]:
    """The architectures of BART, mBART and Marian."""
    tied = settings.flag("tie_word_embeddings", True)
    shared = tied and settings.flag("share_encoder_decoder_embeddings", True)
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
                line("lm_head.weight", "output.weight"),
                line("final_logits_bias", "output.bias", turn=ROW),
            ),
            carried=carried,
            same=inputs | ({"lm_head.weight": output} if tied else {}),
            absent=("final_logits_bias",),
            output_bias=True,
        ),
        f"{name}Model": Head("encoder_decoder", carried=carried, same=inputs, answers=False),
    }


def config_of(settings: Settings, *, layers: int, d_ff: int, heads: int) -> TransformerConfig:
    """The measures BART, mBART and Marian have in common; the defaults are the family's."""
    settings.refuse("is_decoder", False)
    for encoder, decoder, absent in (
        ("encoder_ffn_dim", "decoder_ffn_dim", d_ff),
        ("encoder_attention_heads", "decoder_attention_heads", heads),
    ):
        ours, other = settings.size(encoder, absent), settings.size(decoder, absent)
        if ours != other:
            raise InputError(
                f"config.json: {encoder} {ours} and {decoder} {other} came; towers of like width "
                "can be read"
            )
    tied = settings.flag("tie_word_embeddings", True)
    return TransformerConfig(
        vocabulary_size=settings.size("vocab_size", 50_265),
        d_model=settings.size("d_model", 1_024),
        n_layers=settings.layers("encoder_layers", layers),
        n_decoder_layers=settings.layers("decoder_layers", layers),
        n_heads=settings.size("encoder_attention_heads", heads),
        d_ff=settings.size("encoder_ffn_dim", d_ff),
        activation=settings.activation("activation_function", "gelu"),
        positions="learned",
        max_length=settings.size("max_position_embeddings", 1_024, most=MOST_POSITIONS),
        first_position=OFFSET,
        scale_embedding=settings.flag("scale_embedding", False),
        embedding_norm=True,
        tie_embeddings="all" if tied else "none",
        dropout=settings.share("dropout", 0.1),
        attention_dropout=settings.share("attention_dropout", 0.0),
        activation_dropout=settings.share("activation_dropout", 0.0),
    )


def _family(model_type: str, name: str, *, norm_first: bool) -> Family:
    def config(settings: Settings) -> TransformerConfig:
        plain = config_of(settings, layers=12, d_ff=4_096, heads=16)
        return replace(plain, norm_first=norm_first)

    return Family(
        model_type=model_type,
        prefix="model.",
        config=config,
        body=towers,
        heads=lambda settings: heads(name, "ForConditionalGeneration", settings),
        computed={},
    )


BART = _family("bart", "Bart", norm_first=False)
MBART = _family("mbart", "MBart", norm_first=True)
