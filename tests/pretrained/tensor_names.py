"""The names of transformers for the tensors of a new model."""

import re

from torch import nn

from jumok.models.weights import named_weights
from jumok.pretrained.architecture import HFArchitecture
from jumok.pretrained.name_map import expand


def hf_tensor_names(model: nn.Module, architecture: HFArchitecture) -> dict[str, str]:
    """The names that transformers gives the tensors of a model that was not loaded from a file.

    Each is mapped to its canonical name. Tied tensors have their first name only, and a backbone
    without a head has no prefix.
    """
    head = architecture.head
    names = [mapping.hf_name for mapping in expand(architecture.name_rules(), named_weights(model))]
    names += [
        alias
        for alias in head.aliases
        if any(re.fullmatch(pattern, alias) for pattern in head.unused)
    ]
    prefix = "" if head.rules else architecture.family.prefix
    return {name.removeprefix(prefix): name for name in names}
