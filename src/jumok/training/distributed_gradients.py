"""The gradients of one step, of which every process found a part, summed.

    ordinary   each process has the sum of its own; one sum of these over all processes
    strict     each batch's gradient is kept apart, and the sum is one fixed tree over them:

                   ((0 + 1) + (2 + 3))        whoever found them; so its bits are the same
                                              with any number of processes

Gradients travel in flat buckets; behind the last number of all stands, for each weight, from how
many parts it got a gradient: one that got none has none in the end either.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor, nn

from jumok.training.distributed import Processes, shards_of

BUCKET = 2**23  # numbers: 32 MB of float32

Buckets = list[Tensor]


@dataclass(frozen=True)
class Flat:
    """The gradients of some weights as few long vectors, and back.

    >>> weight = nn.Parameter(torch.zeros(2, 2))
    >>> weight.grad = torch.ones(2, 2)
    >>> Flat.of([weight]).collect()
    [tensor([1., 1., 1., 1.]), tensor([1.])]
    """

    groups: list[list[nn.Parameter]] = field(default_factory=list)

    @classmethod
    def of(cls, parameters: Iterable[nn.Parameter]) -> "Flat":
        """The weights that learn, in their order, a bucket's worth together."""
        groups: list[list[nn.Parameter]] = []
        room = 0
        for parameter in parameters:
            if parameter.requires_grad:
                if not groups or parameter.numel() > room:
                    groups.append([])
                    room = BUCKET
                groups[-1].append(parameter)
                room -= parameter.numel()
        return cls(groups)

    def collect(self) -> Buckets:
        """Copies of all gradients; the weights have none afterwards."""
        there = [float(p.grad is not None) for group in self.groups for p in group]
        buckets = []
        for group in self.groups:
            parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in group]
            buckets.append(torch.cat([part.flatten() for part in parts]))
            for parameter in group:
                parameter.grad = None
        return [*buckets, torch.tensor(there, device=buckets[0].device)]

    def spread(self, buckets: Buckets) -> None:
        """Give the weights their parts of the buckets, which they share from now on."""
        *vectors, there = buckets
        counts = iter(there.tolist())
        for group, vector in zip(self.groups, vectors, strict=True):
            parts = torch.split(vector, [p.numel() for p in group])
            for parameter, part in zip(group, parts, strict=True):
                parameter.grad = part.view_as(parameter) if next(counts) else None

    def empty(self) -> Buckets:
        """Room for the buckets of another process."""
        weights = list(chain.from_iterable(self.groups))
        lengths = [sum(p.numel() for p in group) for group in self.groups]
        return [weights[0].new_empty(n) for n in (*lengths, len(weights))]


def sum_once(parameters: Iterable[nn.Parameter], processes: Processes) -> None:
    """The gradients of every process, each with the sum of its own, become those of all."""
    if processes.size == 1:
        return
    flat = Flat.of(parameters)
    buckets = flat.collect()
    for bucket in buckets:
        processes.sum(bucket)
    flat.spread(buckets)


def sum_in_a_tree(
    parameters: Iterable[nn.Parameter],
    n: int,
    processes: Processes,
    find: Callable[[int], None],
) -> None:
    """The gradients of n batches summed in a fixed tree; `find(i)` leaves those of batch i.

    It is called for the batches that are this process's own (`shards_of`). A sum belongs to the
    owner of its first batch, and to it go the sums that others found; rank 0 has the last one and
    gives it to all. At most log2(n) + 2 sums are held at a time.
    """
    flat = Flat.of(parameters)
    owners = [rank for rank in range(processes.size) for _ in shards_of(rank, processes.size, n)]

    def tree(first: int, end: int) -> Buckets | None:
        """The sum of batches `first` to `end` - 1; None when it belongs to somebody else."""
        if end - first == 1:
            if owners[first] != processes.rank:
                return None
            find(first)
            return flat.collect()
        middle = (first + end) // 2
        left, right = tree(first, middle), tree(middle, end)
        mine, theirs = owners[first], owners[middle]
        if right is not None and mine != theirs:
            for bucket in right:
                processes.send(bucket, mine)
        if left is not None and mine != theirs:
            right = flat.empty()
            for bucket in right:
                processes.receive(bucket, theirs)
        if left is not None and right is not None:
            torch._foreach_add_(left, right)
        return left

    total = tree(0, n) or flat.empty()
    for bucket in total:
        processes.broadcast(bucket)
    flat.spread(total)
