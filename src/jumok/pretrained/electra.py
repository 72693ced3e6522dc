"""ELECTRA (Clark et al. 2020): a masked-language-model generator and a discriminator.

KoELECTRA is one. Small models have embeddings narrower than their layers.
"""

from collections.abc import Mapping
from dataclasses import replace

from jumok.models.config import TransformerConfig
from jumok.pretrained.bert import ENCODER, encoder_config, output_rules, tied_aliases
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_arange
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import rule, with_prefix


def _config(reader: ConfigReader) -> TransformerConfig:
    defaults = {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1_024}  # small
    config = encoder_config(reader.with_defaults(defaults))
    width = reader.positive_int("embedding_size", 128)
    return replace(config, d_embedding=None if width == config.d_model else width)


def _heads(reader: ConfigReader) -> Mapping[str, Head]:
    tied = reader.boolean("tie_word_embeddings", True)
    decoder, bias = "generator_lm_head", "generator_lm_head.bias"
    tokens = "electra.embeddings.word_embeddings.weight"
    aliases = tied_aliases(tokens, decoder, bias, tied=tied)
    aliases.pop(bias, None)  # its bias has one name only
    return {
        "ElectraForMaskedLM": Head(
            "masked_language_model",
            (
                rule("generator_predictions.dense", "transform.0"),
                rule("generator_predictions.LayerNorm", "transform.2"),
                *output_rules(decoder, bias, tied=tied),
            ),
            aliases=aliases,
            activation="gelu",
        ),
        "ElectraForPreTraining": Head(
            "replaced_token_detector",
            (
                rule("discriminator_predictions.dense", "transform.0"),
                rule("discriminator_predictions.dense_prediction", "output"),
            ),
            has_task=False,
        ),
        "ElectraForSequenceClassification": Head(
            "text_classifier",
            (rule("classifier.dense", "pooler.0"), rule("classifier.out_proj", "output")),
            pooler="gelu",
        ),
        "ElectraForTokenClassification": Head("token_classifier", (rule("classifier", "output"),)),
        "ElectraModel": Head("encoder", has_task=False),
    }


ELECTRA = Family(
    model_type="electra",
    prefix="electra.",
    read_config=_config,
    backbone=lambda config: with_prefix(
        "electra", "", (*ENCODER, rule("embeddings_project", "encoder.embedding.projection"))
    ),
    heads=_heads,
    derived_buffers={r"electra\.embeddings\.position_ids": is_arange},
)
