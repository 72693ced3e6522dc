"""DeBERTa v2 and v3 (He et al. 2021, 2023): kf-deberta, mdeberta and similar encoders.

BERT's layers with disentangled attention: the scores of content and relative position.
"""

from collections.abc import Mapping
from typing import Any, get_args

from jumok.errors import ModelFileError
from jumok.models.config import Pooler, TransformerConfig
from jumok.pretrained.adapt import SourceModel
from jumok.pretrained.bert import mlm_transform, output_rules, tied_aliases
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_arange
from jumok.pretrained.family import Family, Head
from jumok.pretrained.hf_config import Json, bert_config
from jumok.pretrained.name_map import rule, with_prefix

_LAYER = (
    rule("attention.self.query_proj", "self_attention.query"),
    rule("attention.self.key_proj", "self_attention.key"),
    rule("attention.self.value_proj", "self_attention.value"),
    rule("attention.self.pos_key_proj", "self_attention.position_key"),
    rule("attention.self.pos_query_proj", "self_attention.position_query"),
    rule("attention.output.dense", "self_attention.output"),
    rule("attention.output.LayerNorm", "self_attention_norm.norm"),
    rule("intermediate.dense", "feed_forward.up"),
    rule("output.dense", "feed_forward.down"),
    rule("output.LayerNorm", "feed_forward_norm.norm"),
)
_TOKENS = "deberta.embeddings.word_embeddings"
_BACKBONE = (
    rule(_TOKENS, "encoder.embedding.tokens"),
    rule("deberta.embeddings.position_embeddings", "encoder.embedding.positions"),
    rule("deberta.embeddings.token_type_embeddings", "encoder.embedding.segments"),
    rule("deberta.embeddings.LayerNorm", "encoder.embedding.norm"),
    rule("deberta.encoder.rel_embeddings", "encoder.stack.relative.table"),
    rule("deberta.encoder.LayerNorm", "encoder.stack.relative.norm"),
    *with_prefix("deberta.encoder.layer.{}", "encoder.stack.layers.{}", _LAYER),
)
_TERMS = {
    ("c2p", "p2c"): "both",
    ("c2p",): "content_to_position",
    ("p2c",): "position_to_content",
}


