"""BERT (Devlin et al. 2019): klue/bert-base, KcBERT, sentence encoders, and all of its kind."""

from collections.abc import Mapping

from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.derived_buffers import counted_from_zero
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import Line, line, under

LAYER = (
    line("attention.self.query", "attention.query"),
    line("attention.self.key", "attention.key"),
    line("attention.self.value", "attention.value"),
    line("attention.output.dense", "attention.output"),
    line("attention.output.LayerNorm", "around_attention.norm"),
    line("intermediate.dense", "feed_forward.up"),
    line("output.dense", "feed_forward.down"),
    line("output.LayerNorm", "around_feed_forward.norm"),
)
ENCODER = (
    line("embeddings.word_embeddings", "encoder.embedding.tokens"),
    line("embeddings.position_embeddings", "encoder.embedding.positions"),
    line("embeddings.token_type_embeddings", "encoder.embedding.segments"),
    line("embeddings.LayerNorm", "encoder.embedding.norm"),
    *under("encoder.layer.{}", "encoder.stack.layers.{}", LAYER),
)
POSITION_IDS = {r"(?:\w+\.)?embeddings\.position_ids": counted_from_zero}


def encoder_config(settings: Settings) -> TransformerConfig:
    """The measures of BERT, RoBERTa and ELECTRA, which name them alike."""
    settings.refuse("position_embedding_type", "absolute")
    settings.refuse("is_decoder", False)
    settings.refuse("add_cross_attention", False)
    settings.refuse("pruned_heads", {})
    return TransformerConfig(
        vocabulary_size=settings.size("vocab_size", 30_522),
        d_model=settings.size("hidden_size", 768),
        n_layers=settings.layers("num_hidden_layers", 12),
        n_heads=settings.size("num_attention_heads", 12),
        d_ff=settings.size("intermediate_size", 3_072),
        activation=settings.activation("hidden_act", "gelu"),
        norm_eps=settings.small("layer_norm_eps", 1e-12),
        positions="learned",
        max_length=settings.size("max_position_embeddings", 512),
        n_segments=settings.count("type_vocab_size", 2),
        scale_embedding=False,
        embedding_norm=True,
        tie_embeddings=settings.flag("tie_word_embeddings", True),
        dropout=settings.share("hidden_dropout_prob", 0.1),
        attention_dropout=settings.share("attention_probs_dropout_prob", 0.1),
        head_activation=settings.activation("hidden_act", "gelu"),
    )


def transform(theirs: str, norm: str) -> tuple[Line, ...]:
    """The lines of the head that fills in blanks, up to its map to the vocabulary."""
    return (line(f"{theirs}.dense", "transform.0"), line(f"{theirs}.{norm}", "transform.2"))


def vocabulary_lines(decoder: str, bias: str, *, tied: bool) -> tuple[Line, ...]:
    """The map to the vocabulary: of an untied one the bias beside its weight is the one used."""
    return (
        line(f"{decoder}.weight", "output.weight"),
        line(bias if tied else f"{decoder}.bias", "output.bias"),
    )


def stored_twice(words: str, decoder: str, bias: str, *, tied: bool) -> dict[str, str]:
    """The second names of the table of tokens and of the output's bias."""
    first, second = bias, f"{decoder}.bias"
    if not tied:
        return {first: second}
    return {f"{decoder}.weight": words, second: first}


def heads(name: str, settings: Settings) -> Mapping[str, Head]:
    """The architectures of BERT and MegatronBERT."""
    tied = settings.flag("tie_word_embeddings", True)
    decoder, bias = "cls.predictions.decoder", "cls.predictions.bias"
    pooler = r"bert\.pooler\.dense\.(?:weight|bias)"
    masked = Head(
        "masked_language_model",
        (
            *transform("cls.predictions.transform", "LayerNorm"),
            *vocabulary_lines(decoder, bias, tied=tied),
        ),
        carried=(
            pooler,
            r"cls\.seq_relationship\.(?:weight|bias)",
            *(() if tied else (r"cls\.predictions\.bias",)),
        ),
        same=stored_twice("bert.embeddings.word_embeddings.weight", decoder, bias, tied=tied),
    )
    return {
        f"{name}ForMaskedLM": masked,
        f"{name}ForPreTraining": masked,
        f"{name}ForSequenceClassification": Head(
            "text_classifier",
            (line("bert.pooler.dense", "pooler.0"), line("classifier", "output")),
            pooler="tanh",
        ),
        f"{name}ForTokenClassification": Head(
            "token_classifier", (line("classifier", "output"),), carried=(pooler,)
        ),
        f"{name}Model": Head("encoder", carried=(pooler,), answers=False),
    }


BERT = Family(
    model_type="bert",
    prefix="bert.",
    config=encoder_config,
    body=lambda config: under("bert", "", ENCODER),
    heads=lambda settings: heads("Bert", settings),
    computed=POSITION_IDS,
)
