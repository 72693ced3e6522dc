"""The process group of a distributed run: collectives, shared errors, rendezvous.

    torchrun --nproc-per-node 4 -m jumok train nsmc training.gradient_accumulation_steps=4

starts four processes that find each other by their environment (RANK, WORLD_SIZE, LOCAL_RANK,
MASTER_ADDR and MASTER_PORT). A process without that environment uses `SINGLE_PROCESS`, whose
collectives return its own values. Processes exchange numbers and bytes, never pickled objects.
"""

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous as open_store

from jumok.errors import InputError, JumokError, ProcessLostError

POLL_SECONDS = 0.01  # between two looks at the store


class ProcessGroup(Protocol):
    """All processes of one run, as seen by one of them.

    Every method is a collective: all ranks call the same methods in the same order. Each raises
    ProcessLostError when another process has ended or does not answer in time.
    """

    @property
    def rank(self) -> int:
        """The index of this process, from 0."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        """The numbers of every rank, in rank order; all ranks give the same count."""

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """The bytes of every rank, of any length, in rank order."""

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace the tensor by its sum over all ranks."""

    def send(self, tensor: Tensor, to: int) -> None:
        """Send a tensor to another rank, which calls `recv`."""

    def recv(self, tensor: Tensor, source: int) -> None:
        """Fill a tensor with the one that another rank sends."""

    def broadcast(self, tensor: Tensor) -> None:
        """Replace the tensor by that of rank 0."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Context for torch's own collectives: a lost peer raises ProcessLostError."""


@dataclass(frozen=True)
class SingleProcess:
    """A group of one process: every collective returns its own values."""

    rank: int = 0
    size: int = 1

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        """One row."""
        return [[float(number) for number in numbers]]

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """One item."""
        return [data]

    def all_reduce(self, tensor: Tensor) -> None:
        """The tensor is the sum already."""

    def send(self, tensor: Tensor, to: int) -> None:
        """Fail: a single process has no peer."""
        raise AssertionError("a single process has no peer to send to")

    def recv(self, tensor: Tensor, source: int) -> None:
        """Fail: a single process has no peer."""
        raise AssertionError("a single process has no peer to receive from")

    def broadcast(self, tensor: Tensor) -> None:
        """The tensor is that of rank 0 already."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """A single process cannot lose a peer."""
        return nullcontext()


SINGLE_PROCESS = SingleProcess()


@dataclass(frozen=True)
class TorchProcessGroup:
    """Processes connected by torch.distributed: gloo on the CPU, nccl between GPUs."""

    rank: int
    size: int
    timeout: float  # seconds

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        """Exchange rows of float64, which represent every Python float exactly."""
        mine = torch.tensor(numbers, dtype=torch.float64)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        with self._raise_lost():
            dist.all_gather(rows, mine)
        return [row.tolist() for row in rows]

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """Exchange rows padded to the longest."""
        lengths = [int(length) for (length,) in self.all_gather_floats([len(data)])]
        mine = torch.frombuffer(bytearray(data.ljust(max(*lengths, 1), b"\0")), dtype=torch.uint8)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        with self._raise_lost():
            dist.all_gather(rows, mine)
        return [bytes(row.numpy())[:length] for row, length in zip(rows, lengths, strict=True)]

    def all_reduce(self, tensor: Tensor) -> None:
        """Sum in an order that the library chooses; every rank gets the same bits."""
        with self._raise_lost():
            dist.all_reduce(tensor)

    def send(self, tensor: Tensor, to: int) -> None:
        """Return when the tensor may be changed again."""
        with self._raise_lost():
            dist.send(tensor, to)

    def recv(self, tensor: Tensor, source: int) -> None:
        """Return when the tensor is filled."""
        with self._raise_lost():
            dist.recv(tensor, source)

    def broadcast(self, tensor: Tensor) -> None:
        """Copy bit for bit."""
        with self._raise_lost():
            dist.broadcast(tensor, 0)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Raise ProcessLostError for communication errors only."""
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and "gloo" not in str(error):
                raise
            raise self._lost() from error

    @contextmanager
    def _raise_lost(self) -> Iterator[None]:
        """Raise ProcessLostError for every RuntimeError of a collective."""
        try:
            yield
        except RuntimeError as error:
            raise self._lost() from error

    @contextmanager
    def _raise_unconnected(self) -> Iterator[None]:
        """Raise ProcessLostError for every RuntimeError before the processes are connected."""
        try:
            yield
        except RuntimeError as error:
            raise ProcessLostError(
                "process.not_connected",
                "process {rank} of 0 to {size} must reach the others, got no connection to all of "
                "them within {timeout:g} s ({interface}); start all of them, and set "
                "GLOO_SOCKET_IFNAME (GPUs: NCCL_SOCKET_IFNAME) to the network interface between "
                "the machines",
                rank=self.rank,
                size=self.size - 1,
                timeout=self.timeout,
                interface=f"GLOO_SOCKET_IFNAME={os.environ.get('GLOO_SOCKET_IFNAME', '')}",
            ) from error

    def _lost(self) -> ProcessLostError:
        return ProcessLostError(
            "process.lost_contact",
            "process {rank} of 0 to {size} lost contact: another one ended, or did not answer "
            "for {timeout:g} s (training.timeout); continue with jumok train --resume and the "
            "run's folder",
            rank=self.rank,
            size=self.size - 1,
            timeout=self.timeout,
        )


