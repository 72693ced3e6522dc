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
class Turn:
    """How numbers are laid out on both sides: theirs to the tensors of ours, and back."""

    split: Callable[[Tensor, int], Parts]  # theirs, how many parts of ours -> ours
    join: Callable[[Parts], Tensor]  # ours -> theirs


def _conv1d_split(tensor: Tensor, n: int) -> Parts:
    return tuple(part.T if part.ndim == 2 else part for part in tensor.chunk(n, -1))


def _conv1d_join(parts: Parts) -> Tensor:
    return torch.cat([part.T if part.ndim == 2 else part for part in parts], -1)


SAME = Turn(lambda tensor, n: (tensor,), lambda parts: parts[0])
CONV1D = Turn(_conv1d_split, _conv1d_join)  # GPT-2: weights (in, out), perhaps several side by side
ROW = Turn(lambda tensor, n: (tensor[0],), lambda parts: parts[0][None])  # a bias kept as (1, V)


@dataclass(frozen=True)
class Line:
    """One line of a table: their name, our names (several where they fuse what we part)."""

    theirs: str
    ours: tuple[str, ...]
    turn: Turn = SAME


def line(theirs: str, *ours: str, turn: Turn = SAME) -> Line:
    """A line of a table, its theirs first.

    >>> line("wte", "decoder.embedding.tokens").ours
    ('decoder.embedding.tokens',)
    """
    return Line(theirs, ours, turn)


def under(theirs: str, ours: str, lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines of a part of the model, put where the part stands on both sides.

    >>> under("h.{}", "decoder.stack.layers.{}", [line("mlp.c_fc", "feed_forward.up")])[0].theirs
    'h.{}.mlp.c_fc'
    """
    return tuple(
        Line(_inside(theirs, each.theirs), tuple(_inside(ours, o) for o in each.ours), each.turn)
        for each in lines
    )


def within(tower: str, lines: Iterable[Line]) -> tuple[Line, ...]:
    """The lines of one tower, as the tower alone names its modules.

    >>> within("decoder", [line("wte", "decoder.embedding.tokens"), line("x", "encoder.y")])[0].ours
    ('embedding.tokens',)
    """
    start = f"{tower}."
    return tuple(
        Line(each.theirs, tuple(name.removeprefix(start) for name in each.ours), each.turn)
        for each in lines
        if all(name.startswith(start) for name in each.ours)
    )


@dataclass(frozen=True)
class Entry:
    """One tensor of theirs, and the parameters of ours it holds."""

    theirs: str
    ours: tuple[str, ...]
    turn: Turn

    def split(self, tensor: Tensor) -> Mapping[str, Tensor]:
        """Their tensor as parameters of ours: views of the same memory.

        >>> entry = Entry("c_attn.weight", ("q.weight", "k.weight"), CONV1D)
        >>> parts = entry.split(torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]))
        >>> parts["k.weight"].tolist()
        [[3, 7], [4, 8]]
        >>> entry.join(parts).tolist()
        [[1, 2, 3, 4], [5, 6, 7, 8]]
        """
        parts = self.turn.split(tensor, len(self.ours))
        return dict(zip(self.ours, parts, strict=True))

    def join(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Parameters of ours as their tensor."""
        return self.turn.join(tuple(parameters[name] for name in self.ours))


def entries(table: Sequence[Line], names: Iterable[str]) -> list[Entry]:
    """The table written out for a model of ours that has these parameters, tied ones once.

    A line whose parameters the model has not (a layer too many, a bias it lacks) says nothing.
    Raises AssertionError when a parameter has no line: the table is not that of the model.

    >>> table = [line("wte", "tokens"), line("h.{}.fc", "layers.{}.up")]
    >>> found = entries(table, ["tokens.weight", "layers.0.up.weight", "layers.0.up.bias"])
    >>> [entry.theirs for entry in found]
    ['wte.weight', 'h.0.fc.weight', 'h.0.fc.bias']
    """
    wanted = dict.fromkeys(names)
    numbers = range(1 + max((_number(name) for name in wanted), default=0))
    found = [
        Entry(theirs, ours, each.turn)
        for each in table
        for number in (numbers if "{}" in each.theirs else range(1))
        for theirs, ours in _written_out(each, number)
        if all(name in wanted for name in ours)
    ]
    rest = wanted.keys() - {name for entry in found for name in entry.ours}
    assert not rest, f"no line for {sorted(rest)}"
    return found


def _inside(outer: str, inner: str) -> str:
    return ".".join(part for part in (outer, inner) if part)


def _number(name: str) -> int:
    return max((int(part) for part in name.split(".") if part.isdigit()), default=0)


def _written_out(each: Line, number: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    theirs = each.theirs.format(number)
    ours = tuple(name.format(number) for name in each.ours)
    yield theirs, ours
    for parameter in ("weight", "bias"):
        yield f"{theirs}.{parameter}", tuple(f"{name}.{parameter}" for name in ours)
