"""RoBERTa (Liu et al. 2019) and XLM-R: BERT's layers, positions that begin behind the padding's.

klue/roberta has the tokeniser of BERT and the modules of RoBERTa.
"""

from collections.abc import Mapping
from dataclasses import replace

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.bert import ENCODER, encoder_config, stored_twice, vocabulary_lines
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.derived_buffers import counted_from_zero, zeros
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import line, under


def _config(vocabulary_size: int, settings: Settings) -> TransformerConfig:
    pad = settings.token("pad_token_id")
    first = 1 + (1 if pad is None else pad)
    config = encoder_config(Settings({"vocab_size": vocabulary_size, **settings.values}))
    if config.max_length <= first:
        raise InputError(
            f"config.json: max_position_embeddings {config.max_length} came, and {first} rows of "
            "the table are never used; give more"
        )
    return replace(config, first_position=first, max_length=config.max_length - first)


def _heads(name: str, settings: Settings) -> Mapping[str, Head]:
    tied = settings.flag("tie_word_embeddings", True)
    decoder, bias = "lm_head.decoder", "lm_head.bias"
    pooler = r"roberta\.pooler\.dense\.(?:weight|bias)"
    return {
        f"{name}ForMaskedLM": Head(
            "masked_language_model",
            (
                line("lm_head.dense", "transform.0"),
                line("lm_head.layer_norm", "transform.2"),
                *vocabulary_lines(decoder, bias, tied=tied),
            ),
            carried=(pooler, *(() if tied else (r"lm_head\.bias",))),
            same=stored_twice(
                "roberta.embeddings.word_embeddings.weight", decoder, bias, tied=tied
            ),
            activation="gelu",
        ),
        f"{name}ForSequenceClassification": Head(
            "text_classifier",
            (line("classifier.dense", "pooler.0"), line("classifier.out_proj", "output")),
            carried=(pooler,),
            pooler="tanh",
        ),
        f"{name}ForTokenClassification": Head(
            "token_classifier", (line("classifier", "output"),), carried=(pooler,)
        ),
        f"{name}Model": Head("encoder", carried=(pooler,), answers=False),
    }


def _family(model_type: str, name: str, vocabulary_size: int) -> Family:
    return Family(
        model_type=model_type,
        prefix="roberta.",
        config=lambda settings: _config(vocabulary_size, settings),
        body=lambda config: under("roberta", "", ENCODER),
        heads=lambda settings: _heads(name, settings),
        computed={
            r"roberta\.embeddings\.position_ids": counted_from_zero,
            r"roberta\.embeddings\.token_type_ids": zeros,
        },
    )


ROBERTA = _family("roberta", "Roberta", 50_265)
XLM_ROBERTA = _family("xlm-roberta", "XLMRoberta", 30_522)
