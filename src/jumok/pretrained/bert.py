"""BERT (Devlin et al. 2019): klue/bert-base, KcBERT, sentence encoders, and similar encoders."""

from collections.abc import Mapping

from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.derived_buffers import is_arange
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import NameRule, rule, with_prefix

LAYER = (
    rule("attention.self.query", "self_attention.query"),
    rule("attention.self.key", "self_attention.key"),
    rule("attention.self.value", "self_attention.value"),
    rule("attention.output.dense", "self_attention.output"),
    rule("attention.output.LayerNorm", "self_attention_norm.norm"),
    rule("intermediate.dense", "feed_forward.up"),
    rule("output.dense", "feed_forward.down"),
    rule("output.LayerNorm", "feed_forward_norm.norm"),
)
ENCODER = (
    rule("embeddings.word_embeddings", "encoder.embedding.tokens"),
    rule("embeddings.position_embeddings", "encoder.embedding.positions"),
    rule("embeddings.token_type_embeddings", "encoder.embedding.segments"),
    rule("embeddings.LayerNorm", "encoder.embedding.norm"),
    *with_prefix("encoder.layer.{}", "encoder.stack.layers.{}", LAYER),
)
POSITION_IDS = {r"(?:\w+\.)?embeddings\.position_ids": is_arange}


def encoder_config(reader: ConfigReader) -> TransformerConfig:
    """The config of BERT, RoBERTa and ELECTRA, which use the same keys."""
    reader.check_supported("position_embedding_type", "absolute")
    reader.check_supported("is_decoder", False)
    reader.check_supported("add_cross_attention", False)
    reader.check_supported("pruned_heads", {})
    return TransformerConfig(
        vocabulary_size=reader.positive_int("vocab_size", 30_522),
        d_model=reader.positive_int("hidden_size", 768),
        n_layers=reader.layer_count("num_hidden_layers", 12),
        n_heads=reader.positive_int("num_attention_heads", 12),
        d_ff=reader.positive_int("intermediate_size", 3_072),
        activation=reader.activation("hidden_act", "gelu"),
        norm_eps=reader.epsilon("layer_norm_eps", 1e-12),
        positions="learned",
        max_length=reader.positive_int("max_position_embeddings", 512),
        n_segments=reader.non_negative_int("type_vocab_size", 2),
        scale_embedding=False,
        embedding_norm=True,
        tie_embeddings=reader.boolean("tie_word_embeddings", True),
        dropout=reader.probability("hidden_dropout_prob", 0.1),
        attention_dropout=reader.probability("attention_probs_dropout_prob", 0.1),
        head_activation=reader.activation("hidden_act", "gelu"),
    )


def mlm_transform(hf_name: str, norm: str) -> tuple[NameRule, ...]:
    """The rules of the masked-language-model head before its output map."""
    return (rule(f"{hf_name}.dense", "transform.0"), rule(f"{hf_name}.{norm}", "transform.2"))


def output_rules(decoder: str, bias: str, *, tied: bool) -> tuple[NameRule, ...]:
    """The rules of the output map; an untied one uses the bias stored next to its weight."""
    return (
        rule(f"{decoder}.weight", "output.weight"),
        rule(bias if tied else f"{decoder}.bias", "output.bias"),
    )


def tied_aliases(tokens: str, decoder: str, bias: str, *, tied: bool) -> dict[str, str]:
    """The aliases of the token embedding and of the output bias."""
    first, second = bias, f"{decoder}.bias"
    if not tied:
        return {first: second}
    return {f"{decoder}.weight": tokens, second: first}


def heads(name: str, reader: ConfigReader) -> Mapping[str, Head]:
    """The architectures of BERT and MegatronBERT."""
    tied = reader.boolean("tie_word_embeddings", True)
    decoder, bias = "cls.predictions.decoder", "cls.predictions.bias"
    pooler = r"bert\.pooler\.dense\.(?:weight|bias)"
    masked = Head(
        "masked_language_model",
        (
            *mlm_transform("cls.predictions.transform", "LayerNorm"),
            *output_rules(decoder, bias, tied=tied),
        ),
        unused=(
            pooler,
            r"cls\.seq_relationship\.(?:weight|bias)",
            *(() if tied else (r"cls\.predictions\.bias",)),
        ),
        aliases=tied_aliases("bert.embeddings.word_embeddings.weight", decoder, bias, tied=tied),
    )
    return {
        f"{name}ForMaskedLM": masked,
        f"{name}ForPreTraining": masked,
        f"{name}ForSequenceClassification": Head(
            "text_classifier",
            (rule("bert.pooler.dense", "pooler.0"), rule("classifier", "output")),
            pooler="tanh",
        ),
        f"{name}ForTokenClassification": Head(
            "token_classifier", (rule("classifier", "output"),), unused=(pooler,)
        ),
        f"{name}Model": Head("encoder", unused=(pooler,), has_task=False),
    }


BERT = Family(
    model_type="bert",
    prefix="bert.",
    read_config=encoder_config,
    backbone=lambda config: with_prefix("bert", "", ENCODER),
    heads=lambda reader: heads("Bert", reader),
    derived_buffers=POSITION_IDS,
)
