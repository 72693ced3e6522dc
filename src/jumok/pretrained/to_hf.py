"""Our own models in the words of a foreign family: the config.json and the tensors that mean them.

What a family lacks but can say otherwise is said otherwise (`adapting`); what it cannot is refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.pretrained.adapt import (
    SourceModel,
    Weights,
    adapt_decoder,
    adapt_encoder,
    concat_sinusoids,
    offset_positions,
    position_tables,
    unlimited_length,
)
from jumok.pretrained.architecture import HFArchitecture, parse_config
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import HeadKind
from jumok.pretrained.hf_config import (
    Json,
    bart_config,
    bert_config,
    gpt2_config,
    marian_config,
    t5_config,
)
from jumok.pretrained.name_map import expand

_TRAINING_ONLY = {"dropout", "attention_dropout", "activation_dropout"}


@dataclass(frozen=True)
class HFModel:
    """The same model as a family of transformers has it."""

    architecture: HFArchitecture
    config: Json
    tensors: Weights


def convert_to_hf(source: SourceModel) -> HFModel:
    """The config.json and the tensors of the family that can say what this model is.

    Raises InputError that tells for the nearest family which measures stand in the way.
    """
    attempts = [_try_target(source, way) for way in _TARGETS.get(source.kind, ())]
    for found in attempts:
        if isinstance(found, HFModel):
            return found
    obstacles = min(
        (each for each in attempts if isinstance(each, _Mismatch)), key=len, default=None
    )
    if obstacles is None:
        raise InputError(f"transformers has no model like a {source.kind.replace('_', ' ')}")
    raise InputError(
        f"transformers cannot express this model; a {obstacles.family} could, with "
        f"{', '.join(obstacles.wanted)}; train it so, or export it to onnx or ctranslate2"
    )


@dataclass(frozen=True)
class _Target:
    """One family a kind of model may go out as."""

    model_type: str
    adapt: Callable[[SourceModel], SourceModel]  # said as the family says it
    config: Callable[[SourceModel], Json]  # without what all have in common
    extra_tensors: Callable[[SourceModel], Weights] = lambda ours: {}  # what it stores without need


@dataclass(frozen=True)
class _Mismatch:
    family: str
    wanted: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.wanted)


def _try_target(source: SourceModel, target: _Target) -> HFModel | _Mismatch:
    adapted = target.adapt(source)
    config: Json = {"model_type": target.model_type, "dtype": "float32"} | target.config(adapted)
    config |= {f"{name}_token_id": number for name, number in (source.ids or {}).items()}
    if source.labels:
        config["id2label"] = {str(i): name for i, name in enumerate(source.labels)}
        config["label2id"] = {name: i for i, name in enumerate(source.labels)}
    described = parse_config(config, ())
    wanted = []
    for name, head in described.family.heads(ConfigReader(config)).items():
        if head.kind == source.kind and head.has_task:
            if head.kind == "text_classifier" and source.pooling != "first":
                wanted.append('model.pooling = "first"')
            if head.pooler != source.pooler:
                wanted.append(f'model.pooler = "{head.pooler}"')
            config["architectures"] = [name]
            break
    described = parse_config(config, ())
    if described.head.kind == "encoder_decoder" and adapted.config.tying == "inputs":
        described = described.with_tying("inputs")  # an output of its own, which the file tells
    wanted += _differences(source.kind, adapted.config, described.config)
    if wanted:
        return _Mismatch(target.model_type, tuple(wanted))
    lines = expand(described.name_rules(), adapted.weights)
    tensors = {entry.hf_name: entry.join(adapted.weights).contiguous() for entry in lines}
    for second, first in described.head.aliases.items():  # written by transformers, never read
        if any(re.fullmatch(name, second) for name in described.head.unused) and first in tensors:
            tensors[second] = tensors[first].clone()
    return HFModel(described, config, tensors | target.extra_tensors(adapted))


def _differences(kind: HeadKind, ours: TransformerConfig, theirs: TransformerConfig) -> list[str]:
    """The measures in which the two differ, as the recipe would have to have them."""
    plain, other = _canonical(ours), _canonical(theirs)
    if kind != "masked_language_model":  # no other head has an activation of its own
        plain = replace(plain, head_activation=other.head_activation)
    if kind in ("text_classifier", "token_classifier"):  # they write no tokens
        plain = replace(plain, tie_embeddings=other.tie_embeddings)
    return [
        _recipe_setting(field.name, getattr(other, field.name))
        for field in fields(TransformerConfig)
        if field.name not in _TRAINING_ONLY
        and getattr(plain, field.name) != getattr(other, field.name)
    ]


def _canonical(config: TransformerConfig) -> TransformerConfig:
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
        relative_attention_num_buckets=config.relative_attention_num_buckets if relative else 32,
        relative_attention_max_distance=config.relative_attention_max_distance if relative else 128,
    )


def _recipe_setting(name: str, value: object) -> str:
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
    _Target("bert", adapt_encoder, bert_config),
    _Target("megatron-bert", adapt_encoder, bert_config),
)
_TARGETS: Mapping[HeadKind, tuple[_Target, ...]] = {
    "text_classifier": _ENCODERS,
    "token_classifier": _ENCODERS,
    "masked_language_model": _ENCODERS,
    "language_model": (_Target("gpt2", adapt_decoder, gpt2_config),),
    "encoder_decoder": (
        _Target("marian", concat_sinusoids, marian_config),
        _Target("pegasus", concat_sinusoids, bart_config, position_tables),
        _Target("bart", offset_positions, bart_config),
        _Target("mbart", offset_positions, bart_config),
        _Target("t5", unlimited_length, t5_config),
    ),
}
