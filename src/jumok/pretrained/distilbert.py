"""DistilBERT (Sanh et al. 2019): BERT without segments, with half the layers and other names."""

from collections.abc import Mapping

from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_arange
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import rule, with_prefix

LAYER = (
    rule("attention.q_lin", "self_attention.query"),
    rule("attention.k_lin", "self_attention.key"),
    rule("attention.v_lin", "self_attention.value"),
    rule("attention.out_lin", "self_attention.output"),
    rule("sa_layer_norm", "self_attention_norm.norm"),
    rule("ffn.lin1", "feed_forward.up"),
    rule("ffn.lin2", "feed_forward.down"),
    rule("output_layer_norm", "feed_forward_norm.norm"),
)
ENCODER = (
    rule("embeddings.word_embeddings", "encoder.embedding.tokens"),
    rule("embeddings.position_embeddings", "encoder.embedding.positions"),
    rule("embeddings.LayerNorm", "encoder.embedding.norm"),
    *with_prefix("transformer.layer.{}", "encoder.stack.layers.{}", LAYER),
)


def _config(reader: ConfigReader) -> TransformerConfig:
    return TransformerConfig(
        vocabulary_size=reader.positive_int("vocab_size", 30_522),
        d_model=reader.positive_int("dim", 768),
        n_layers=reader.layer_count("n_layers", 6),
        n_heads=reader.positive_int("n_heads", 12),
        d_ff=reader.positive_int("hidden_dim", 3_072),
        activation=reader.activation("activation", "gelu"),
        norm_eps=1e-12,
        positions="learned",  # also if they were initialized as sinusoids: they are stored
        max_length=reader.positive_int("max_position_embeddings", 512),
        scale_embedding=False,
        embedding_norm=True,
        tie_embeddings=reader.boolean("tie_word_embeddings", True),
        dropout=reader.probability("dropout", 0.1),
        attention_dropout=reader.probability("attention_dropout", 0.1),
        activation_dropout=0.0,
        head_activation=reader.activation("activation", "gelu"),
    )


def _heads(reader: ConfigReader) -> Mapping[str, Head]:
    tokens = "distilbert.embeddings.word_embeddings.weight"
    tied = reader.boolean("tie_word_embeddings", True)
    return {
        "DistilBertForMaskedLM": Head(
            "masked_language_model",
            (
                rule("vocab_transform", "transform.0"),
                rule("vocab_layer_norm", "transform.2"),
                rule("vocab_projector", "output"),
            ),
            aliases={"vocab_projector.weight": tokens} if tied else {},
        ),
        "DistilBertForSequenceClassification": Head(
            "text_classifier",
            (rule("pre_classifier", "pooler.0"), rule("classifier", "output")),
            pooler="relu",
        ),
        "DistilBertForTokenClassification": Head(
            "token_classifier", (rule("classifier", "output"),)
        ),
        "DistilBertModel": Head("encoder", has_task=False),
    }


DISTILBERT = Family(
    model_type="distilbert",
    prefix="distilbert.",
    read_config=_config,
    backbone=lambda config: with_prefix("distilbert", "", ENCODER),
    heads=_heads,
    derived_buffers={r"distilbert\.embeddings\.position_ids": is_arange},
)
