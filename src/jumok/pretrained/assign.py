"""Assign every tensor of a Hugging Face checkpoint: to a weight, to `unused`, or as an error."""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from jumok.errors import Message, ModelFileError, join_messages
from jumok.models.config import Tying
from jumok.models.weight_shapes import missing, unexpected
from jumok.models.weights import named_weights
from jumok.pretrained.architecture import HFArchitecture
from jumok.pretrained.family import Family
from jumok.pretrained.name_map import NameRule

MAX_NAMES = 12  # in an error message
WEIGHT_DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


class TensorAssignment:
    """The stored tensors, by canonical name, assigned to a jumok module.

    `weights` are the jumok parameters by jumok name, `unused` the tensors that the module does not
    need, `errors` one message for each tensor that is wrong.
    """

    def __init__(
        self,
        architecture: HFArchitecture,
        mappings: Sequence[NameRule],
        model: nn.Module,
        tensors: Mapping[str, Tensor],
    ) -> None:
        self.weights: dict[str, Tensor] = {}
        self.unused: dict[str, Tensor] = {}
        self.errors: list[Message] = []
        self._architecture, self._model, self._tensors = architecture, model, tensors
        self._expected = named_weights(model)
        known = {mapping.hf_name for mapping in mappings}
        aliases = architecture.head.aliases
        self._aliases = {second: first for second, first in aliases.items() if second not in known}
        for mapping in mappings:
            self._assign(mapping)
        for name in tensors:
            if name not in known:
                self._assign_rest(name)

    def raise_errors(self) -> None:
        """Raise InputError with all errors, if there are any."""
        if self.errors:
            n_more = len(self.errors) - MAX_NAMES
            more = Message("pretrained.and_more", "; and {n} more", n=n_more)
            raise ModelFileError(
                "pretrained.wrong_tensors",
                "the tensors must be those of a {class_name}: {errors}{more}; give the "
                "checkpoint's own config.json and weights",
                class_name=self._architecture.class_name,
                errors=join_messages("; ", self.errors[:MAX_NAMES]),
                more=more if n_more > 0 else "",
            )

    def _assign(self, mapping: NameRule) -> None:
        """Assign the parameters that a stored tensor holds."""
        name = mapping.hf_name
        stored = name if name in self._tensors else self._stored_alias(name)
        if stored is None:
            self._assign_missing(mapping)
            return
        tensor = self._tensors[stored]
        if tensor.dtype not in WEIGHT_DTYPES:
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.errors.append(
                Message(
                    "pretrained.tensor_not_floating",
                    "{name} must be floating point, got {dtype}",
                    name=stored,
                    dtype=dtype,
                )
            )
            return
        parts = _split(mapping, tensor)
        for name in mapping.jumok_names:
            expected = tuple(self._expected[name].shape)
            if name not in parts or tuple(parts[name].shape) != expected:
                self.errors.append(
                    Message(
                        "pretrained.part_of_other_shape",
                        "{name} is {shape}, and its {part} must be {expected}",
                        name=stored,
                        shape=tuple(tensor.shape),
                        part=name,
                        expected=expected,
                    )
                )
                return
        self.weights.update(parts)

    def _assign_missing(self, mapping: NameRule) -> None:
        """Assign zeros to an optional tensor that is not stored; report others as missing."""
        if mapping.hf_name not in self._architecture.head.optional:
            self.errors.append(missing(mapping.hf_name))
            return
        dtype = next(iter(self.weights.values())).dtype if self.weights else None
        for name in mapping.jumok_names:
            self.weights[name] = torch.zeros(self._expected[name].shape, dtype=dtype)

    def _assign_rest(self, name: str) -> None:
        """Assign a tensor without a rule: an alias, a derived buffer, unused, or an error."""
        tensor, first = self._tensors[name], self._aliases.get(name)
        if first is not None and first not in self._tensors:
            return  # it was used in place of the first
        if first is not None and same_tensor(tensor, self._tensors[first]):
            return
        buffers = self._architecture.family.derived_buffers.items()
        check = next((check for pattern, check in buffers if re.fullmatch(pattern, name)), None)
        if check is not None:
            if check(self._model, tensor):
                self.unused[name] = tensor
            else:
                self.errors.append(
                    Message(
                        "pretrained.other_values",
                        "{name} has other values than the config defines",
                        name=name,
                    )
                )
        elif any(re.fullmatch(pattern, name) for pattern in self._architecture.head.unused):
            self.unused[name] = tensor
        elif first is not None:
            self.errors.append(
                Message(
                    "pretrained.differs_from_tied",
                    "{name} differs from {first}, to which it is tied",
                    name=name,
                    first=first,
                )
            )
        else:
            self.errors.append(unexpected(name))

    def _stored_alias(self, first: str) -> str | None:
        """The stored alias of a tensor, if any."""
        aliases = (alias for alias, name in self._aliases.items() if name == first)
        return next((alias for alias in aliases if alias in self._tensors), None)


def canonical_names(names: Sequence[str], architecture: HFArchitecture) -> dict[str, str]:
    """The stored names by canonical name.

    A backbone saved without a head has no prefix, old files name the parameters of a norm gamma
    and beta, and a family may have synonyms.
    """
    prefix = architecture.family.prefix
    renamed = {name: _without_synonyms(name, architecture.family) for name in names}
    no_prefix = not any(name.startswith(prefix) for name in renamed.values())
    head_prefixes = {rule.hf_name.partition(".")[0] for rule in architecture.head.rules}
    head_prefixes |= {
        name.partition(".")[0] for name in architecture.head.aliases if not name.startswith(prefix)
    }
    found: dict[str, str] = {}
    for name, canonical in renamed.items():
        if no_prefix and canonical.partition(".")[0] not in head_prefixes:
            canonical = prefix + canonical
        if canonical in found:
            raise ModelFileError(
                "pretrained.tensor_of_two_names",
                "a tensor must have one name, got its old and new names {found} and {name}; "
                "leave one of them out",
                found=found[canonical],
                name=name,
            )
        found[canonical] = name
    return found


def _without_synonyms(name: str, family: Family) -> str:
    name = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", name)
    for pattern, replacement in family.synonyms:
        name = re.sub(pattern, replacement, name)
    return name


def resolve_tying(architecture: HFArchitecture, tensors: Mapping[str, Tensor]) -> HFArchitecture:
    """Untie the output map if a weight of its own is stored, whatever the config says."""
    aliases = architecture.head.aliases
    output = next(
        (
            rule.hf_name
            for rule in architecture.head.rules
            if rule.jumok_names[0].startswith("output")
        ),
        "",
    )
    output = output if output.endswith(".weight") else f"{output}.weight"
    if output not in aliases or output not in tensors or aliases[output] not in tensors:
        return architecture
    if same_tensor(tensors[output], tensors[aliases[output]]):
        return architecture
    untied: Mapping[Tying, Tying] = {"all": "inputs", "target": "none"}
    seq2seq = architecture.head.kind == "encoder_decoder"
    tying = untied.get(architecture.config.tying, "none") if seq2seq else "none"
    return architecture.with_tying(tying)


def same_tensor(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same dtype, shape and values."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.data_ptr() == b.data_ptr() or torch.equal(a, b)


def _split(mapping: NameRule, tensor: Tensor) -> Mapping[str, Tensor]:
    """The jumok parameters in a stored tensor; empty if its shape cannot be split."""
    try:
        return mapping.split(tensor)
    except (IndexError, RuntimeError, ValueError):  # depends on the transform
        return {}
