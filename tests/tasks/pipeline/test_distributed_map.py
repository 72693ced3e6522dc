"""Batches worked on in turns: each once, and everybody has all the results, in order."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from jumok.errors import InputError
from jumok.processes import PeerError
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, TENSOR_CODEC, distributed_map


class Table:
    """Where the members of a class leave what they say, and wait for one another."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.said: list[bytes] = [b""] * size
        self.barrier = threading.Barrier(size, timeout=30)


@dataclass(frozen=True)
class Member:
    """Processes that are threads of this one."""

    rank: int
    table: Table

    @property
    def size(self) -> int:
        return self.table.size

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        self.table.said[self.rank] = data
        self.table.barrier.wait()
        heard = list(self.table.said)
        self.table.barrier.wait()
        return heard

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        rows = self.gather(",".join(map(repr, numbers)).encode())
        return [[float(n) for n in row.split(b",")] for row in rows]

    def all_reduce(self, tensor: Tensor) -> None: ...

    def send(self, tensor: Tensor, to: int) -> None: ...

    def recv(self, tensor: Tensor, source: int) -> None: ...

    def broadcast(self, tensor: Tensor) -> None: ...


def everybody(size: int, work: Callable[[Member], object]) -> list[object]:
    """What each of so many members comes to, or raises."""
    table = Table(size)

    def one(rank: int) -> object:
        try:
            return work(Member(rank, table))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_all_have_all_and_each_is_done_once(size: int, n: int) -> None:
    done: list[int] = []

    def square(number: int) -> list[float]:
        done.append(number)
        return [number, number * number / 3]

    found = everybody(size, lambda me: distributed_map(range(n), square, me, JSON_CODEC))
    assert found == [[[i, i * i / 3] for i in range(n)]] * size
    assert sorted(done) == list(range(n))


def test_tensors_keep_every_bit() -> None:
    parts = [torch.rand(i, 3) for i in range(5)]
    found = everybody(
        2, lambda me: distributed_map(parts, lambda part: {"x": part}, me, TENSOR_CODEC)
    )
    for mine in found:
        assert isinstance(mine, list)
        assert all(torch.equal(part, one["x"]) for part, one in zip(parts, mine, strict=True))


def test_an_error_of_one_is_an_error_of_all() -> None:
    def refuse(number: int) -> int:
        if number == 1:
            raise InputError("one is no number")
        return number

    first, second, third = everybody(
        3, lambda me: distributed_map(range(3), refuse, me, JSON_CODEC)
    )
    assert str(second) == "one is no number"
    for other in (first, third):
        assert isinstance(other, PeerError)
        assert other.exit_code == 2
