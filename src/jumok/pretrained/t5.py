"""T5 (Raffel et al. 2020), v1.0 and v1.1, and mT5: pko-t5 and ke-t5 are of this kind.

Pre-norm layers with RMSNorm, no biases, no scaling of scores, relative positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.family import Family, Head
from jumok.pretrained.name_map import Line, line, under

ANY_LENGTH = 2**17  # positions are relative: no table ends

SELF = (
    line("SelfAttention.q", "attention.query"),
    line("SelfAttention.k", "attention.key"),
    line("SelfAttention.v", "attention.value"),
    line("SelfAttention.o", "attention.output"),
    line("layer_norm", "around_attention.norm"),
)
CROSS = (
    line("EncDecAttention.q", "cross.query"),
    line("EncDecAttention.k", "cross.key"),
    line("EncDecAttention.v", "cross.value"),
    line("EncDecAttention.o", "cross.output"),
    line("layer_norm", "around_cross.norm"),
)
PLAIN = (line("DenseReluDense.wi", "feed_forward.up"),)
GATED = (
    line("DenseReluDense.wi_0", "feed_forward.up"),
    line("DenseReluDense.wi_1", "feed_forward.gate"),
)
REST = (
    line("DenseReluDense.wo", "feed_forward.down"),
    line("layer_norm", "around_feed_forward.norm"),
)


def _tower(name: str, parts: tuple[tuple[Line, ...], ...]) -> tuple[Line, ...]:
    layers = [
        each
        for number, part in enumerate(parts)
        for each in under(f"{name}.block.{{}}.layer.{number}", f"{name}.stack.layers.{{}}", part)
    ]
    first = f"{name}.block.0.layer.0.SelfAttention.relative_attention_bias"
    return (
        *layers,
        line(first, f"{name}.stack.relative.bias"),
        line(f"{name}.final_layer_norm", f"{name}.stack.norm"),
    )


def _body(config: TransformerConfig) -> tuple[Line, ...]:
    feed_forward = (*(GATED if config.gated else PLAIN), *REST)
    return (
        line("shared", "encoder.embedding.tokens"),
        *_tower("encoder", (SELF, feed_forward)),
        *_tower("decoder", (SELF, CROSS, feed_forward)),
    )


@dataclass(frozen=True)
class _Absent:
    """What an absent key means."""

    vocabulary_size: int
    d_ff: int
    n_layers: int
    n_heads: int
    feed_forward: str


def _config(settings: Settings, absent: _Absent, *, may_scale: bool) -> TransformerConfig:
    settings.refuse("is_decoder", False)
    stated = settings.flag("tie_word_embeddings", True)
    word = settings.word("feed_forward_proj", absent.feed_forward)
    kind, _, activation = word.rpartition("-")
    if kind not in ("", "gated"):
        raise InputError(
            f"config.json: feed_forward_proj {word!r} came; give relu, gated-gelu or the like"
        )
    name = "gelu_new" if word == "gated-gelu" else activation
    layers = settings.layers("num_layers", absent.n_layers)
    rate = settings.share("dropout_rate", 0.1)
    return TransformerConfig(
        vocabulary_size=settings.size("vocab_size", absent.vocabulary_size),
        d_model=settings.size("d_model", 512),
        n_layers=layers,
        n_decoder_layers=settings.layers("num_decoder_layers", layers),
        n_heads=settings.size("num_heads", absent.n_heads),
        d_head=settings.size("d_kv", 64),
        d_ff=settings.size("d_ff", absent.d_ff),
        activation=Settings({"feed_forward_proj": name}).activation("feed_forward_proj", name),
        gated=kind == "gated",
        bias=False,
        norm="rms",
        norm_first=True,
        norm_eps=settings.small("layer_norm_epsilon", 1e-6),
        attention_scale=1.0,
        relative_buckets=settings.size("relative_attention_num_buckets", 32),
        relative_distance=settings.size("relative_attention_max_distance", 128),
        positions="relative",
        max_length=ANY_LENGTH,
        scale_embedding=False,
        # The map to the vocabulary is the table of tokens unless the file holds another; only
        # where the config calls it untied are vectors not scaled before it (v1.1).
        tie_embeddings=True,
        scale_output=may_scale and settings.flag("scale_decoder_outputs", stated),
        dropout=rate,
        attention_dropout=rate,
        activation_dropout=rate,
    )


def _heads(name: str, settings: Settings) -> Mapping[str, Head]:
    inputs = {f"{tower}.embed_tokens.weight": "shared.weight" for tower in ("encoder", "decoder")}
    old = r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    return {
        f"{name}ForConditionalGeneration": Head(
            "encoder_decoder",
            (line("lm_head", "output"),),
            carried=(old,),  # the first T5 had it, nobody reads it
            same=inputs | {"lm_head.weight": "shared.weight"},
        ),
        f"{name}Model": Head("encoder_decoder", carried=(old,), same=inputs, answers=False),
        f"{name}EncoderModel": Head(
            "encoder", same={"encoder.embed_tokens.weight": "shared.weight"}, answers=False
        ),
    }


def _family(model_type: str, name: str, absent: _Absent, *, may_scale: bool) -> Family:
    return Family(
        model_type=model_type,
        prefix="",
        config=lambda settings: _config(settings, absent, may_scale=may_scale),
        body=_body,
        heads=lambda settings: _heads(name, settings),
        computed={},
    )


T5 = _family("t5", "T5", _Absent(32_128, 2_048, 6, 8, "relu"), may_scale=True)
MT5 = _family("mt5", "MT5", _Absent(250_112, 1_024, 8, 6, "gated-gelu"), may_scale=False)
