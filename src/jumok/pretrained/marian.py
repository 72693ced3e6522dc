"""Marian (Junczys-Dowmunt et al. 2018): the translators of opus-mt, the paper's own Transformer.

Its sines stand before its cosines, and its output has a bias. Pegasus has the same modules in
pre-norm order.
"""

from dataclasses import replace

from jumok.models.config import TransformerConfig
from jumok.pretrained.bart import config_of, heads, towers
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.derived_buffers import sinusoids_of
from jumok.pretrained.family import Family


def _config(settings: Settings) -> TransformerConfig:
    config = config_of(settings, layers=12, d_ff=4_096, heads=16)
    size = settings.size("vocab_size", 58_101)
    shared = settings.flag("share_encoder_decoder_embeddings", True)
    tied = settings.flag("tie_word_embeddings", True)
    both = replace(
        config,
        vocabulary_size=size,
        positions="sinusoidal_halves",
        first_position=0,
        embedding_norm=False,
    )
    if shared:
        return both
    return replace(
        both,
        target_vocabulary_size=settings.size("decoder_vocab_size", size),
        tie_embeddings="target" if tied else "none",
    )


MARIAN = Family(
    model_type="marian",
    prefix="model.",
    config=_config,
    body=towers,
    heads=lambda settings: heads("Marian", "MTModel", settings),
    computed={r"model\.(?:encoder|decoder)\.embed_positions\.weight": sinusoids_of},
)


def _pegasus(settings: Settings) -> TransformerConfig:
    config = config_of(settings, layers=12, d_ff=4_096, heads=16)
    return replace(
        config,
        positions="sinusoidal_halves",
        first_position=0,
        embedding_norm=False,
        norm_first=True,
    )


PEGASUS = Family(
    model_type="pegasus",
    prefix="model.",
    config=_pegasus,
    body=towers,
    heads=lambda settings: heads("Pegasus", "ForConditionalGeneration", settings),
    computed=MARIAN.computed,
)
