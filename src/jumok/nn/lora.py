"""LoRA (Hu et al. 2021): a linear map whose change in fine-tuning has a low rank.

The pretrained weight W (E, D) is fixed; h = W x + (alpha / r) B A x, equation (3), with the trained
A (r, D) and B (E, r). B begins as 0, so the model begins as the pretrained one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.config_io import check_choice, check_range
from jumok.errors import ConfigError
from jumok.nn.dropout import Dropout
from jumok.nn.feedforward import PointwiseConv

LoraTarget = Literal["query", "key", "value", "output", "up", "gate", "down"]
"""The linear maps of a layer: those of attention, and those of the feed-forward network."""


@dataclass(frozen=True)
class LoraConfig:
    """The table training.lora: which maps have a low-rank change, and of which rank."""

    rank: int = 0  # r; 0: all weights are trained, without LoRA
    alpha: float = 0.0  # the change is scaled by alpha / r; 0: twice the rank
    dropout: float = 0.0  # of the inputs of A
    targets: tuple[LoraTarget, ...] = ("query", "value")  # section 4.2 and table 5 of the paper

    def __post_init__(self) -> None:
        check_range("training.lora.rank", self.rank, "[0, inf)", "; 0 turns it off")
        check_range("training.lora.alpha", self.alpha, "[0, inf)", "; 0 is twice the rank")
        check_range("training.lora.dropout", self.dropout, "[0, 1)")
        for number, target in enumerate(self.targets):
            check_choice(f"training.lora.targets[{number}]", target, LoraTarget)
        if not self.targets:
            raise ConfigError(
                "nn.lora_no_targets",
                "training.lora.targets must be of {loratarget}, got none",
                loratarget=", ".join(get_args(LoraTarget)),
            )

    @property
    def scaling(self) -> float:
        """alpha / r.

        >>> LoraConfig(rank=8).scaling, LoraConfig(rank=8, alpha=8).scaling
        (2.0, 1.0)
        """
        return (self.alpha or 2.0 * self.rank) / self.rank


class LoraLinear(nn.Linear):
    """y = W x + b + (alpha / r) B A x: x (..., D) -> (..., E).

    >>> layer = LoraLinear(nn.Linear(4, 3), LoraConfig(rank=2))
    >>> x = torch.ones(4)
    >>> torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))  # B is 0
    True
    """

    def __init__(self, linear: nn.Linear, config: LoraConfig) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.weight, self.bias = linear.weight, linear.bias  # the same tensors
        self.scaling, self.dropout = config.scaling, Dropout(config.dropout)
        like = linear.weight
        self.lora_a = nn.Parameter(like.new_empty(config.rank, linear.in_features))  # (r, D)
        self.lora_b = nn.Parameter(like.new_zeros(linear.out_features, config.rank))  # (E, r)
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))  # as nn.Linear begins

    def forward(self, x: Tensor) -> Tensor:
        """The map with its low-rank change."""
        change = F.linear(F.linear(self.dropout(x), self.lora_a), self.lora_b)
        return F.linear(x, self.weight, self.bias) + self.scaling * change

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A linear map with the weight W + (alpha / r) B A."""
        linear = nn.Linear(self.in_features, self.out_features, self.bias is not None, "meta")
        weight = self.weight + self.scaling * self.lora_b @ self.lora_a
        linear.weight = nn.Parameter(weight, requires_grad=False)
        if self.bias is not None:
            linear.bias = self.bias
        return linear


def add_lora(model: nn.Module, config: LoraConfig) -> list[str]:
    """Replace the maps of `config.targets` in all layers; return their names.

    Raises InputError if the model has none of them.

    >>> from jumok.models import Encoder, TransformerConfig
    >>> tiny = TransformerConfig(vocabulary_size=9, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> add_lora(Encoder(tiny), LoraConfig(rank=2))
    ['stack.layers.0.self_attention.query', 'stack.layers.0.self_attention.value']
    """
    names = [
        name
        for name, module in model.named_modules()
        if type(module) in (nn.Linear, PointwiseConv)
        and ".layers." in name
        and name.rpartition(".")[2] in config.targets
    ]
    if not names:
        raise ConfigError(
            "nn.lora_targets_match_nothing",
            "training.lora.targets must name linear maps of the model, got {targets}",
            targets=", ".join(config.targets),
        )
    for name in names:
        _replace(model, name, LoraLinear(_linear(model, name), config))
    return names


def merge_lora(model: nn.Module) -> None:
    """Replace every `LoraLinear` by a plain linear map with the same outputs."""
    for name, module in list(model.named_modules()):
        if isinstance(module, LoraLinear):
            _replace(model, name, module.merged())


@torch.no_grad()
def merge_lora_tensors(tensors: Mapping[str, Tensor], config: LoraConfig) -> dict[str, Tensor]:
    """The weights of a checkpoint with A and B merged; the same tensors without LoRA."""
    merged = dict(tensors)
    for name in tensors:
        if name.endswith(".lora_a"):
            linear = name.removesuffix(".lora_a")
            a, b = merged.pop(name), merged.pop(f"{linear}.lora_b")
            merged[f"{linear}.weight"] = tensors[f"{linear}.weight"] + config.scaling * b @ a
    return merged


def lora_tensors(model: nn.Module) -> dict[str, Tensor]:
    """A and B of every map, by name: `...query.lora_a` and `...query.lora_b`."""
    return {
        name: parameter.detach()
        for name, parameter in model.named_parameters()
        if name.rpartition(".")[2] in ("lora_a", "lora_b")
    }


def frozen_by_lora(names: Sequence[str]) -> set[str]:
    """The weights that LoRA fixes: those of the layers and embeddings, without A and B.

    The head is trained as a whole. No weight is fixed without A and B among the names.

    >>> sorted(frozen_by_lora(["encoder.stack.layers.0.self_attention.query.lora_a",
    ...     "encoder.stack.layers.0.self_attention.query.weight", "output.weight"]))
    ['encoder.stack.layers.0.self_attention.query.weight']
    """
    if not any(name.endswith(".lora_a") for name in names):
        return set()
    backbone = ("encoder.", "decoder.", "stack.", "embedding.")
    return {
        name
        for name in names
        if name.startswith(backbone) and name.rpartition(".")[2] not in ("lora_a", "lora_b")
    }


def _linear(model: nn.Module, name: str) -> nn.Linear:
    linear = model.get_submodule(name)
    assert isinstance(linear, nn.Linear)
    return linear


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
