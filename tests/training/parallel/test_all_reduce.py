"""One tree over the batches of a step, whoever found their gradients."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Queue
from threading import Barrier

import pytest
import torch
from torch import Tensor, nn

from jumok.processes import SINGLE_PROCESS, ProcessGroup, microbatches_of_rank
from jumok.training.parallel import all_reduce as distributed_gradients
from jumok.training.parallel.all_reduce import all_reduce_gradients, deterministic_tree_reduce

SHAPES = ((3, 5), (7,), (2, 2), (4,))  # the third gets no gradient, the last of batch 1 alone


class Wires:
    """What processes of the test send to each other; they are threads."""

    def __init__(self, size: int) -> None:
        self.pairs = {(a, b): Queue[Tensor]() for a in range(size) for b in range(size)}
        self.met = Barrier(size)
        self.said: list[Tensor] = [torch.empty(0)] * size


@dataclass
class Thread:
    """One of them, as `distributed.Processes`."""

    rank: int
    size: int
    wires: Wires

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        raise AssertionError("gradients are no such numbers")

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        raise AssertionError("gradients are no text")

    def all_reduce(self, tensor: Tensor) -> None:
        self.wires.said[self.rank] = tensor.clone()
        self.wires.met.wait()
        tensor.copy_(torch.stack(self.wires.said).sum(0))
        self.wires.met.wait()

    def send(self, tensor: Tensor, to: int) -> None:
        self.wires.pairs[self.rank, to].put(tensor.clone())

    def recv(self, tensor: Tensor, source: int) -> None:
        tensor.copy_(self.wires.pairs[source, self.rank].get(timeout=10))

    def broadcast(self, tensor: Tensor) -> None:
        if self.rank == 0:
            for other in range(1, self.size):
                self.send(tensor, other)
        else:
            self.receive(tensor, 0)


def gradients_of(batch: int) -> list[Tensor | None]:
    chance = torch.Generator().manual_seed(batch)
    there = (True, True, False, batch == 1)
    return [
        torch.randn(shape, generator=chance) * 10.0**batch if is_there else None
        for shape, is_there in zip(SHAPES, there, strict=True)
    ]


Summing = Callable[[list[nn.Parameter], ProcessGroup, Callable[[int], None]], None]


def summed(n: int, size: int, how: Summing) -> list[list[Tensor | None]]:
    """The gradients that each of `size` processes ends with, of n batches."""
    wires = Wires(size)

    def process(rank: int) -> list[Tensor | None]:
        weights = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
        found = []

        def find(batch: int) -> None:
            found.append(batch)
            for weight, gradient in zip(weights, gradients_of(batch), strict=True):
                if gradient is not None:
                    weight.grad = gradient if weight.grad is None else weight.grad + gradient

        how(weights, SINGLE_PROCESS if size == 1 else Thread(rank, size, wires), find)  # type: ignore[arg-type]
        assert found == list(microbatches_of_rank(rank, size, n))
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
    monkeypatch.setattr(distributed_gradients, "BUCKET", bucket)

    def tree(
        weights: list[nn.Parameter], processes: ProcessGroup, find: Callable[[int], None]
    ) -> None:
        deterministic_tree_reduce(weights, n, processes, find)

    (alone,) = summed(n, 1, tree)
    for size in range(2, n + 1):
        assert all(same(each, alone) for each in summed(n, size, tree)), size
    assert alone[2] is None
    assert (alone[3] is None) == (n < 2)


def test_the_tree_is_the_one_that_is_promised() -> None:
    """((0 + 1) + (2 + 3)), which is another number than (((0 + 1) + 2) + 3)."""

    def tree(
        weights: list[nn.Parameter], processes: ProcessGroup, find: Callable[[int], None]
    ) -> None:
        deterministic_tree_reduce(weights, 4, processes, find)

    a, b, c, d = (gradients_of(batch)[0] for batch in range(4))
    assert a is not None and b is not None and c is not None and d is not None  # noqa: PT018
    found = summed(4, 2, tree)[1][0]
    assert found is not None
    assert torch.equal(found, (a + b) + (c + d))
    assert not torch.equal(found, ((a + b) + c) + d)


def test_the_ordinary_sum_is_that_of_all() -> None:
    def once(
        weights: list[nn.Parameter], processes: ProcessGroup, find: Callable[[int], None]
    ) -> None:
        for batch in microbatches_of_rank(processes.rank, processes.size, 4):
            find(batch)
        all_reduce_gradients(weights, processes)

    (alone,) = summed(4, 1, once)
    for each in summed(4, 3, once):
        for mine, theirs in zip(each, alone, strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None and theirs is not None:
                torch.testing.assert_close(mine, theirs)
