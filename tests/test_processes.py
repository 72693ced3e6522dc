"""Division of microbatches, rendezvous and errors of process groups, without real processes."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore

from jumok.errors import InputError
from jumok.processes import (
    SINGLE_PROCESS,
    check_world_size,
    microbatches_of_rank,
    raise_together,
    rendezvous,
)
from tests.errors import raises


def test_every_microbatch_has_one_owner() -> None:
    for n in range(1, 9):
        for size in range(1, n + 1):
            ranges = [microbatches_of_rank(rank, size, n) for rank in range(size)]
            assert [i for each in ranges for i in each] == list(range(n))
            assert max(map(len, ranges)) == math.ceil(n / size)
            assert min(map(len, ranges)) >= 1


def test_at_least_one_microbatch_per_process() -> None:
    check_world_size(2, 2)
    with raises(InputError, "process.too_few_microbatches"):
        check_world_size(2, 1)


def test_rendezvous_ignores_lost_processes() -> None:
    """A store that still contains an announcement and an address of lost processes."""
    store = HashStore()
    store.set("hello/1", "lost")
    with ThreadPoolExecutor() as pool:
        futures = [pool.submit(rendezvous, store, rank, 2, 30.0) for rank in (0, 1)]
        first, second = (future.result() for future in futures)
    first.set("address", "of rank 0")
    assert second.get("address") == b"of rank 0"
    assert not store.check(["address"])


def test_rendezvous_times_out() -> None:
    with pytest.raises(RuntimeError, match=r"not all of 2 processes connected within 0.05 s"):
        rendezvous(HashStore(), 0, 2, 0.05)


def test_a_single_process_raises_its_own_error() -> None:
    with pytest.raises(InputError, match="message"), raise_together(SINGLE_PROCESS):
        raise InputError("test.error", "message")
    with pytest.raises(ZeroDivisionError), raise_together(SINGLE_PROCESS):
        _ = 1 / 0
