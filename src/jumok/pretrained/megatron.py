"""MegatronBERT (Shoeybi et al. 2019): BERT in pre-norm order, without a norm on its embedding.

Hardly anybody publishes one; the encoders that jumok trains go out as it.
"""

from dataclasses import replace

from jumok.models.config import TransformerConfig
from jumok.pretrained.bert import encoder_config, heads
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.derived_buffers import counted_from_zero
from jumok.pretrained.family import Family
from jumok.pretrained.name_map import line, under

LAYER = (
    line("attention.ln", "around_attention.norm"),
    line("attention.self.query", "attention.query"),
    line("attention.self.key", "attention.key"),
    line("attention.self.value", "attention.value"),
    line("attention.output.dense", "attention.output"),
    line("ln", "around_feed_forward.norm"),
    line("intermediate.dense", "feed_forward.up"),
    line("output.dense", "feed_forward.down"),
)
ENCODER = (
    line("embeddings.word_embeddings", "encoder.embedding.tokens"),
    line("embeddings.position_embeddings", "encoder.embedding.positions"),
    line("embeddings.token_type_embeddings", "encoder.embedding.segments"),
    *under("encoder.layer.{}", "encoder.stack.layers.{}", LAYER),
    line("encoder.ln", "encoder.stack.norm"),
)


def _config(settings: Settings) -> TransformerConfig:
    absent = {
        "vocab_size": 29_056,
        "hidden_size": 1_024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4_096,
    }
    config = encoder_config(Settings({**absent, **settings.values}))
    return replace(config, norm_first=True, embedding_norm=False)


MEGATRON_BERT = Family(
    model_type="megatron-bert",
    prefix="bert.",
    config=_config,
    body=lambda config: under("bert", "", ENCODER),
    heads=lambda settings: heads("MegatronBert", settings),
    computed={r"bert\.embeddings\.position_ids": counted_from_zero},
)
