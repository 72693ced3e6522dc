"""Every tensor of a foreign file put where it belongs: learned, carried along, or wrong."""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.config import Tying
from jumok.models.weights import weights_of
from jumok.pretrained.architecture import Described
from jumok.pretrained.meta_init import SHOWN
from jumok.pretrained.name_map import Entry

NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # that weights may be


class Sorting:
    """The tensors that came, by the names of the table, sorted out for a module of ours.

    `weights` are parameters of ours by our names, `carried` what the module does not need, `wrong`
    what cannot be, a few words each.
    """

    def __init__(
        self,
        described: Described,
        lines: Sequence[Entry],
        model: nn.Module,
        given: Mapping[str, Tensor],
    ) -> None:
        self.weights: dict[str, Tensor] = {}
        self.carried: dict[str, Tensor] = {}
        self.wrong: list[str] = []
        self._described, self._model, self._given = described, model, given
        self._wanted = weights_of(model)
        known = {entry.theirs for entry in lines}
        same = described.head.same
        self._seconds = {second: first for second, first in same.items() if second not in known}
        for entry in lines:
            self._learned(entry)
        for name in [each for each in given if each not in known]:
            self._other(name)

    def refuse_wrong(self) -> None:
        """Raises InputError that lists all that is wrong."""
        if self.wrong:
            more = f"; and {len(self.wrong) - SHOWN} more" if len(self.wrong) > SHOWN else ""
            raise InputError(
                f"the tensors are not those of a {self._described.architecture}: "
                f"{'; '.join(self.wrong[:SHOWN])}{more}; give the checkpoint's own config.json "
                "and weights"
            )

    def _learned(self, entry: Entry) -> None:
        """The parameters of ours that a tensor of theirs holds."""
        here = entry.theirs if entry.theirs in self._given else self._second(entry.theirs)
        if here is None:
            self._absent(entry)
            return
        tensor = self._given[here]
        if tensor.dtype not in NUMBERS:
            held = str(tensor.dtype).removeprefix("torch.")
            self.wrong.append(f"{here} holds {held}, which weights are not")
            return
        parts = _split(entry, tensor)
        for name in entry.ours:
            meant = tuple(self._wanted[name].shape)
            if name not in parts or tuple(parts[name].shape) != meant:
                self.wrong.append(f"{here} is {tuple(tensor.shape)}, its {name} would be {meant}")
                return
        self.weights.update(parts)

    def _absent(self, entry: Entry) -> None:
        """What no file holds is zero where the family allows it, else it is missing."""
        if entry.theirs not in self._described.head.absent:
            self.wrong.append(f"{entry.theirs} is missing")
            return
        kind = next(iter(self.weights.values())).dtype if self.weights else None
        for name in entry.ours:
            self.weights[name] = torch.zeros(self._wanted[name].shape, dtype=kind)

    def _other(self, name: str) -> None:
        """A tensor without a line: stored twice, computed, carried along, or nobody's."""
        tensor, first = self._given[name], self._seconds.get(name)
        if first is not None and first not in self._given:
            return  # it stood in for the first: all is well
        if first is not None and alike(tensor, self._given[first]):
            return
        computed = self._described.family.computed.items()
        check = next((made for pattern, made in computed if re.fullmatch(pattern, name)), None)
        if check is not None:
            if check(self._model, tensor):
                self.carried[name] = tensor
            else:
                self.wrong.append(f"{name} is not what the config says it is")
        elif any(re.fullmatch(pattern, name) for pattern in self._described.head.carried):
            self.carried[name] = tensor
        elif first is not None:
            self.wrong.append(f"{name} is not {first}, with which it is tied")
        else:
            self.wrong.append(f"{name} is unexpected")

    def _second(self, first: str) -> str | None:
        """Another name of a tensor under which it is stored."""
        named = (name for name, known in self._seconds.items() if known == first)
        return next((name for name in named if name in self._given), None)


def by_the_table(names: Sequence[str], described: Described) -> dict[str, str]:
    """The names that came by those of the table.

    Towers saved alone have no prefix, and old files call the numbers of a norm gamma and beta.
    """
    prefix = described.family.prefix
    bare = not any(name.startswith(prefix) for name in names)
    of_head = {each.theirs.partition(".")[0] for each in described.head.lines}
    of_head |= {
        name.partition(".")[0] for name in described.head.same if not name.startswith(prefix)
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


def untied(described: Described, given: Mapping[str, Tensor]) -> Described:
    """Where the output is said to be tied and a table of its own is stored, it is not tied."""
    same = described.head.same
    output = next(
        (each.theirs for each in described.head.lines if each.ours[0].startswith("output")), ""
    )
    output = output if output.endswith(".weight") else f"{output}.weight"
    if output not in same or output not in given or same[output] not in given:
        return described
    if alike(given[output], given[same[output]]):
        return described
    alone: Mapping[Tying, Tying] = {"all": "inputs", "target": "none"}
    inputs = described.head.kind == "encoder_decoder"
    tying = alone.get(described.config.tying, "none") if inputs else "none"
    return described.with_tying(tying)


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers in the same dtype."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one.data_ptr() == other.data_ptr() or torch.equal(one, other)


def _split(entry: Entry, tensor: Tensor) -> Mapping[str, Tensor]:
    """The parameters of ours in one tensor of theirs; empty when its shape has no such parts."""
    try:
        return entry.split(tensor)
    except (IndexError, RuntimeError, ValueError):  # each way of cutting has its own
        return {}