class PeerError(JumokError):
    """Another process failed and reports the reason."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(
            "process.other_failed", "another process of this run failed and prints the reason"
        )
        self.exit_code = exit_code


@contextmanager
def init_process_group(device: torch.device, timeout: float) -> Iterator[ProcessGroup]:
    """Connect the processes that torchrun started; SINGLE_PROCESS without torchrun.

    Raises InputError for a device without a communication backend, ProcessLostError when the other
    processes do not connect within `timeout` seconds. A PeerError leaves it as SystemExit.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield SINGLE_PROCESS
        return
    backends = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
    if device.type not in backends:
        raise InputError(
            "process.unsupported_device",
            "device must be cpu or cuda for several processes, got {type} with {size} processes; "
            "set device=cpu, or start one process",
            type=device.type,
            size=size,
        )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    processes = TorchProcessGroup(int(os.environ["RANK"]), size, timeout)
    limit = timedelta(seconds=timeout)
    from jumok.gloo_interface import set_interface  # of several processes alone

    set_interface()
    with processes._raise_unconnected():
        store, rank, _ = next(open_store("env://", timeout=limit))
        dist.init_process_group(
            backends[device.type],
            store=rendezvous(store, rank, size, timeout),
            rank=rank,
            world_size=size,
            timeout=limit,
        )
    try:
        yield processes
    except PeerError as error:
        raise SystemExit(error.exit_code) from None
    finally:
        dist.destroy_process_group()


@contextmanager
def raise_together(processes: ProcessGroup) -> Iterator[None]:
    """Run a block on every rank; an error on one rank ends all of them.

    The error of the lowest failing rank is raised there; the other ranks raise PeerError with its
    exit code. This is a barrier: no rank leaves the block before all have finished it.
    """
    failure: Exception | None = None
    try:
        yield
    except ProcessLostError:
        raise
    except Exception as error:
        failure = error
    code = 0
    if failure is not None and not isinstance(failure, PeerError):
        code = failure.exit_code if isinstance(failure, JumokError) else 1
    codes = [int(row[0]) for row in processes.all_gather_floats([code])]
    failed = next((rank for rank, code in enumerate(codes) if code), None)
    if failure is not None and failed == processes.rank:
        raise failure
    if failed is not None:
        raise PeerError(codes[failed])


def all_reduce_max(processes: ProcessGroup, numbers: Sequence[float]) -> list[float]:
    """The elementwise maximum over all ranks."""
    return [max(column) for column in zip(*processes.all_gather_floats(numbers), strict=True)]


@contextmanager
def report_errors_once() -> Iterator[None]:
    """Before the processes are connected: only local rank 0 of a machine prints an error."""
    try:
        yield
    except JumokError as error:
        if os.environ.get("LOCAL_RANK", "0") != "0":
            raise SystemExit(error.exit_code) from None
        raise


def is_elastic() -> bool:
    """Whether torchrun restarts the same command (`--max-restarts`) after a process is lost."""
    return os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"


def microbatches_of_rank(rank: int, size: int, n: int) -> range:
    """Which of the n microbatches of a step belong to a rank: a contiguous, balanced range.

    >>> [list(microbatches_of_rank(rank, 3, 4)) for rank in range(3)]
    [[0], [1], [2, 3]]
    """
    return range(rank * n // size, (rank + 1) * n // size)


def check_world_size(size: int, n_microbatches: int) -> None:
    """Raises InputError when a step has fewer microbatches than there are processes."""
    if size > n_microbatches:
        fewer = f", or start {n_microbatches}" if n_microbatches > 1 else ""
        raise InputError(
            "process.too_few_microbatches",
            "training.gradient_accumulation_steps must be at least the number of processes, got "
            "{n_microbatches} for {size} processes; set it to {size} or a multiple of it{fewer}",
            n_microbatches=n_microbatches,
            size=size,
            fewer=fewer,
        )


def rendezvous(store: Store, rank: int, size: int, timeout: float) -> Store:
    """A key-value store that only the current processes use.

    torchrun keeps one store for a job and restarts processes on it, where the addresses of lost
    processes remain. So every process announces itself under a random name, rank 0 answers each of
    them with a random name of the group, and they connect under that name. An old announcement is
    answered too, which does no harm. Raises RuntimeError when processes are missing after
    `timeout` seconds.
    """
    me = secrets.token_hex(8)
    if rank == 0:
        _welcome(store, me, size, timeout)
        return PrefixStore(me, store)
    store.set(f"hello/{rank}", me)
    store.wait([f"answer/{me}"], timedelta(seconds=timeout))
    group = store.get(f"answer/{me}").decode()
    store.set(f"here/{group}/{rank}", "")
    return PrefixStore(group, store)


def _welcome(store: Store, group: str, size: int, timeout: float) -> None:
    """Answer every announcement with the name of the group until all ranks have joined."""
    end = time.monotonic() + timeout
    others = range(1, size)
    while not all(store.check([f"here/{group}/{rank}"]) for rank in others):
        for rank in others:
            if store.check([f"hello/{rank}"]):
                store.set(f"answer/{store.get(f'hello/{rank}').decode()}", group)
        if time.monotonic() > end:
            raise RuntimeError(f"not all of {size} processes connected within {timeout:g} s")
        time.sleep(POLL_SECONDS)
