"""One table of names a family: where each tensor of a foreign checkpoint lives in our modules.

A line names a module or a parameter of theirs and of ours; `{}` stands for the number of a layer.
The same table is read both ways, so what comes in goes out again under the same names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Parts = tuple[Tensor, ...]


@dataclass(frozen=True)
class Transform:
    """How numbers are laid out on both sides: theirs to the tensors of ours, and back."""

    split: Callable[[Tensor, int], Parts]  # theirs, how many parts of ours -> ours
    join: Callable[[Parts], Tensor]  # ours -> theirs


def _conv1d_split(tensor: Tensor, n: int) -> Parts:
    return tuple(part.T if part.ndim == 2 else part for part in tensor.chunk(n, -1))


def _conv1d_join(parts: Parts) -> Tensor:
    return torch.cat([part.T if part.ndim == 2 else part for part in parts], -1)


IDENTITY = Transform(lambda tensor, n: (tensor,), lambda parts: parts[0])
CONV1D = Transform(
    _conv1d_split, _conv1d_join
)  # GPT-2: weights (in, out), perhaps several side by side
ROW_VECTOR = Transform(
    lambda tensor, n: (tensor[0],), lambda parts: parts[0][None]
)  # a bias kept as (1, V)


@dataclass(frozen=True)
class NameRule:
    """One line of a table: their name, our names (several where they fuse what we part)."""

    hf_name: str
    jumok_names: tuple[str, ...]
    transform: Transform = IDENTITY


def rule(hf_name: str, *jumok_names: str, transform: Transform = IDENTITY) -> NameRule:
    """A line of a table, its theirs first.

    >>> line("wte", "decoder.embedding.tokens").ours
    ('decoder.embedding.tokens',)
    """
    return NameRule(hf_name, jumok_names, transform)


def with_prefix(
    hf_prefix: str, jumok_prefix: str, rules: Iterable[NameRule]
) -> tuple[NameRule, ...]:
    """The lines of a part of the model, put where the part stands on both sides.

    >>> under("h.{}", "decoder.stack.layers.{}", [line("mlp.c_fc", "feed_forward.up")])[0].theirs
    'h.{}.mlp.c_fc'
    """
    return tuple(
        NameRule(
            _join(hf_prefix, each.hf_name),
            tuple(_join(jumok_prefix, o) for o in each.jumok_names),
            each.transform,
        )
        for each in rules
    )


def without_prefix(prefix: str, rules: Iterable[NameRule]) -> tuple[NameRule, ...]:
    """The lines of one tower, as the tower alone names its modules.

    >>> within("decoder", [line("wte", "decoder.embedding.tokens"), line("x", "encoder.y")])[0].ours
    ('embedding.tokens',)
    """
    start = f"{prefix}."
    return tuple(
        NameRule(
            each.hf_name,
            tuple(name.removeprefix(start) for name in each.jumok_names),
            each.transform,
        )
        for each in rules
        if all(name.startswith(start) for name in each.jumok_names)
    )


@dataclass(frozen=True)
class TensorMapping:
    """One tensor of theirs, and the parameters of ours it holds."""

    hf_name: str
    jumok_names: tuple[str, ...]
    transform: Transform

    def split(self, tensor: Tensor) -> Mapping[str, Tensor]:
        """Their tensor as parameters of ours: views of the same memory.

        >>> entry = Entry("c_attn.weight", ("q.weight", "k.weight"), CONV1D)
        >>> parts = entry.split(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]))
        >>> parts["k.weight"].tolist()
        [[3, 7], [4, 8]]
        >>> entry.join(parts).tolist()
        [[1, 2, 3, 4], [5, 6, 7, 8]]
        """
        parts = self.transform.split(tensor, len(self.jumok_names))
        return dict(zip(self.jumok_names, parts, strict=True))

    def join(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Parameters of ours as their tensor."""
        return self.transform.join(tuple(parameters[name] for name in self.jumok_names))


def expand(rules: Sequence[NameRule], parameter_names: Iterable[str]) -> list[TensorMapping]:
    """The table written out for a model of ours that has these parameters, tied ones once.

    A line whose parameters the model has not (a layer too many, a bias it lacks) says nothing.
    Raises AssertionError when a parameter has no line: the table is not that of the model.

    >>> table = [line("wte", "tokens"), line("h.{}.fc", "layers.{}.up")]
    >>> found = entries(table, ["tokens.weight", "layers.0.up.weight", "layers.0.up.bias"])
    >>> [entry.theirs for entry in found]
    ['wte.weight', 'h.0.fc.weight', 'h.0.fc.bias']
    """
    expected = dict.fromkeys(parameter_names)
    numbers = range(1 + max((_layer_index(name) for name in expected), default=0))
    found = [
        TensorMapping(theirs, ours, each.transform)
        for each in rules
        for number in (numbers if "{}" in each.hf_name else range(1))
        for theirs, ours in _expand_rule(each, number)
        if all(name in expected for name in ours)
    ]
    unmapped = expected.keys() - {name for entry in found for name in entry.jumok_names}
    assert not unmapped, f"no line for {sorted(unmapped)}"
    return found


def _join(outer: str, inner: str) -> str:
    return ".".join(part for part in (outer, inner) if part)


def _layer_index(name: str) -> int:
    return max((int(part) for part in name.split(".") if part.isdigit()), default=0)


def _expand_rule(each: NameRule, number: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    theirs = each.hf_name.format(number)
    ours = tuple(name.format(number) for name in each.jumok_names)
    yield theirs, ours
    for parameter in ("weight", "bias"):
        yield f"{theirs}.{parameter}", tuple(f"{name}.{parameter}" for name in ours)
