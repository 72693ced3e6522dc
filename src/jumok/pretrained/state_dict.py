"""Hugging Face state dicts: load them into jumok modules without a copy, and save them back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jumok.models.config import TransformerConfig
from jumok.models.size import check_model_size
from jumok.models.weights import check_finite, named_weights
from jumok.pretrained.architecture import HFArchitecture, parse_config
from jumok.pretrained.assign import TensorAssignment, canonical_names, resolve_tying
from jumok.pretrained.checkpoint import open_checkpoint
from jumok.pretrained.meta_init import assign_weights
from jumok.pretrained.name_map import expand


@dataclass(frozen=True)
class PretrainedModel:
    """A Hugging Face checkpoint as a jumok module, and what is needed to save it back.

    `names` maps the name of each stored tensor to its canonical name, which is usually the same.
    `unused` are tensors that the module does not need.
    """

    architecture: HFArchitecture
    model: nn.Module
    names: Mapping[str, str]
    unused: Mapping[str, Tensor]


@torch.no_grad()
def model_from_hf(
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    on_checked: Callable[[Tensor], None] = lambda tensor: None,
) -> PretrainedModel:
    """The module that a config.json describes, with these tensors as its weights, not copied.

    The weights keep their stored dtype. Raises InputError that lists every tensor that is missing,
    unexpected, of another shape, or stored twice with different values; or names one that is not
    finite. `on_checked` is called with each tensor that was read, for example to release its pages.
    """
    architecture, names, canonical = _resolve(config, tensors)
    check_model_size(architecture.config, sum(tensor.numel() for tensor in canonical.values()))
    model = architecture.build_on_meta()
    mappings = expand(architecture.name_rules(), named_weights(model))
    assignment = TensorAssignment(architecture, mappings, model, canonical)
    assignment.raise_errors()
    used = canonical.keys() - assignment.unused.keys()
    for name in sorted(used):
        check_finite({names[name]: canonical[name]}, "a checkpoint")
        on_checked(canonical[name])
    assign_weights(model, assignment.weights)
    stored_names = {stored: name for name, stored in names.items()}
    return PretrainedModel(architecture, model, stored_names, assignment.unused)


def hf_model_config(folder: Path) -> TransformerConfig:
    """The model config of a Hugging Face folder; the tensors decide which tables are tied.

    Raises InputError for an unsupported checkpoint, StorageError if it cannot be read.
    """
    checkpoint = open_checkpoint(folder)  # mapped: only the compared tensors are read
    return _resolve(checkpoint.config, checkpoint.tensors)[0].config


def _resolve(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> tuple[HFArchitecture, dict[str, str], dict[str, Tensor]]:
    """The architecture with its actual tying, the stored names and tensors by canonical name."""
    architecture = parse_config(config, list(tensors))
    names = canonical_names(list(tensors), architecture)
    canonical = {name: tensors[stored] for name, stored in names.items()}
    return resolve_tying(architecture, canonical), names, canonical


@torch.no_grad()
def hf_state_dict(
    model: nn.Module,
    architecture: HFArchitecture,
    names: Mapping[str, str],
    unused: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """The tensors of a Hugging Face checkpoint of this architecture, under the keys of `names`.

    With `names` and `unused` of the `PretrainedModel`, the names are those of the loaded file, and
    unchanged tensors have the same bytes. A tensor that is stored twice is copied, so that the
    result can be serialized.
    """
    weights = {name: parameter.detach() for name, parameter in named_weights(model).items()}
    mappings = {mapping.hf_name: mapping for mapping in expand(architecture.name_rules(), weights)}
    tensors: dict[str, Tensor] = {}
    saved: set[str] = set()
    for name, canonical in names.items():
        if canonical in unused:
            tensors[name] = unused[canonical].contiguous()
            continue
        first = canonical if canonical in mappings else architecture.head.aliases[canonical]
        tensor = mappings[first].join(weights).contiguous()
        tensors[name] = tensor.clone() if first in saved else tensor
        saved.add(first)
    return tensors
