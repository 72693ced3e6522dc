"""Gradients summed over processes: a fixed tree, and the all-reduce."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Queue
from threading import Barrier

import pytest
import torch
from torch import Tensor, nn

from jumok.processes import SINGLE_PROCESS, ProcessGroup, microbatches_of_rank
from jumok.training.parallel import all_reduce
from jumok.training.parallel.all_reduce import all_reduce_gradients, deterministic_tree_reduce

SHAPES = ((3, 5), (7,), (2, 2), (4,))  # the third gets no gradient, the last of batch 1 only


class Channels:
    """The connections between the threads that take the part of processes."""

    def __init__(self, size: int) -> None:
        self.queues = {(a, b): Queue[Tensor]() for a in range(size) for b in range(size)}
        self.barrier = Barrier(size)
        self.given: list[Tensor] = [torch.empty(0)] * size


@dataclass
class ThreadGroup:
    """A `ProcessGroup` of threads."""

    rank: int
    size: int
    channels: Channels

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        raise AssertionError("gradients are tensors")

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        raise AssertionError("gradients are tensors")

    def all_reduce(self, tensor: Tensor) -> None:
        self.channels.given[self.rank] = tensor.clone()
        self.channels.barrier.wait()
        tensor.copy_(torch.stack(self.channels.given).sum(0))
        self.channels.barrier.wait()

    def send(self, tensor: Tensor, to: int) -> None:
        self.channels.queues[self.rank, to].put(tensor.clone())

    def recv(self, tensor: Tensor, source: int) -> None:
        tensor.copy_(self.channels.queues[source, self.rank].get(timeout=10))

    def broadcast(self, tensor: Tensor) -> None:
        if self.rank == 0:
            for other in range(1, self.size):
                self.send(tensor, other)
        else:
            self.recv(tensor, 0)


def gradients_of(batch: int) -> list[Tensor | None]:
    generator = torch.Generator().manual_seed(batch)
    exists = (True, True, False, batch == 1)
    return [
        torch.randn(shape, generator=generator) * 10.0**batch if gets_one else None
        for shape, gets_one in zip(SHAPES, exists, strict=True)
    ]


Weights = list[nn.Parameter]
Reduce = Callable[[Weights, int, ProcessGroup, Callable[[int], None]], None]


def by_tree(
    weights: Weights, n: int, processes: ProcessGroup, backward: Callable[[int], None]
) -> None:
    tree = deterministic_tree_reduce(weights, n, processes)
    for batch in microbatches_of_rank(processes.rank, processes.size, n):
        backward(batch)
        next(tree)
    assert not list(tree)


def at_once(
    weights: Weights, n: int, processes: ProcessGroup, backward: Callable[[int], None]
) -> None:
    for batch in microbatches_of_rank(processes.rank, processes.size, n):
        backward(batch)
    all_reduce_gradients(weights, processes)


def reduced(n: int, size: int, reduce: Reduce) -> list[list[Tensor | None]]:
    """The gradients of n batches that each of `size` processes ends with."""
    channels = Channels(size)

    def process(rank: int) -> list[Tensor | None]:
        weights = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]

        def backward(batch: int) -> None:
            for weight, gradient in zip(weights, gradients_of(batch), strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else weight.grad + gradient

        group = SINGLE_PROCESS if size == 1 else ThreadGroup(rank, size, channels)
        reduce(weights, n, group, backward)  # type: ignore[arg-type]
        return [weight.grad for weight in weights]

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(process, range(size)))


def same(some: list[Tensor | None], others: list[Tensor | None]) -> bool:
    return all(
        a is b if a is None or b is None else torch.equal(a, b)
        for a, b in zip(some, others, strict=True)
    )


@pytest.mark.parametrize("bucket", [16, 2**23])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6, 8])
def test_a_tree_has_the_same_bits_with_any_number_of_processes(
    n: int, bucket: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_reduce, "BUCKET_NUMEL", bucket)
    (single,) = reduced(n, 1, by_tree)
    for size in range(2, n + 1):
        assert all(same(each, single) for each in reduced(n, size, by_tree)), size
    assert single[2] is None
    assert (single[3] is None) == (n < 2)


def test_the_order_of_the_tree() -> None:
    """((0 + 1) + (2 + 3)), which rounds differently from (((0 + 1) + 2) + 3)."""
    a, b, c, d = (gradients_of(batch)[0] for batch in range(4))
    assert a is not None and b is not None and c is not None and d is not None  # noqa: PT018
    found = reduced(4, 2, by_tree)[1][0]
    assert found is not None
    assert torch.equal(found, (a + b) + (c + d))
    assert not torch.equal(found, ((a + b) + c) + d)


def test_the_all_reduce_sums_over_all_processes() -> None:
    (single,) = reduced(4, 1, at_once)
    for each in reduced(4, 3, at_once):
        for mine, expected in zip(each, single, strict=True):
            assert (mine is None) == (expected is None)
            if mine is not None and expected is not None:
                torch.testing.assert_close(mine, expected)
