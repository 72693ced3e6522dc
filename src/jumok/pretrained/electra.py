"""ELECTRA (Clark et al. 2020): a generator that fills in, a discriminator that finds what it put.

KoELECTRA is of this kind. The tables of small ones are narrower than their layers.
"""

from collections.abc import Mapping
from dataclasses import replace

from jumok.models.config import TransformerConfig
from jumok.pretrained.bert import ENCODER, encoder_config, stored_twice, vocabulary_lines
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.derived_buffers import counted_from_zero
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import line, under


def _config(settings: Settings) -> TransformerConfig:
    absent = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1_024}  # small
    config = encoder_config(Settings({**absent, **settings.values}))
    width = settings.size("embedding_size", 128)
    narrow = None if width == config.d_model else width
    return replace(config, d_embedding=narrow)


def _heads(settings: Settings) -> Mapping[str, Head]:
    tied = settings.flag("tie_word_embeddings", True)
    decoder, bias = "generator_lm_head", "generator_lm_head.bias"
    words = "electra.embeddings.word_embeddings.weight"
    same = stored_twice(words, decoder, bias, tied=tied)
    same.pop(bias, None)  # its bias has one name only
    return {
        "ElectraForMaskedLM": Head(
            "masked_language_model",
            (
                line("generator_predictions.dense", "transform.0"),
                line("generator_predictions.LayerNorm", "transform.2"),
                *vocabulary_lines(decoder, bias, tied=tied),
            ),
            same=same,
            activation="gelu",
        ),
        "ElectraForPreTraining": Head(
            "replaced_token_detector",
            (
                line("discriminator_predictions.dense", "transform.0"),
                line("discriminator_predictions.dense_prediction", "output"),
            ),
            answers=False,
        ),
        "ElectraForSequenceClassification": Head(
            "text_classifier",
            (line("classifier.dense", "pooler.0"), line("classifier.out_proj", "output")),
            pooler="gelu",
        ),
        "ElectraForTokenClassification": Head("token_classifier", (line("classifier", "output"),)),
        "ElectraModel": Head("encoder", answers=False),
    }


ELECTRA = Family(
    model_type="electra",
    prefix="electra.",
    config=_config,
    body=lambda config: under(
        "electra", "", (*ENCODER, line("embeddings_project", "encoder.embedding.widen"))
    ),
    heads=_heads,
    computed={r"electra\.embeddings\.position_ids": counted_from_zero},
)
