"""Marian (Junczys-Dowmunt et al. 2018): opus-mt translation models, the original Transformer.

Position tables have all sines before all cosines, and the output map has a bias. Pegasus has the
same modules in pre-norm order.
"""

from dataclasses import replace

from jumok.models.config import TransformerConfig
from jumok.pretrained.bart import backbone, common_config, heads
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_sinusoidal_table
from jumok.pretrained.family import Family


def _config(reader: ConfigReader) -> TransformerConfig:
    config = common_config(reader, layers=12, d_ff=4_096, heads=16)
    size = reader.positive_int("vocab_size", 58_101)
    shared = reader.boolean("share_encoder_decoder_embeddings", True)
    tied = reader.boolean("tie_word_embeddings", True)
    both = replace(
        config,
        vocabulary_size=size,
        positions="sinusoidal_halves",
        position_offset=0,
        embedding_norm=False,
    )
    if shared:
        return both
    return replace(
        both,
        target_vocabulary_size=reader.positive_int("decoder_vocab_size", size),
        tie_embeddings="target" if tied else "none",
    )


MARIAN = Family(
    model_type="marian",
    prefix="model.",
    read_config=_config,
    backbone=backbone,
    heads=lambda reader: heads("Marian", "MTModel", reader),
    derived_buffers={r"model\.(?:encoder|decoder)\.embed_positions\.weight": is_sinusoidal_table},
)


def _pegasus(reader: ConfigReader) -> TransformerConfig:
    config = common_config(reader, layers=12, d_ff=4_096, heads=16)
    return replace(
        config,
        positions="sinusoidal_halves",
        position_offset=0,
        embedding_norm=False,
        norm_first=True,
    )


PEGASUS = Family(
    model_type="pegasus",
    prefix="model.",
    read_config=_pegasus,
    backbone=backbone,
    heads=lambda reader: heads("Pegasus", "ForConditionalGeneration", reader),
    derived_buffers=MARIAN.derived_buffers,
)
