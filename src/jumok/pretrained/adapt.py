"""Our own models said as a foreign family says them, the same function all the while.

Sines become a table of positions, a scale goes into the table of tokens, a bias that is not there
is zero, and sines beside cosines become sines before cosines by another order of the width.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from jumok.models.config import TransformerConfig
from jumok.models.pooling import Pooler, Pooling
from jumok.nn.positions import sinusoids
from jumok.pretrained.family import HeadKind
from jumok.pretrained.t5 import UNLIMITED_LENGTH

Weights = dict[str, Tensor]


@dataclass(frozen=True)
class SourceModel:
    """A model of ours: its kind, measures, weights by our names, labels and special ids."""

    kind: HeadKind
    config: TransformerConfig
    weights: Mapping[str, Tensor]
    labels: tuple[str, ...] = ()
    pooling: Pooling = "first"
    pooler: Pooler = "none"
    ids: Mapping[str, int] | None = None  # {"pad": 0, "bos": 2, "eos": 3}


def adapt_encoder(ours: SourceModel) -> SourceModel:
    """An encoder with learned positions, a table of segments and no scale."""
    tower = _adapt_backbone(ours, "encoder")
    config, weights = tower.config, dict(tower.weights)
    if not config.n_segments:
        weights["encoder.embedding.segments.weight"] = torch.zeros(1, config.embedding_dim)
        config = replace(config, n_segments=1)
    return replace(tower, config=config, weights=weights)


def adapt_decoder(ours: SourceModel) -> SourceModel:
    """A decoder with learned positions and no scale."""
    return _adapt_backbone(ours, "decoder")


def _adapt_backbone(ours: SourceModel, name: str) -> SourceModel:
    config, weights = ours.config, dict(ours.weights)
    tokens, positions = f"{name}.embedding.tokens.weight", f"{name}.embedding.positions.weight"
    if config.positions in ("sinusoidal", "sinusoidal_halves"):
        halves = config.positions == "sinusoidal_halves"
        weights[positions] = sinusoids(config.max_length, config.embedding_dim, halves=halves)
        config = replace(config, positions="learned")
    elif config.positions == "learned" and config.position_offset:
        weights[positions] = weights[positions][config.position_offset :]
    tied = config.tying in ("all", "target")  # the output; there is one vocabulary
    if config.scale_embedding:
        if ours.kind in ("masked_language_model", "language_model") and tied:
            weights["output.weight"] = weights[tokens]
            tied = False
        weights[tokens] = weights[tokens] * config.embedding_dim**0.5
    config = replace(
        config,
        position_offset=0,
        scale_embedding=False,
        tie_embeddings="all" if tied else "none",
    )
    return replace(ours, config=config, weights=weights)


def concat_sinusoids(ours: SourceModel) -> SourceModel:
    """An encoder-decoder whose sines stand before its cosines, with a bias on its output."""
    config, weights = ours.config, dict(ours.weights)
    if config.positions == "sinusoidal":
        order = torch.cat([torch.arange(0, config.d_model, 2), torch.arange(1, config.d_model, 2)])
        weights = {name: _permute_width(name, tensor, order) for name, tensor in weights.items()}
        config = replace(config, positions="sinusoidal_halves")
    return _with_output_bias(replace(ours, config=config, weights=weights))


def position_tables(ours: SourceModel) -> Weights:
    """Tables of positions that transformers would compute, and still looks for."""
    table = sinusoids(ours.config.max_length, ours.config.d_model, halves=True)
    towers = ("encoder", "decoder")
    return {f"model.{tower}.embed_positions.weight": table.clone() for tower in towers}


def offset_positions(ours: SourceModel) -> SourceModel:
    """An encoder-decoder whose tables of positions begin with two rows nobody uses."""
    config, weights = ours.config, dict(ours.weights)
    if config.positions == "learned" and config.position_offset == 0:
        for tower in ("encoder", "decoder"):
            name = f"{tower}.embedding.positions.weight"
            weights[name] = torch.cat([torch.zeros(2, config.embedding_dim), weights[name]])
        config = replace(config, position_offset=2)
    return _with_output_bias(replace(ours, config=config, weights=weights))


def unlimited_length(ours: SourceModel) -> SourceModel:
    """An encoder-decoder of relative positions, which no table ends."""
    relative = ours.config.positions == "relative"
    return (
        replace(ours, config=replace(ours.config, max_length=UNLIMITED_LENGTH))
        if relative
        else ours
    )


def _with_output_bias(ours: SourceModel) -> SourceModel:
    weights = dict(ours.weights)
    weights.setdefault("output.bias", torch.zeros(ours.config.output_size))
    return replace(ours, config=replace(ours.config, output_bias=True), weights=weights)


def _permute_width(name: str, tensor: Tensor, order: Tensor) -> Tensor:
    """A weight of a model whose width stands in another order."""
    module, _, parameter = name.rpartition(".")
    writes = module.endswith((".norm", "attention.output", "feed_forward.down"))
    reads = module == "output" or module.endswith(
        (".tokens", ".query", ".key", ".value", "feed_forward.up", "feed_forward.gate")
    )
    if writes:
        return tensor[order]
    return tensor[:, order] if reads and parameter == "weight" else tensor
