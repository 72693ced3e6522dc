"""RoBERTa (Liu et al. 2019) and XLM-R: BERT's layers, with positions that start after the pad id.

klue/roberta has the tokenizer of BERT and the modules of RoBERTa.
"""

from collections.abc import Mapping
from dataclasses import replace

from jumok.errors import ModelFileError
from jumok.models.config import TransformerConfig
from jumok.pretrained.bert import ENCODER, encoder_config, output_rules, tied_aliases
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_arange, is_zero
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import rule, with_prefix


def _config(vocabulary_size: int, reader: ConfigReader) -> TransformerConfig:
    pad = reader.token_id("pad_token_id")
    offset = 1 + (1 if pad is None else pad)
    config = encoder_config(ConfigReader({"vocab_size": vocabulary_size, **reader.values}))
    if config.max_length <= offset:
        raise ModelFileError(
            "pretrained.max_position_embeddings",
            "config.json: max_position_embeddings must be more than the offset {offset}, got "
            "{max_length}",
            offset=offset,
            max_length=config.max_length,
        )
    return replace(config, position_offset=offset, max_length=config.max_length - offset)


def _heads(name: str, reader: ConfigReader) -> Mapping[str, Head]:
    tied = reader.boolean("tie_word_embeddings", True)
    decoder, bias = "lm_head.decoder", "lm_head.bias"
    pooler = r"roberta\.pooler\.dense\.(?:weight|bias)"
    return {
        f"{name}ForMaskedLM": Head(
            "masked_language_model",
            (
                rule("lm_head.dense", "transform.0"),
                rule("lm_head.layer_norm", "transform.2"),
                *output_rules(decoder, bias, tied=tied),
            ),
            unused=(pooler, *(() if tied else (r"lm_head\.bias",))),
            aliases=tied_aliases(
                "roberta.embeddings.word_embeddings.weight", decoder, bias, tied=tied
            ),
            activation="gelu",
        ),
        f"{name}ForSequenceClassification": Head(
            "text_classifier",
            (rule("classifier.dense", "pooler.0"), rule("classifier.out_proj", "output")),
            unused=(pooler,),
            pooler="tanh",
        ),
        f"{name}ForTokenClassification": Head(
            "token_classifier", (rule("classifier", "output"),), unused=(pooler,)
        ),
        f"{name}Model": Head("encoder", unused=(pooler,), has_task=False),
    }


def _family(model_type: str, name: str, vocabulary_size: int) -> Family:
    return Family(
        model_type=model_type,
        prefix="roberta.",
        read_config=lambda reader: _config(vocabulary_size, reader),
        backbone=lambda config: with_prefix("roberta", "", ENCODER),
        heads=lambda reader: _heads(name, reader),
        derived_buffers={
            r"roberta\.embeddings\.position_ids": is_arange,
            r"roberta\.embeddings\.token_type_ids": is_zero,
        },
    )


ROBERTA = _family("roberta", "Roberta", 50_265)
XLM_ROBERTA = _family("xlm-roberta", "XLMRoberta", 30_522)
