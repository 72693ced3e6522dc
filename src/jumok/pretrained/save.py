"""The way back: a module of ours as the tensors of a foreign checkpoint, under foreign names."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from jumok.models.weights import named_weights
from jumok.pretrained.architecture import HFArchitecture
from jumok.pretrained.name_map import expand


def hf_tensor_names(model: nn.Module, architecture: HFArchitecture) -> dict[str, str]:
    """The names of a model that came from no checkpoint: those transformers itself would write.

    Each is mapped to the name the table gives it. Tied tensors have their first name only, and
    towers that stand alone no prefix.
    """
    head = architecture.head
    names = [entry.hf_name for entry in expand(architecture.name_rules(), named_weights(model))]
    names += [
        name for name in head.aliases if any(re.fullmatch(kept, name) for kept in head.unused)
    ]
    prefix = "" if head.rules else architecture.family.prefix
    return {name.removeprefix(prefix): name for name in names}


@torch.no_grad()
def hf_state_dict(
    model: nn.Module,
    architecture: HFArchitecture,
    names: Mapping[str, str],
    unused: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """The tensors of a checkpoint of which `described` tells, under the keys of `names`.

    `names` and `carried` are those of the `Pretrained` the model came from: then the same names go
    out that came, and what nobody changed has the same bytes. Without a checkpoint they are those
    of `names_of`, and nothing. What is stored twice is a tensor of its own under either name, so
    that the result can be packed.
    """
    weights = {name: parameter.detach() for name, parameter in named_weights(model).items()}
    lines = {entry.hf_name: entry for entry in expand(architecture.name_rules(), weights)}
    tensors: dict[str, Tensor] = {}
    gone: set[str] = set()  # first names that are out already
    for name, canonical in names.items():
        if canonical in unused:
            tensors[name] = unused[canonical].contiguous()
            continue
        first = canonical if canonical in lines else architecture.head.aliases[canonical]
        tensor = lines[first].join(weights).contiguous()
        tensors[name] = tensor.clone() if first in gone else tensor
        gone.add(first)
    return tensors
