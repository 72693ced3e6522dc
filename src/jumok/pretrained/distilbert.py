"""DistilBERT (Sanh et al. 2019): BERT without segments, half as deep, under names of its own."""

from collections.abc import Mapping

from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.derived_buffers import counted_from_zero
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import line, under

LAYER = (
    line("attention.q_lin", "attention.query"),
    line("attention.k_lin", "attention.key"),
    line("attention.v_lin", "attention.value"),
    line("attention.out_lin", "attention.output"),
    line("sa_layer_norm", "around_attention.norm"),
    line("ffn.lin1", "feed_forward.up"),
    line("ffn.lin2", "feed_forward.down"),
    line("output_layer_norm", "around_feed_forward.norm"),
)
ENCODER = (
    line("embeddings.word_embeddings", "encoder.embedding.tokens"),
    line("embeddings.position_embeddings", "encoder.embedding.positions"),
    line("embeddings.LayerNorm", "encoder.embedding.norm"),
    *under("transformer.layer.{}", "encoder.stack.layers.{}", LAYER),
)


def _config(settings: Settings) -> TransformerConfig:
    return TransformerConfig(
        vocabulary_size=settings.size("vocab_size", 30_522),
        d_model=settings.size("dim", 768),
        n_layers=settings.layers("n_layers", 6),
        n_heads=settings.size("n_heads", 12),
        d_ff=settings.size("hidden_dim", 3_072),
        activation=settings.activation("activation", "gelu"),
        norm_eps=1e-12,
        positions="learned",  # also where they began as sines: the file holds them
        max_length=settings.size("max_position_embeddings", 512),
        scale_embedding=False,
        embedding_norm=True,
        tie_embeddings=settings.flag("tie_word_embeddings", True),
        dropout=settings.share("dropout", 0.1),
        attention_dropout=settings.share("attention_dropout", 0.1),
        activation_dropout=0.0,
        head_activation=settings.activation("activation", "gelu"),
    )


def _heads(settings: Settings) -> Mapping[str, Head]:
    words = "distilbert.embeddings.word_embeddings.weight"
    tied = settings.flag("tie_word_embeddings", True)
    return {
        "DistilBertForMaskedLM": Head(
            "masked_language_model",
            (
                line("vocab_transform", "transform.0"),
                line("vocab_layer_norm", "transform.2"),
                line("vocab_projector", "output"),
            ),
            same={"vocab_projector.weight": words} if tied else {},
        ),
        "DistilBertForSequenceClassification": Head(
            "text_classifier",
            (line("pre_classifier", "pooler.0"), line("classifier", "output")),
            pooler="relu",
        ),
        "DistilBertForTokenClassification": Head(
            "token_classifier", (line("classifier", "output"),)
        ),
        "DistilBertModel": Head("encoder", answers=False),
    }


DISTILBERT = Family(
    model_type="distilbert",
    prefix="distilbert.",
    config=_config,
    body=lambda config: under("distilbert", "", ENCODER),
    heads=_heads,
    computed={r"distilbert\.embeddings\.position_ids": counted_from_zero},
)
