"""The way back: a module of ours as the tensors of a foreign checkpoint, under foreign names."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.models.weights import weights_of
from jumok.pretrained.architecture import Described
from jumok.pretrained.name_map import entries


def names_of(model: nn.Module, described: Described) -> dict[str, str]:
    """The names of a model that came from no checkpoint: those transformers itself would write.

    Each is mapped to the name the table gives it. Tied tensors have their first name only, and
    towers that stand alone no prefix.
    """
    head = described.head
    names = [entry.theirs for entry in entries(described.table(), weights_of(model))]
    names += [name for name in head.same if any(re.fullmatch(kept, name) for kept in head.carried)]
    prefix = "" if head.lines else described.family.prefix
    return {name.removeprefix(prefix): name for name in names}


@torch.no_grad()
def to_tensors(
    model: nn.Module,
    described: Described,
    names: Mapping[str, str],
    carried: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """The tensors of a checkpoint of which `described` tells, under the keys of `names`.

    `names` and `carried` are those of the `Pretrained` the model came from: then the same names go
    out that came, and what nobody changed has the same bytes. Without a checkpoint they are those
    of `names_of`, and nothing. What is stored twice is a tensor of its own under either name, so
    that the result can be packed.
    """
    weights = {name: parameter.detach() for name, parameter in weights_of(model).items()}
    lines = {entry.theirs: entry for entry in entries(described.table(), weights)}
    tensors: dict[str, Tensor] = {}
    gone: set[str] = set()  # first names that are out already
    for name, canonical in names.items():
        if canonical in carried:
            tensors[name] = carried[canonical].contiguous()
            continue
        first = canonical if canonical in lines else described.head.same[canonical]
        tensor = lines[first].join(weights).contiguous()
        tensors[name] = tensor.clone() if first in gone else tensor
        gone.add(first)
    return tensors
