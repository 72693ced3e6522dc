"""Our own models in the words of a foreign family: the config.json and the tensors that mean them.

What a family lacks but can say otherwise is said otherwise (`adapting`); what it cannot is refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.adapt import (
    Ours,
    Weights,
    any_length,
    as_decoder,
    as_encoder,
    in_halves,
    sines,
    two_rows_ahead,
)
from jumok.pretrained.architecture import Described, describe
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.family import Kind
from jumok.pretrained.hf_config import (
    Json,
    bart_words,
    bert_words,
    gpt2_words,
    marian_words,
    t5_words,
)
from jumok.pretrained.name_map import entries

_OF_TRAINING = {"dropout", "attention_dropout", "activation_dropout"}


@dataclass(frozen=True)
class Expressed:
    """The same model as a family of transformers has it."""

    described: Described
    config: Json
    tensors: Weights


def express(ours: Ours) -> Expressed:
    """The config.json and the tensors of the family that can say what this model is.

    Raises InputError that tells for the nearest family which measures stand in the way.
    """
    attempts = [_attempt(ours, way) for way in _WAYS.get(ours.kind, ())]
    for found in attempts:
        if isinstance(found, Expressed):
            return found
    obstacles = min(
        (each for each in attempts if isinstance(each, _Obstacles)), key=len, default=None
    )
    if obstacles is None:
        raise InputError(f"transformers has no model like a {ours.kind.replace('_', ' ')}")
    raise InputError(
        f"transformers cannot express this model; a {obstacles.family} could, with "
        f"{', '.join(obstacles.wanted)}; train it so, or export it to onnx or ctranslate2"
    )


@dataclass(frozen=True)
class _Way:
    """One family a kind of model may go out as."""

    model_type: str
    adapted: Callable[[Ours], Ours]  # said as the family says it
    config: Callable[[Ours], Json]  # without what all have in common
    computed: Callable[[Ours], Weights] = lambda ours: {}  # what it stores without need


@dataclass(frozen=True)
class _Obstacles:
    family: str
    wanted: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.wanted)


def _attempt(ours: Ours, way: _Way) -> Expressed | _Obstacles:
    adapted = way.adapted(ours)
    config: Json = {"model_type": way.model_type, "dtype": "float32"} | way.config(adapted)
    config |= {f"{name}_token_id": number for name, number in (ours.ids or {}).items()}
    if ours.labels:
        config["id2label"] = {str(i): name for i, name in enumerate(ours.labels)}
        config["label2id"] = {name: i for i, name in enumerate(ours.labels)}
    described = describe(config, ())
    wanted = []
    for name, head in described.family.heads(Settings(config)).items():
        if head.kind == ours.kind and head.answers:
            if head.kind == "text_classifier" and ours.pooling != "first":
                wanted.append('model.pooling = "first"')
            if head.pooler != ours.pooler:
                wanted.append(f'model.pooler = "{head.pooler}"')
            config["architectures"] = [name]
            break
    described = describe(config, ())
    if described.head.kind == "encoder_decoder" and adapted.config.tying == "inputs":
        described = described.with_tying("inputs")  # an output of its own, which the file tells
    wanted += _differences(ours.kind, adapted.config, described.config)
    if wanted:
        return _Obstacles(way.model_type, tuple(wanted))
    lines = entries(described.table(), adapted.weights)
    tensors = {entry.theirs: entry.join(adapted.weights).contiguous() for entry in lines}
    for second, first in described.head.same.items():  # written by transformers, never read
        if any(re.fullmatch(name, second) for name in described.head.carried) and first in tensors:
            tensors[second] = tensors[first].clone()
    return Expressed(described, config, tensors | way.computed(adapted))


def _differences(kind: Kind, ours: TransformerConfig, theirs: TransformerConfig) -> list[str]:
    """The measures in which the two differ, as the recipe would have to have them."""
    plain, other = _plain(ours), _plain(theirs)
    if kind != "masked_language_model":  # no other head has an activation of its own
        plain = replace(plain, head_activation=other.head_activation)
    if kind in ("text_classifier", "token_classifier"):  # they write no tokens
        plain = replace(plain, tie_embeddings=other.tie_embeddings)
    return [
        _wanted(field.name, getattr(other, field.name))
        for field in fields(TransformerConfig)
        if field.name not in _OF_TRAINING
        and getattr(plain, field.name) != getattr(other, field.name)
    ]


def _plain(config: TransformerConfig) -> TransformerConfig:
    """The same measures, each said in one way."""
    own_head = config.d_head == config.d_model // config.n_heads
    relative = config.positions == "relative"
    own_scale = config.attention_scale == (config.d_model // config.n_heads) ** -0.5
    return replace(
        config,
        d_head=None if own_head else config.d_head,
        attention_scale=None if own_scale else config.attention_scale,
        n_decoder_layers=config.n_decoder_layers or config.n_layers,
        tie_embeddings=config.tying,
        target_vocabulary_size=config.target_vocabulary_size or config.vocabulary_size,
        relative_buckets=config.relative_buckets if relative else 32,
        relative_distance=config.relative_distance if relative else 128,
    )


def _wanted(name: str, value: object) -> str:
    """What a recipe has to say.

    >>> _wanted("norm_first", True), _wanted("norm", "layer"), _wanted("d_head", None)
    ('model.norm_first = true', 'model.norm = "layer"', 'no model.d_head')
    """
    if value is None:
        return f"no model.{name}"
    if isinstance(value, bool):
        return f"model.{name} = {str(value).lower()}"
    return f"model.{name} = " + (f'"{value}"' if isinstance(value, str) else str(value))


_ENCODERS = (
    _Way("bert", as_encoder, bert_words),
    _Way("megatron-bert", as_encoder, bert_words),
)
_WAYS: Mapping[Kind, tuple[_Way, ...]] = {
    "text_classifier": _ENCODERS,
    "token_classifier": _ENCODERS,
    "masked_language_model": _ENCODERS,
    "language_model": (_Way("gpt2", as_decoder, gpt2_words),),
    "encoder_decoder": (
        _Way("marian", in_halves, marian_words),
        _Way("pegasus", in_halves, bart_words, sines),
        _Way("bart", two_rows_ahead, bart_words),
        _Way("mbart", two_rows_ahead, bart_words),
        _Way("t5", any_length, t5_words),
    ),
}
