"""Our own models in the words of a foreign family: the config.json and the tensors that mean them.

What a family lacks but can say otherwise is said otherwise: sines become a table of positions, a
scale goes into the table of tokens, a bias that is not there is zero, and sines beside cosines
become sines before cosines by another order of the width. What it cannot say is refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.heads import Pooler, Pooling
from jumok.nn.feedforward import Activation
from jumok.nn.positions import sinusoids
from jumok.pretrained.family import Kind
from jumok.pretrained.load import Described, describe
from jumok.pretrained.names import entries
from jumok.pretrained.settings import Settings
from jumok.pretrained.t5 import ANY_LENGTH

Weights = dict[str, Tensor]
Json = dict[str, Any]

WORDS: Mapping[Activation, str] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_tanh": "gelu_new",
    "silu": "silu",
}
_OF_TRAINING = {"dropout", "attention_dropout", "activation_dropout"}


@dataclass(frozen=True)
class Ours:
    """A model of ours: its kind, measures, weights by our names, labels and special ids."""

    kind: Kind
    config: TransformerConfig
    weights: Mapping[str, Tensor]
    labels: tuple[str, ...] = ()
    pooling: Pooling = "first"
    pooler: Pooler = "none"
    ids: Mapping[str, int] | None = None  # {"pad": 0, "bos": 2, "eos": 3}


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
    if kind != "masked_language_model":  # no other head has a bend of its own
        plain = replace(plain, head_activation=other.head_activation)
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


def _encoder(ours: Ours) -> Ours:
    """An encoder with learned positions, a table of segments and no scale."""
    tower = _towered(ours, "encoder")
    config, weights = tower.config, dict(tower.weights)
    if not config.n_segments:
        weights["encoder.embedding.segments.weight"] = torch.zeros(1, config.width)
        config = replace(config, n_segments=1)
    return replace(tower, config=config, weights=weights)


def _decoder(ours: Ours) -> Ours:
    """A decoder with learned positions and no scale."""
    return _towered(ours, "decoder")


def _towered(ours: Ours, name: str) -> Ours:
    config, weights = ours.config, dict(ours.weights)
    tokens, positions = f"{name}.embedding.tokens.weight", f"{name}.embedding.positions.weight"
    if config.positions in ("sinusoidal", "sinusoidal_halves"):
        halves = config.positions == "sinusoidal_halves"
        weights[positions] = sinusoids(config.max_length, config.width, halves=halves)
        config = replace(config, positions="learned")
    elif config.positions == "learned" and config.first_position:
        weights[positions] = weights[positions][config.first_position :]
    config = replace(config, first_position=0)
    if config.scale_embedding:
        if ours.kind in ("masked_language_model", "language_model") and config.tying != "none":
            weights["output.weight"] = weights[tokens]
            config = replace(config, tie_embeddings="none")
        weights[tokens] = weights[tokens] * config.width**0.5
        config = replace(config, scale_embedding=False)
    return replace(ours, config=config, weights=weights)


def _in_halves(ours: Ours) -> Ours:
    """An encoder-decoder whose sines stand before its cosines, with a bias on its output."""
    config, weights = ours.config, dict(ours.weights)
    if config.positions == "sinusoidal":
        order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
        weights = {name: _reordered(name, tensor, order) for name, tensor in weights.items()}
        config = replace(config, positions="sinusoidal_halves")
    return _with_bias(replace(ours, config=config, weights=weights))


def _sines(ours: Ours) -> Weights:
    """Tables of positions that transformers would compute, and still looks for."""
    table = sinusoids(ours.config.max_length, ours.config.d_model, halves=True)
    towers = ("encoder", "decoder")
    return {f"model.{tower}.embed_positions.weight": table.clone() for tower in towers}


def _two_rows_ahead(ours: Ours) -> Ours:
    """An encoder-decoder whose tables of positions begin with two rows nobody uses."""
    config, weights = ours.config, dict(ours.weights)
    if config.positions == "learned" and config.first_position == 0:
        for tower in ("encoder", "decoder"):
            name = f"{tower}.embedding.positions.weight"
            weights[name] = torch.cat([torch.zeros(2, config.width), weights[name]])
        config = replace(config, first_position=2)
    return _with_bias(replace(ours, config=config, weights=weights))


def _any_length(ours: Ours) -> Ours:
    """An encoder-decoder of relative positions, which no table ends."""
    relative = ours.config.positions == "relative"
    return replace(ours, config=replace(ours.config, max_length=ANY_LENGTH)) if relative else ours


def _with_bias(ours: Ours) -> Ours:
    weights = dict(ours.weights)
    weights.setdefault("output.bias", torch.zeros(ours.config.output_size))
    return replace(ours, config=replace(ours.config, output_bias=True), weights=weights)


def _reordered(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """A weight of a model whose width stands in another order."""
    module, _, parameter = name.rpartition(".")
    writes = module.endswith((".norm", "attention.output", "cross.output", "feed_forward.down"))
    reads = module == "output" or module.endswith(
        (".tokens", ".query", ".key", ".value", "feed_forward.up", "feed_forward.gate")
    )
    if writes:
        return tensor[order]
    return tensor[:, order] if reads and parameter == "weight" else tensor


def _bert_words(ours: Ours) -> Json:
    config = ours.config
    return {
        "vocab_size": config.vocabulary_size,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.d_ff,
        "hidden_act": WORDS[config.activation],
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "max_position_embeddings": config.max_length,
        "type_vocab_size": config.n_segments,
        "layer_norm_eps": config.norm_eps,
        "tie_word_embeddings": config.tying != "none",
    }


def _gpt2_words(ours: Ours) -> Json:
    config = ours.config
    return {
        "vocab_size": config.vocabulary_size,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "n_positions": config.max_length,
        "activation_function": WORDS[config.activation],
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": config.attention_dropout,
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.tying != "none",
    }


def _bart_words(ours: Ours) -> Json:
    config = ours.config
    return {
        "vocab_size": config.vocabulary_size,
        "d_model": config.d_model,
        "encoder_layers": config.n_layers,
        "decoder_layers": config.n_decoder_layers or config.n_layers,
        "encoder_attention_heads": config.n_heads,
        "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_length,
        "activation_function": WORDS[config.activation],
        "scale_embedding": config.scale_embedding,
        "tie_word_embeddings": config.tying != "none",
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "activation_dropout": config.activation_dropout,
        "is_encoder_decoder": True,
        "decoder_start_token_id": (ours.ids or {}).get("bos", 0),
        "forced_eos_token_id": None,
    }


def _marian_words(ours: Ours) -> Json:
    config = ours.config
    return _bart_words(ours) | {
        "share_encoder_decoder_embeddings": config.tying == "all",
        "decoder_vocab_size": config.output_size,
    }


def _t5_words(ours: Ours) -> Json:
    config = ours.config
    bend = "gelu" if config.gated and config.activation == "gelu_tanh" else WORDS[config.activation]
    return {
        "vocab_size": config.vocabulary_size,
        "d_model": config.d_model,
        "d_kv": config.d_head or config.d_model // config.n_heads,
        "d_ff": config.d_ff,
        "num_layers": config.n_layers,
        "num_decoder_layers": config.n_decoder_layers or config.n_layers,
        "num_heads": config.n_heads,
        "relative_attention_num_buckets": config.relative_buckets,
        "relative_attention_max_distance": config.relative_distance,
        "dropout_rate": config.dropout,
        "layer_norm_epsilon": config.norm_eps,
        "feed_forward_proj": f"gated-{bend}" if config.gated else bend,
        "tie_word_embeddings": config.scale_output,
        "is_encoder_decoder": True,
        "decoder_start_token_id": (ours.ids or {}).get("bos", 0),
    }


_ENCODERS = (
    _Way("bert", _encoder, _bert_words),
    _Way("megatron-bert", _encoder, _bert_words),
)
_WAYS: Mapping[Kind, tuple[_Way, ...]] = {
    "text_classifier": _ENCODERS,
    "token_classifier": _ENCODERS,
    "masked_language_model": _ENCODERS,
    "language_model": (_Way("gpt2", _decoder, _gpt2_words),),
    "encoder_decoder": (
        _Way("marian", _in_halves, _marian_words),
        _Way("pegasus", _in_halves, _bart_words, _sines),
        _Way("bart", _two_rows_ahead, _bart_words),
        _Way("mbart", _two_rows_ahead, _bart_words),
        _Way("t5", _any_length, _t5_words),
    ),
}
