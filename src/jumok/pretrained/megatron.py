"""MegatronBERT (Shoeybi et al. 2019): BERT in pre-norm order, without an embedding norm.

Few such checkpoints are published; pre-norm encoders trained by jumok are exported as one.
"""

from dataclasses import replace

from jumok.models.config import TransformerConfig
from jumok.pretrained.bert import encoder_config, heads
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_arange
from jumok.pretrained.family import Family
from jumok.pretrained.name_map import rule, with_prefix

LAYER = (
    rule("attention.ln", "self_attention_norm.norm"),
    rule("attention.self.query", "self_attention.query"),
    rule("attention.self.key", "self_attention.key"),
    rule("attention.self.value", "self_attention.value"),
    rule("attention.output.dense", "self_attention.output"),
    rule("ln", "feed_forward_norm.norm"),
    rule("intermediate.dense", "feed_forward.up"),
    rule("output.dense", "feed_forward.down"),
)
ENCODER = (
    rule("embeddings.word_embeddings", "encoder.embedding.tokens"),
    rule("embeddings.position_embeddings", "encoder.embedding.positions"),
    rule("embeddings.token_type_embeddings", "encoder.embedding.segments"),
    *with_prefix("encoder.layer.{}", "encoder.stack.layers.{}", LAYER),
    rule("encoder.ln", "encoder.stack.norm"),
)


def _config(reader: ConfigReader) -> TransformerConfig:
    defaults = {
        "vocab_size": 29_056,
        "hidden_size": 1_024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4_096,
    }
    config = encoder_config(reader.with_defaults(defaults))
    return replace(config, norm_first=True, embedding_norm=False)


MEGATRON_BERT = Family(
    model_type="megatron-bert",
    prefix="bert.",
    read_config=_config,
    backbone=lambda config: with_prefix("bert", "", ENCODER),
    heads=lambda reader: heads("MegatronBert", reader),
    derived_buffers={r"bert\.embeddings\.position_ids": is_arange},
)
