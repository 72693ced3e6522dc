"""Adapt a jumok model to the layout of a Hugging Face family without changing its outputs.

Sinusoids become a position table, the embedding scale is multiplied into the token table, a missing
bias becomes zeros, and interleaved sinusoids become concatenated ones by permuting the width.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jumok.models.config import Pooler, Pooling, TransformerConfig
from jumok.nn.positions import sinusoids
from jumok.pretrained.family import HeadKind
from jumok.pretrained.t5 import UNLIMITED_LENGTH

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class SourceModel:
    """A jumok model: its kind, config, weights by jumok name, labels and special token ids."""

    kind: HeadKind
    config: TransformerConfig
    weights: Mapping[str, Tensor]
    labels: tuple[str, ...] = ()
    pooling: Pooling = "first"
    pooler: Pooler = "none"
    ids: Mapping[str, int] | None = None  # {"pad": 0, "bos": 2, "eos": 3}


def adapt_encoder(source: SourceModel) -> SourceModel:
    """An encoder with learned positions, a segment table and no embedding scale."""
    adapted = adapt_backbone(source, "encoder")
    config, weights = adapted.config, dict(adapted.weights)
    if not config.n_segments:
        weights["encoder.embedding.segments.weight"] = torch.zeros(1, config.embedding_dim)
        config = replace(config, n_segments=1)
    return replace(adapted, config=config, weights=weights)


def adapt_backbone(source: SourceModel, name: str) -> SourceModel:
    """An encoder or a decoder with learned positions, if any are added, and no embedding scale."""
    config, weights = source.config, dict(source.weights)
    tokens, positions = f"{name}.embedding.tokens.weight", f"{name}.embedding.positions.weight"
    if config.positions in ("sinusoidal", "sinusoidal_halves"):
        halves = config.positions == "sinusoidal_halves"
        rows = config.position_offset + config.max_length
        table = sinusoids(rows, config.embedding_dim, halves=halves)
        weights[positions] = table[config.position_offset :]
        config = replace(config, positions="learned")
    elif config.positions == "learned" and config.position_offset:
        weights[positions] = weights[positions][config.position_offset :]
    tied = config.tying in ("all", "target")  # the output map; there is one vocabulary
    if config.scale_embedding:
        if source.kind in ("masked_language_model", "language_model") and tied:
            weights["output.weight"] = weights[tokens]
            tied = False
        weights[tokens] = weights[tokens] * config.embedding_dim**0.5
    config = replace(
        config,
        position_offset=0,
        scale_embedding=False,
        tie_embeddings="all" if tied else "none",
    )
    return replace(source, config=config, weights=weights)


def concat_sinusoids(source: SourceModel) -> SourceModel:
    """An encoder-decoder with all sines before all cosines, and a bias on its output map."""
    config, weights = source.config, dict(source.weights)
    if config.positions == "sinusoidal":
        order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
        weights = {name: _permute_width(name, tensor, order) for name, tensor in weights.items()}
        config = replace(config, positions="sinusoidal_halves")
    return _with_output_bias(replace(source, config=config, weights=weights))


def position_tables(source: SourceModel) -> Weights:
    """The position tables, which transformers expects in the file although it computes them."""
    table = sinusoids(source.config.max_length, source.config.d_model, halves=True)
    sides = ("encoder", "decoder")
    return {f"model.{side}.embed_positions.weight": table.clone() for side in sides}


def offset_positions(source: SourceModel) -> SourceModel:
    """An encoder-decoder whose position tables start with two unused rows."""
    config, weights = source.config, dict(source.weights)
    if config.positions == "learned" and config.position_offset == 0:
        for side in ("encoder", "decoder"):
            name = f"{side}.embedding.positions.weight"
            weights[name] = torch.cat([torch.zeros(2, config.embedding_dim), weights[name]])
        config = replace(config, position_offset=2)
    return _with_output_bias(replace(source, config=config, weights=weights))


def unlimited_length(source: SourceModel) -> SourceModel:
    """An encoder-decoder; relative positions get no maximum length."""
    if source.config.positions != "relative":
        return source
    return replace(source, config=replace(source.config, max_length=UNLIMITED_LENGTH))


def _with_output_bias(source: SourceModel) -> SourceModel:
    weights = dict(source.weights)
    weights.setdefault("output.bias", torch.zeros(source.config.output_size))
    return replace(source, config=replace(source.config, output_bias=True), weights=weights)


def _permute_width(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """A weight with the model width in another order."""
    module, _, parameter = name.rpartition(".")
    writes = module.endswith((".norm", "attention.output", "feed_forward.down"))
    reads = module == "output" or module.endswith(
        (".tokens", ".query", ".key", ".value", "feed_forward.up", "feed_forward.gate")
    )
    if writes:
        return tensor[order]
    return tensor[:, order] if reads and parameter == "weight" else tensor
