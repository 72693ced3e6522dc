"""MegatronBERT (Shoeybi et al. 2019): BERT in pre-norm order, without a norm on its embedding.

Hardly anybody publishes one; the encoders that jumok trains go out as it.
"""

from collections.abc import Mapping
from dataclasses import replace

from jumok.models.config import TransformerConfig
from jumok.pretrained.bert import encoder_config, stored_twice, transform, vocabulary_lines
from jumok.pretrained.computed import counted_from_zero
from jumok.pretrained.family import Family, Head
from jumok.pretrained.names import line, under
from jumok.pretrained.settings import Settings

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


def _heads(settings: Settings) -> Mapping[str, Head]:
    tied = settings.flag("tie_word_embeddings", True)
    decoder, bias = "cls.predictions.decoder", "cls.predictions.bias"
    pooler = r"bert\.pooler\.dense\.(?:weight|bias)"
    return {
        "MegatronBertForMaskedLM": Head(
            "masked_language_model",
            (
                *transform("cls.predictions.transform", "LayerNorm"),
                *vocabulary_lines(decoder, bias, tied=tied),
            ),
            carried=(pooler, *(() if tied else (r"cls\.predictions\.bias",))),
            same=stored_twice("bert.embeddings.word_embeddings.weight", decoder, bias, tied=tied),
        ),
        "MegatronBertForSequenceClassification": Head(
            "text_classifier",
            (line("bert.pooler.dense", "pooler.0"), line("classifier", "output")),
            pooler="tanh",
        ),
        "MegatronBertForTokenClassification": Head(
            "token_classifier", (line("classifier", "output"),), carried=(pooler,)
        ),
        "MegatronBertModel": Head("encoder", carried=(pooler,), answers=False),
    }


MEGATRON_BERT = Family(
    model_type="megatron-bert",
    prefix="bert.",
    config=_config,
    body=lambda config: under("bert", "", ENCODER),
    heads=_heads,
    computed={r"bert\.embeddings\.position_ids": counted_from_zero},
)
