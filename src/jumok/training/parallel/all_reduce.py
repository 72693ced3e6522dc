"""The gradients of one step, of which every process found a part, summed.

    ordinary   each process has the sum of its own; one sum of these over all processes
    strict     each batch's gradient is kept apart, and the sum is one fixed tree over them:

                   ((0 + 1) + (2 + 3))        whoever found them; so its bits are the same
                                              with any number of processes

Gradients travel in flat buckets; behind the last number of all stands, for each weight, from how
many parts it got a gradient: one that got none has none in the end either. What stays in its
process is not copied.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor, nn

from jumok.processes import ProcessGroup, microbatches_of_rank

BUCKET = 2**23  # numbers: 32 MB of float32

Gradients = list[Tensor | None]  # one for each weight that learns, None where it got none
Buckets = list[Tensor]


@dataclass(frozen=True)
class Learners:
    """The weights that learn; their gradients taken off, and as few long vectors on the way.

    >>> weight = nn.Parameter(torch.zeros(2, 2))
    >>> weight.grad = torch.ones(2, 2)
    >>> learners = Learners.of([weight])
    >>> taken = learners.take()
    >>> weight.grad, learners.flat(taken)
    (None, [tensor([1., 1., 1., 1.]), tensor([1.])])
    """

    groups: list[list[nn.Parameter]] = field(default_factory=list)

    @classmethod
    def of(cls, parameters: Iterable[nn.Parameter]) -> "Learners":
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

    def take(self) -> Gradients:
        """All gradients; the weights have none afterwards."""
        weights = list(chain.from_iterable(self.groups))
        gradients = [p.grad for p in weights]
        for parameter in weights:
            parameter.grad = None
        return gradients

    def give(self, gradients: Gradients) -> None:
        """Each weight its gradient."""
        for parameter, gradient in zip(chain.from_iterable(self.groups), gradients, strict=True):
            parameter.grad = gradient

    def flat(self, gradients: Gradients) -> Buckets:
        """Copies of gradients, for the way."""
        there = [float(gradient is not None) for gradient in gradients]
        each = iter(gradients)
        buckets = []
        for group in self.groups:
            found = [(p, next(each)) for p in group]
            parts = [torch.zeros_like(p) if gradient is None else gradient for p, gradient in found]
            buckets.append(torch.cat([part.flatten() for part in parts]))
        return [*buckets, torch.tensor(there, device=buckets[0].device)]

    def apart(self, buckets: Buckets) -> Gradients:
        """The gradients that lie in buckets, and share their memory."""
        *vectors, there = buckets
        counts = iter(there.tolist())
        gradients: Gradients = []
        for group, vector in zip(self.groups, vectors, strict=True):
            parts = torch.split(vector, [p.numel() for p in group])
            for parameter, part in zip(group, parts, strict=True):
                gradients.append(part.view_as(parameter) if next(counts) else None)
        return gradients

    def empty(self) -> Buckets:
        """Room for the buckets of another process."""
        weights = list(chain.from_iterable(self.groups))
        lengths = [sum(p.numel() for p in group) for group in self.groups]
        return [weights[0].new_empty(n) for n in (*lengths, len(weights))]


def all_reduce_gradients(parameters: Iterable[nn.Parameter], processes: ProcessGroup) -> None:
    """The gradients of every process, each with the sum of its own, become those of all."""
    if processes.size == 1:
        return
    learners = Learners.of(parameters)
    buckets = learners.flat(learners.take())
    for bucket in buckets:
        processes.all_reduce(bucket)
    learners.give(learners.apart(buckets))


def deterministic_tree_reduce(
    parameters: Iterable[nn.Parameter],
    n: int,
    processes: ProcessGroup,
    find: Callable[[int], None],
) -> None:
    """The gradients of n batches summed in a fixed tree; `find(i)` leaves those of batch i.

    It is called for the batches that are this process's own (`microbatches_of_rank`). A sum belongs to the
    owner of its first batch, and to it go the sums that others found; rank 0 has the last one and
    gives it to all. At most log2(n) + 2 sums are held at a time.
    """
    learners = Learners.of(parameters)
    owners = [
        rank
        for rank in range(processes.size)
        for _ in microbatches_of_rank(rank, processes.size, n)
    ]

    def tree(first: int, end: int) -> Gradients | None:
        """The sum of batches `first` to `end` - 1; None when it belongs to somebody else."""
        if end - first == 1:
            if owners[first] != processes.rank:
                return None
            find(first)
            return learners.take()
        middle = (first + end) // 2
        left, right = tree(first, middle), tree(middle, end)
        mine, theirs = owners[first], owners[middle]
        if right is not None and mine != theirs:
            for bucket in learners.flat(right):
                processes.send(bucket, mine)
        if left is not None and mine != theirs:
            buckets = learners.empty()
            for bucket in buckets:
                processes.recv(bucket, theirs)
            right = learners.apart(buckets)
        return left if left is None or right is None else _added(left, right)

    total = tree(0, n)
    if processes.size > 1:
        buckets = learners.empty() if total is None else learners.flat(total)
        for bucket in buckets:
            processes.broadcast(bucket)
        total = learners.apart(buckets)
    assert total is not None, "a process alone owns every batch"
    learners.give(total)


def _added(left: Gradients, right: Gradients) -> Gradients:
    """The sum of both, in the memory of the left one; of nothing and a gradient the gradient."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    if pairs:
        torch._foreach_add_([a for a, _ in pairs], [b for _, b in pairs])
    return [b if a is None else a for a, b in zip(left, right, strict=True)]