def _config(reader: ConfigReader) -> TransformerConfig:
    width = reader.positive_int("hidden_size", 1_536)
    n_heads = reader.positive_int("num_attention_heads", 24)
    reader.check_supported("conv_kernel_size", 0)
    reader.check_supported("embedding_size", width)
    reader.check_supported("pooler_hidden_size", width)
    reader.check_supported("attention_head_size", width // n_heads)
    reader.without_effect("conv_act", "conv_groups", "pooler_dropout")
    length = reader.positive_int("max_position_embeddings", 512)
    biased = reader.boolean("position_biased_input", True)
    return TransformerConfig(
        vocabulary_size=reader.positive_int("vocab_size", 128_100),
        d_model=width,
        n_layers=reader.layer_count("num_hidden_layers", 24),
        n_heads=n_heads,
        d_ff=reader.positive_int("intermediate_size", 6_144),
        activation=reader.activation("hidden_act", "gelu"),
        norm_eps=reader.epsilon("layer_norm_eps", 1e-7),
        positions="learned" if biased else "none",
        max_length=length,
        n_segments=reader.non_negative_int("type_vocab_size", 0),
        scale_embedding=False,
        embedding_norm=True,
        tie_embeddings=reader.boolean("tie_word_embeddings", True)
        or not reader.boolean("legacy", True),
        dropout=reader.probability("hidden_dropout_prob", 0.1),
        attention_dropout=reader.probability("attention_probs_dropout_prob", 0.1),
        head_activation=reader.activation("hidden_act", "gelu"),
        **_attention(reader, length, max(1, width // n_heads)),
    )


def _attention(reader: ConfigReader, length: int, d_head: int) -> dict[str, Any]:
    """The fields of disentangled attention; without relative positions the scale alone."""
    terms = _terms(reader)
    scale = ((1 + len(terms)) * d_head) ** -0.5
    longest = reader.number("max_relative_positions", -1)
    span = reader.number("position_buckets", -1)
    shared = reader.boolean("share_att_key", False)
    norms = {each.strip() for each in reader.string("norm_rel_ebd", "none").lower().split("|")}
    if not reader.boolean("relative_attention", False):
        return {"attention_scale": scale}
    distance = length if longest < 1 else reader.positive_int("max_relative_positions", length)
    half = distance if span < 1 else reader.positive_int("position_buckets", distance)
    if terms not in _TERMS or half < 2 or (half >= distance and span > 0):
        raise ModelFileError(
            "pretrained.relative_attention",
            "config.json: with relative_attention, pos_att_type must name c2p or p2c, and "
            "position_buckets be from 2 to below max_relative_positions, got {terms} and {half} of "
            "{distance}; use another checkpoint",
            terms=", ".join(terms) or "none",
            half=half,
            distance=distance,
        )
    return {
        "attention": "disentangled",
        "attention_scale": scale,
        "position_terms": _TERMS[terms],
        "share_position_maps": shared,
        "position_norm": "layer_norm" in norms,
        "relative_attention_num_buckets": 2 * half,
        "relative_attention_max_distance": distance,
    }


def _terms(reader: ConfigReader) -> tuple[str, ...]:
    """`pos_att_type` in alphabetical order: a list, or names between bars."""
    value = reader.get("pos_att_type")
    names = value.lower().split("|") if isinstance(value, str) else value or []
    found = {str(name).strip() for name in names} if isinstance(names, list) else {str(value)}
    if not found <= {"c2p", "p2c"}:
        raise ModelFileError(
            "pretrained.position_terms",
            "config.json: pos_att_type must name c2p or p2c, got {value}; use another checkpoint",
            value=ascii(value)[:60],
        )
    return tuple(sorted(found))


def _heads(reader: ConfigReader) -> Mapping[str, Head]:
    pooler = reader.string("pooler_hidden_act", "gelu")
    if pooler not in get_args(Pooler):
        reader.check_supported("pooler_hidden_act", "gelu")
    biased = reader.boolean("position_biased_input", True)
    relative = reader.boolean("relative_attention", False)
    unused = (  # parts that the config leaves out, and heads of a training
        *(() if biased else (r"deberta\.embeddings\.position_embeddings\.weight",)),
        *(() if relative else (r"deberta\.encoder\.(LayerNorm|rel_embeddings)\..*",)),
        r"mask_predictions\..*",
        r"(deberta\.)?lm_predictions\..*",
    )
    return {
        "DebertaV2ForMaskedLM": _masked(reader, unused),
        "DebertaV2ForSequenceClassification": Head(
            "text_classifier",
            (rule("pooler.dense", "pooler.0"), rule("classifier", "output")),
            unused=unused,
            pooler=pooler,  # type: ignore[arg-type]  # checked above
        ),
        "DebertaV2ForTokenClassification": Head(
            "token_classifier", (rule("classifier", "output"),), unused=unused
        ),
        "DebertaV2Model": Head("encoder", unused=(*unused, r"cls\..*"), has_task=False),
    }


def _masked(reader: ConfigReader, unused: tuple[str, ...]) -> Head:
    """The masked-token head: BERT's, or that of the published code (`legacy` false)."""
    if not reader.boolean("legacy", True):
        head = "lm_predictions.lm_head"
        rules = (
            *mlm_transform(head, "LayerNorm"),
            rule("decoder.weight", "output.weight"),  # not stored: always the table of tokens
            rule(f"{head}.bias", "output.bias"),
        )
        return Head(
            "masked_language_model",
            rules,
            unused=unused[:-1],
            aliases={"decoder.weight": f"{_TOKENS}.weight"},
        )
    tied = reader.boolean("tie_word_embeddings", True)
    decoder, bias = "cls.predictions.decoder", "cls.predictions.bias"
    return Head(
        "masked_language_model",
        (
            *mlm_transform("cls.predictions.transform", "LayerNorm"),
            *output_rules(decoder, bias, tied=tied),
        ),
        unused=(*unused, *(() if tied else (r"cls\.predictions\.bias",))),
        aliases=tied_aliases(f"{_TOKENS}.weight", decoder, bias, tied=tied),
    )


def deberta_config(source: SourceModel) -> Json:
    """DeBERTa's config.json, with relative positions: without them the model is BERT's."""
    config = source.config
    half = config.relative_attention_num_buckets // 2
    distance = config.relative_attention_max_distance
    terms = {name: list(terms) for terms, name in _TERMS.items()}
    return bert_config(source) | {
        "relative_attention": True,
        "position_buckets": half if half < distance else -1,
        "max_relative_positions": distance,
        "position_biased_input": config.positions == "learned",
        "pos_att_type": terms[config.position_terms],
        "share_att_key": config.share_position_maps,
        "norm_rel_ebd": "layer_norm" if config.position_norm else "none",
        "pooler_hidden_act": "gelu" if source.pooler == "none" else source.pooler,
        "legacy": True,
    }


DEBERTA_V2 = Family(
    model_type="deberta-v2",
    prefix="deberta.",
    read_config=_config,
    backbone=lambda config: _BACKBONE,
    heads=_heads,
    derived_buffers={r"deberta\.embeddings\.position_ids": is_arange},
)
