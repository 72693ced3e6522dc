"""Convert a jumok model to a Hugging Face family: its config.json and tensors.

Features that a family lacks are converted to equivalent ones (`adapt`) or raise InputError.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial

from jumok.errors import ModelFileError
from jumok.models.config import TransformerConfig
from jumok.pretrained.adapt import (
    SourceModel,
    Weights,
    adapt_backbone,
    adapt_encoder,
    concat_sinusoids,
    offset_positions,
    position_tables,
    unlimited_length,
)
from jumok.pretrained.architecture import HFArchitecture, parse_config
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.deberta import deberta_config
from jumok.pretrained.family import HeadKind
from jumok.pretrained.hf_config import (
    Json,
    bart_config,
    bert_config,
    exaone4_config,
    gpt2_config,
    llama_config,
    marian_config,
    mistral_config,
    qwen3_config,
    t5_config,
)
from jumok.pretrained.modernbert import modernbert_config
from jumok.pretrained.name_map import expand

_TRAINING_ONLY = {"dropout", "attention_dropout", "activation_dropout"}


@dataclass(frozen=True)
class HFModel:
    """A model in the format of transformers."""

    architecture: HFArchitecture
    config: Json
    tensors: Weights
    names: Mapping[str, str]  # of the jumok weights that are one tensor each


def convert_to_hf(source: SourceModel) -> HFModel:
    """The model in the first family that supports it.

    Raises InputError that names the recipe keys to change for the closest family.
    """
    attempts = [_try_target(source, target) for target in _TARGETS.get(source.kind, ())]
    for result in attempts:
        if isinstance(result, HFModel):
            return result
    mismatches = (result for result in attempts if isinstance(result, _Mismatch))
    closest = min(mismatches, key=len, default=None)
    if closest is None:
        raise ModelFileError(
            "pretrained.transformers_no_equivalent",
            "transformers has no equivalent of {kind}",
            kind=source.kind.replace("_", " "),
        )
    raise ModelFileError(
        "pretrained.no_family_for_export",
        "no family of transformers supports this model; {family} does with {settings}; train it "
        "with these",
        family=closest.family,
        settings=", ".join(closest.settings),
    )


@dataclass(frozen=True)
class _Target:
    """A family that a kind of model can be converted to."""

    model_type: str
    adapt: Callable[[SourceModel], SourceModel]  # to the layout of the family
    config: Callable[[SourceModel], Json]  # without the common keys
    extra_tensors: Callable[[SourceModel], Weights] = lambda source: {}  # stored, but not needed


@dataclass(frozen=True)
class _Mismatch:
    family: str
    settings: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.settings)


def _try_target(source: SourceModel, target: _Target) -> HFModel | _Mismatch:
    adapted = target.adapt(source)
    config: Json = {"model_type": target.model_type, "dtype": "float32"} | target.config(adapted)
    config |= {f"{name}_token_id": number for name, number in (source.ids or {}).items()}
    if source.labels:
        config["id2label"] = {str(i): name for i, name in enumerate(source.labels)}
        config["label2id"] = {name: i for i, name in enumerate(source.labels)}
    architecture = parse_config(config, ())
    settings = []
    for name, head in architecture.family.heads(ConfigReader(config)).items():
        if head.kind == source.kind and (head.has_task or head.kind == "encoder"):
            if head.kind == "text_classifier" and source.pooling != head.pooling:
                settings.append(f'model.pooling = "{head.pooling}"')
            if head.pooler != source.pooler:
                settings.append(f'model.pooler = "{head.pooler}"')
            config["architectures"] = [name]
            break
    architecture = parse_config(config, ())
    if architecture.head.kind == "encoder_decoder" and adapted.config.tying == "inputs":
        architecture = architecture.with_tying("inputs")  # its output map is stored
    settings += _differences(source.kind, adapted.config, architecture.config)
    if settings:
        return _Mismatch(target.model_type, tuple(settings))
    weights = adapted.weights
    if source.kind == "encoder":
        weights = {name.removeprefix("encoder."): weight for name, weight in weights.items()}
    mappings = expand(architecture.name_rules(), weights)
    tensors = {mapping.hf_name: mapping.join(weights).contiguous() for mapping in mappings}
    for alias, first in architecture.head.aliases.items():  # written by transformers, never read
        if any(re.fullmatch(name, alias) for name in architecture.head.unused) and first in tensors:
            tensors[alias] = tensors[first].clone()
    names = {m.jumok_names[0]: m.hf_name for m in mappings if len(m.jumok_names) == 1}
    return HFModel(architecture, config, tensors | target.extra_tensors(adapted), names)


def _differences(kind: HeadKind, jumok: TransformerConfig, hf: TransformerConfig) -> list[str]:
    """The recipe settings that would make the config equal to that of the family."""
    jumok, hf = _canonical(jumok), _canonical(hf)
    if kind in ("masked_language_model", "encoder"):
        jumok = replace(jumok, head_transform=hf.head_transform)
    if kind != "masked_language_model" and (kind == "encoder" or not jumok.head_transform):
        # other heads have no such layers
        jumok = replace(jumok, head_activation=hf.head_activation, head_bias=hf.head_bias)
    if kind in ("encoder", "text_classifier", "token_classifier"):  # no output map to tokens
        jumok = replace(jumok, tie_embeddings=hf.tie_embeddings)
    return [
        _recipe_setting(field.name, getattr(hf, field.name))
        for field in fields(TransformerConfig)
        if field.name not in _TRAINING_ONLY
        and getattr(jumok, field.name) != getattr(hf, field.name)
    ]


def _canonical(config: TransformerConfig) -> TransformerConfig:
    """The config with defaults and equivalent values resolved."""
    own_head = config.d_head == config.d_model // config.n_heads
    relative = config.positions == "relative" or config.attention == "disentangled"
    as_bias = "all" if config.bias else "none"
    kinds = config.layer_kinds(max(config.n_layers, config.n_decoder_layers or 0))
    own_scale = config.attention_scale == replace(config, attention_scale=None).score_scale
    return replace(
        config,
        d_head=None if own_head else config.d_head,
        fused_qkv=False,  # how the same function is computed
        ffn_projection="linear",
        attention_scale=None if own_scale else config.attention_scale,
        attention_bias=None if config.attention_bias == as_bias else config.attention_bias,
        local_rope=config.local_rope or (config.rope if config.sliding_window else None),
        n_kv_heads=config.n_kv_heads or config.n_heads,
        layer_pattern=kinds[0] if len(set(kinds)) == 1 else kinds,
        n_decoder_layers=config.n_decoder_layers or config.n_layers,
        tie_embeddings=config.tying,
        target_vocabulary_size=config.target_vocabulary_size or config.vocabulary_size,
        relative_attention_num_buckets=config.relative_attention_num_buckets if relative else 32,
        relative_attention_max_distance=config.relative_attention_max_distance if relative else 128,
    )


def _recipe_setting(name: str, value: object) -> str:
    """A setting as a recipe has it.

    >>> _recipe_setting("norm_first", True), _recipe_setting("norm", "layer")
    ('model.norm_first = true', 'model.norm = "layer"')
    >>> _recipe_setting("d_head", None)
    'no model.d_head'
    """
    if value is None:
        return f"no model.{name}"
    if isinstance(value, bool):
        return f"model.{name} = {str(value).lower()}"
    return f"model.{name} = " + (f'"{value}"' if isinstance(value, str) else str(value))


_adapt_plain_encoder = partial(adapt_backbone, name="encoder")
_adapt_decoder = partial(adapt_backbone, name="decoder")
_ENCODERS = (
    _Target("bert", adapt_encoder, bert_config),
    _Target("megatron-bert", adapt_encoder, bert_config),
    _Target("modernbert", _adapt_plain_encoder, modernbert_config),
    _Target("deberta-v2", _adapt_plain_encoder, deberta_config),
)
_TARGETS: Mapping[HeadKind, tuple[_Target, ...]] = {
    "encoder": _ENCODERS,
    "text_classifier": _ENCODERS,
    "token_classifier": _ENCODERS,
    "masked_language_model": _ENCODERS,
    "language_model": (
        _Target("gpt2", _adapt_decoder, gpt2_config),
        _Target("llama", _adapt_decoder, llama_config),
        _Target("mistral", _adapt_decoder, mistral_config),
        # not qwen2: AutoTokenizer opens each of its folders with a tokenizer of Qwen2's own
        _Target("qwen3", _adapt_decoder, qwen3_config),
        _Target("exaone4", _adapt_decoder, exaone4_config),
    ),
    "encoder_decoder": (
        _Target("marian", concat_sinusoids, marian_config),
        _Target("pegasus", concat_sinusoids, bart_config, position_tables),
        _Target("bart", offset_positions, bart_config),
        _Target("mbart", offset_positions, bart_config),
        _Target("t5", unlimited_length, t5_config),
    ),
}
