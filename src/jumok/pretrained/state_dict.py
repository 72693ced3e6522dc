"""From a foreign checkpoint to a module of our own: every tensor accounted for, none copied."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jumok.models.weights import named_weights
from jumok.pretrained.architecture import HFArchitecture, parse_config
from jumok.pretrained.assign import TensorAssignment, canonical_names, resolve_tying
from jumok.pretrained.meta_init import assign_weights
from jumok.pretrained.name_map import expand
from jumok.pretrained.reason import check_model_size


@dataclass(frozen=True)
class PretrainedModel:
    """A foreign checkpoint as a module of ours, and what the way back needs.

    `names` says for every tensor that came which name the table gives it: most often the same one.
    `carried` are tensors the module does not need.
    """

    architecture: HFArchitecture
    model: nn.Module
    names: Mapping[str, str]
    unused: Mapping[str, Tensor]


@torch.no_grad()
def model_from_hf(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> PretrainedModel:
    """The module of a config.json whose weights are the tensors beside it, not copies of them.

    The weights keep the dtype they are stored in. Raises InputError that lists every tensor that
    is missing, unexpected, of another shape, or stored twice and different.
    """
    described = parse_config(config, list(tensors))
    named = canonical_names(list(tensors), described)
    given = {canonical: tensors[name] for canonical, name in named.items()}
    described = resolve_tying(described, given)
    check_model_size(described.config, sum(tensor.numel() for tensor in given.values()))
    model = described.build_on_meta()
    lines = expand(described.name_rules(), named_weights(model))
    found = TensorAssignment(described, lines, model, given)
    found.raise_errors()
    assign_weights(model, found.weights)
    return PretrainedModel(
        described,
        model,
        names={named[canonical]: canonical for canonical in given},
        unused=found.unused,
    )
