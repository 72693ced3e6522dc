"""Every tensor of a foreign file put where it belongs: learned, carried along, or wrong."""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.config import Tying
from jumok.models.weights import named_weights
from jumok.pretrained.architecture import HFArchitecture
from jumok.pretrained.meta_init import MAX_NAMES
from jumok.pretrained.name_map import TensorMapping

NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # that weights may be


class TensorAssignment:
    """The tensors that came, by the names of the table, sorted out for a module of ours.

    `weights` are parameters of ours by our names, `carried` what the module does not need, `wrong`
    what cannot be, a few words each.
    """

    def __init__(
        self,
        described: HFArchitecture,
        lines: Sequence[TensorMapping],
        model: nn.Module,
        given: Mapping[str, Tensor],
    ) -> None:
        self.weights: dict[str, Tensor] = {}
        self.unused: dict[str, Tensor] = {}
        self.errors: list[str] = []
        self._described, self._model, self._given = described, model, given
        self._wanted = named_weights(model)
        known = {entry.hf_name for entry in lines}
        same = described.head.aliases
        self._seconds = {second: first for second, first in same.items() if second not in known}
        for entry in lines:
            self._learned(entry)
        for name in [each for each in given if each not in known]:
            self._other(name)

    def raise_errors(self) -> None:
        """Raises InputError that lists all that is wrong."""
        if self.errors:
            more = (
                f"; and {len(self.errors) - MAX_NAMES} more" if len(self.errors) > MAX_NAMES else ""
            )
            raise InputError(
                f"the tensors are not those of a {self._described.class_name}: "
                f"{'; '.join(self.errors[:MAX_NAMES])}{more}; give the checkpoint's own config.json "
                "and weights"
            )

    def _learned(self, entry: TensorMapping) -> None:
        """The parameters of ours that a tensor of theirs holds."""
        here = entry.hf_name if entry.hf_name in self._given else self._second(entry.hf_name)
        if here is None:
            self._absent(entry)
            return
        tensor = self._given[here]
        if tensor.dtype not in NUMBERS:
            held = str(tensor.dtype).removeprefix("torch.")
            self.errors.append(f"{here} holds {held}, which weights are not")
            return
        parts = _split(entry, tensor)
        for name in entry.jumok_names:
            meant = tuple(self._wanted[name].shape)
            if name not in parts or tuple(parts[name].shape) != meant:
                self.errors.append(f"{here} is {tuple(tensor.shape)}, its {name} would be {meant}")
                return
        self.weights.update(parts)

    def _absent(self, entry: TensorMapping) -> None:
        """What no file holds is zero where the family allows it, else it is missing."""
        if entry.hf_name not in self._described.head.optional:
            self.errors.append(f"{entry.hf_name} is missing")
            return
        kind = next(iter(self.weights.values())).dtype if self.weights else None
        for name in entry.jumok_names:
            self.weights[name] = torch.zeros(self._wanted[name].shape, dtype=kind)

    def _other(self, name: str) -> None:
        """A tensor without a line: stored twice, computed, carried along, or nobody's."""
        tensor, first = self._given[name], self._seconds.get(name)
        if first is not None and first not in self._given:
            return  # it stood in for the first: all is well
        if first is not None and same_tensor(tensor, self._given[first]):
            return
        computed = self._described.family.derived_buffers.items()
        check = next((made for pattern, made in computed if re.fullmatch(pattern, name)), None)
        if check is not None:
            if check(self._model, tensor):
                self.unused[name] = tensor
            else:
                self.errors.append(f"{name} is not what the config says it is")
        elif any(re.fullmatch(pattern, name) for pattern in self._described.head.unused):
            self.unused[name] = tensor
        elif first is not None:
            self.errors.append(f"{name} is not {first}, with which it is tied")
        else:
            self.errors.append(f"{name} is unexpected")

    def _second(self, first: str) -> str | None:
        """Another name of a tensor under which it is stored."""
        named = (name for name, known in self._seconds.items() if known == first)
        return next((name for name in named if name in self._given), None)


def canonical_names(names: Sequence[str], described: HFArchitecture) -> dict[str, str]:
    """The names that came by those of the table.

    Towers saved alone have no prefix, and old files call the numbers of a norm gamma and beta.
    """
    prefix = described.family.prefix
    bare = not any(name.startswith(prefix) for name in names)
    of_head = {each.hf_name.partition(".")[0] for each in described.head.rules}
    of_head |= {
        name.partition(".")[0] for name in described.head.aliases if not name.startswith(prefix)
    }
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", name)
        plain = re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", plain)
        if bare and plain.partition(".")[0] not in of_head:
            plain = prefix + plain
        if plain in found:
            raise InputError(
                f"{found[plain]} and {name} came, the old and the new name of one tensor; "
                "leave one of them out"
            )
        found[plain] = name
    return found


def resolve_tying(described: HFArchitecture, given: Mapping[str, Tensor]) -> HFArchitecture:
    """Where the output is said to be tied and a table of its own is stored, it is not tied."""
    same = described.head.aliases
    output = next(
        (each.hf_name for each in described.head.rules if each.jumok_names[0].startswith("output")),
        "",
    )
    output = output if output.endswith(".weight") else f"{output}.weight"
    if output not in same or output not in given or same[output] not in given:
        return described
    if same_tensor(given[output], given[same[output]]):
        return described
    alone: Mapping[Tying, Tying] = {"all": "inputs", "target": "none"}
    inputs = described.head.kind == "encoder_decoder"
    tying = alone.get(described.config.tying, "none") if inputs else "none"
    return described.with_tying(tying)


def same_tensor(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers in the same dtype."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one.data_ptr() == other.data_ptr() or torch.equal(one, other)


def _split(entry: TensorMapping, tensor: Tensor) -> Mapping[str, Tensor]:
    """The parameters of ours in one tensor of theirs; empty when its shape has no such parts."""
    try:
        return entry.split(tensor)
    except (IndexError, RuntimeError, ValueError):  # each way of cutting has its own
        return {}
