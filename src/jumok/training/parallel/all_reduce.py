"""Sum the gradients of one step over all processes.

    all_reduce_gradients        each process sums its own microbatches; one all-reduce of the sums
    deterministic_tree_reduce   the gradients of each microbatch are kept apart and summed in a
                                fixed tree, so that the bits do not depend on how many processes
                                computed them:

                                    ((0 + 1) + (2 + 3))

Gradients are sent in flat buckets. One more bucket counts, for each weight, the ranks that have a
gradient: a weight without a gradient on every rank has none afterwards either. Gradients that stay
in their process are not copied.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import torch
from torch import Tensor, nn

from jumok.processes import ProcessGroup, microbatches_of_rank
from jumok.torch_ops import add_all_

BUCKET_NUMEL = 2**23  # 32 MB of float32

Gradients = list[Tensor | None]  # one for each trainable weight, None where it got none
Buckets = list[Tensor]


@dataclass(frozen=True)
class GradientBuckets:
    """The trainable weights, grouped into buckets that are sent as one tensor each.

    >>> weight = nn.Parameter(torch.zeros(2, 2))
    >>> weight.grad = torch.ones(2, 2)
    >>> buckets = GradientBuckets.of([weight])
    >>> gradients = buckets.pop()
    >>> weight.grad, buckets.flatten(gradients)
    (None, [tensor([1., 1., 1., 1.]), tensor([1.])])
    """

    groups: list[list[nn.Parameter]] = field(default_factory=list)

    @classmethod
    def of(cls, parameters: Iterable[nn.Parameter]) -> "GradientBuckets":
        """Group the trainable weights in their order, at most BUCKET_NUMEL numbers a bucket."""
        groups: list[list[nn.Parameter]] = []
        capacity = 0
        for parameter in parameters:
            if parameter.requires_grad:
                if not groups or parameter.numel() > capacity:
                    groups.append([])
                    capacity = BUCKET_NUMEL
                groups[-1].append(parameter)
                capacity -= parameter.numel()
        return cls(groups)

    def pop(self) -> Gradients:
        """Return all gradients and set those of the weights to None."""
        weights = list(chain.from_iterable(self.groups))
        gradients = [p.grad for p in weights]
        for parameter in weights:
            parameter.grad = None
        return gradients

    def set(self, gradients: Gradients) -> None:
        """Assign each weight its gradient."""
        for parameter, gradient in zip(chain.from_iterable(self.groups), gradients, strict=True):
            parameter.grad = gradient

    def flatten(self, gradients: Gradients) -> Buckets:
        """Copy gradients into buckets; the last bucket holds 1 for each gradient that exists."""
        exists = [float(gradient is not None) for gradient in gradients]
        each = iter(gradients)
        buckets = []
        for group in self.groups:
            pairs = [(p, next(each)) for p in group]
            parts = [torch.zeros_like(p) if gradient is None else gradient for p, gradient in pairs]
            buckets.append(torch.cat([part.flatten() for part in parts]))
        return [*buckets, torch.tensor(exists, device=buckets[0].device)]

    def unflatten(self, buckets: Buckets) -> Gradients:
        """The gradients in buckets, as views of the buckets' memory."""
        *vectors, exists = buckets
        counts = iter(exists.tolist())
        gradients: Gradients = []
        for group, vector in zip(self.groups, vectors, strict=True):
            parts = torch.split(vector, [p.numel() for p in group])
            for parameter, part in zip(group, parts, strict=True):
                gradients.append(part.view_as(parameter) if next(counts) else None)
        return gradients

    def allocate(self) -> Buckets:
        """Uninitialized buckets to receive from another process."""
        weights = list(chain.from_iterable(self.groups))
        lengths = [sum(p.numel() for p in group) for group in self.groups]
        return [weights[0].new_empty(n) for n in (*lengths, len(weights))]


def all_reduce_gradients(parameters: Iterable[nn.Parameter], processes: ProcessGroup) -> None:
    """Replace the gradients of every process by their sum over all processes."""
    weights = GradientBuckets.of(parameters)
    buckets = weights.flatten(weights.pop())
    for bucket in buckets:
        processes.all_reduce(bucket)
    weights.set(weights.unflatten(buckets))


def deterministic_tree_reduce(
    parameters: Iterable[nn.Parameter], n: int, processes: ProcessGroup
) -> Iterator[None]:
    """Sum the gradients of n microbatches in a fixed tree.

    Advance it once after the backward pass of each microbatch of this process, in order
    (`microbatches_of_rank`): it takes the gradients. Then exhaust it: the weights have the sums as
    gradients. The owner of the first microbatch of a subtree holds its sum and receives the sums
    of other owners; rank 0 broadcasts the total. At most log2(n) + 2 gradients are held at a time.
    """
    weights = GradientBuckets.of(parameters)
    owners = [
        rank
        for rank in range(processes.size)
        for _ in microbatches_of_rank(rank, processes.size, n)
    ]

    def tree(first: int, end: int) -> Generator[None, None, Gradients | None]:
        """The sum of microbatches `first` to `end` - 1; None when another process owns it."""
        if end - first == 1:
            if owners[first] != processes.rank:
                return None
            gradients = weights.pop()
            yield
            return gradients
        middle = (first + end) // 2
        left = yield from tree(first, middle)
        right = yield from tree(middle, end)
        left_owner, right_owner = owners[first], owners[middle]
        if right is not None and left_owner != right_owner:
            for bucket in weights.flatten(right):
                processes.send(bucket, left_owner)
        if left is not None and left_owner != right_owner:
            buckets = weights.allocate()
            for bucket in buckets:
                processes.recv(bucket, right_owner)
            right = weights.unflatten(buckets)
        return left if left is None or right is None else _add(left, right)

    total = yield from tree(0, n)
    if processes.size > 1:
        buckets = weights.allocate() if total is None else weights.flatten(total)
        for bucket in buckets:
            processes.broadcast(bucket)
        total = weights.unflatten(buckets)
    assert total is not None, "a single process owns every microbatch"
    weights.set(total)


def _add(left: Gradients, right: Gradients) -> Gradients:
    """The sum of both, in the memory of the left one; None plus a gradient is the gradient."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    if pairs:
        add_all_([a for a, _ in pairs], [b for _, b in pairs])
    return [b if a is None else a for a, b in zip(left, right, strict=True)]
