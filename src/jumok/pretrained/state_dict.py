"""From a foreign checkpoint to a module of our own: every tensor accounted for, none copied."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from jumok.models.weights import weights_of
from jumok.pretrained.architecture import Described, describe
from jumok.pretrained.assign import Sorting, by_the_table, untied
from jumok.pretrained.meta_init import hold
from jumok.pretrained.name_map import entries
from jumok.pretrained.reason import refuse_giants


@dataclass(frozen=True)
class Pretrained:
    """A foreign checkpoint as a module of ours, and what the way back needs.

    `names` says for every tensor that came which name the table gives it: most often the same one.
    `carried` are tensors the module does not need.
    """

    described: Described
    model: nn.Module
    names: Mapping[str, str]
    carried: Mapping[str, Tensor]


@torch.no_grad()
def open_model(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Pretrained:
    """The module of a config.json whose weights are the tensors beside it, not copies of them.

    The weights keep the dtype they are stored in. Raises InputError that lists every tensor that
    is missing, unexpected, of another shape, or stored twice and different.
    """
    described = describe(config, list(tensors))
    named = by_the_table(list(tensors), described)
    given = {canonical: tensors[name] for canonical, name in named.items()}
    described = untied(described, given)
    refuse_giants(described.config, sum(tensor.numel() for tensor in given.values()))
    model = described.unfilled()
    lines = entries(described.table(), weights_of(model))
    found = Sorting(described, lines, model, given)
    found.refuse_wrong()
    hold(model, found.weights)
    return Pretrained(
        described,
        model,
        names={named[canonical]: canonical for canonical in given},
        carried=found.carried,
    )
