"""The distributed map: each batch once, all results in order in every process."""

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


class Mailbox:
    """The shared state of the threads: their data and a barrier."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.data: list[bytes] = [b""] * size
        self.barrier = threading.Barrier(size, timeout=30)


@dataclass(frozen=True)
class ThreadProcess:
    """A process group whose processes are threads."""

    rank: int
    mailbox: Mailbox

    @property
    def size(self) -> int:
        return self.mailbox.size

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        self.mailbox.data[self.rank] = data
        self.mailbox.barrier.wait()
        received = list(self.mailbox.data)
        self.mailbox.barrier.wait()
        return received

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        rows = self.all_gather_bytes(",".join(map(repr, numbers)).encode())
        return [[float(n) for n in row.split(b",")] for row in rows]

    def all_reduce(self, tensor: Tensor) -> None: ...

    def send(self, tensor: Tensor, to: int) -> None: ...

    def recv(self, tensor: Tensor, source: int) -> None: ...

    def broadcast(self, tensor: Tensor) -> None: ...


def run_all(size: int, work: Callable[[ThreadProcess], object]) -> list[object]:
    """The result of each process, or the error that it raises."""
    mailbox = Mailbox(size)

    def one(rank: int) -> object:
        try:
            return work(ThreadProcess(rank, mailbox))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("n", [0, 1, 3, 7])
def test_every_process_has_all_results(size: int, n: int) -> None:
    done: list[int] = []

    def square(number: int) -> list[float]:
        done.append(number)
        return [number, number * number / 3]

    found = run_all(
        size, lambda processes: distributed_map(range(n), square, processes, JSON_CODEC)
    )
    assert found == [[[i, i * i / 3] for i in range(n)]] * size
    assert sorted(done) == list(range(n))


def test_tensor_codec_is_lossless() -> None:
    parts = [torch.rand(i, 3) for i in range(5)]
    found = run_all(
        2,
        lambda processes: distributed_map(parts, lambda part: {"x": part}, processes, TENSOR_CODEC),
    )
    for results in found:
        assert isinstance(results, list)
        assert all(torch.equal(part, one["x"]) for part, one in zip(parts, results, strict=True))


def test_an_error_is_raised_in_all_processes() -> None:
    def fail(number: int) -> int:
        if number == 1:
            raise InputError("test.error", "1 is not allowed")
        return number

    first, second, third = run_all(
        3, lambda processes: distributed_map(range(3), fail, processes, JSON_CODEC)
    )
    assert str(second) == "1 is not allowed"
    for other in (first, third):
        assert isinstance(other, PeerError)
        assert other.exit_code == 2
