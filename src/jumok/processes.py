"""The processes of one training: who there is, what they tell each other, how they end together.

    torchrun --nproc-per-node 4 -m jumok train nsmc training.gradient_accumulation_steps=4

starts four that find each other by their environment (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
and MASTER_PORT). A process without that environment is `SINGLE_PROCESS`, and all sums are its own. What
they tell each other is numbers and texts, never pickled objects.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from jumok.errors import InputError, JumokError, ProcessLostError
from jumok.rendezvous import meet


class ProcessGroup(Protocol):
    """All processes that train one model, as one of them sees them.

    Everybody calls the same methods in the same order, and waits in them for the others. Each
    raises ProcessLostError when one of them has ended, or did not answer in time.
    """

    @property
    def rank(self) -> int:
        """Which of them this one is, from 0."""

    @property
    def size(self) -> int:
        """How many there are."""

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        """What everybody gave, as many numbers each, in the order of the ranks."""

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """What everybody gave, of any length, in the order of the ranks."""

    def all_reduce(self, tensor: Tensor) -> None:
        """Everybody's tensor becomes the sum of all."""

    def send(self, tensor: Tensor, to: int) -> None:
        """Give a tensor to another one, which receives it."""

    def recv(self, tensor: Tensor, source: int) -> None:
        """Fill a tensor with what another one sends."""

    def broadcast(self, tensor: Tensor) -> None:
        """Everybody's tensor becomes that of rank 0."""

    def new_group(self) -> "ProcessGroup":
        """The same ones by a connection of its own, for what a thread tells the others."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Inside, torch itself exchanges tensors: a process it lost is told as everywhere."""


@dataclass(frozen=True)
class SingleProcess:
    """One process: what it says is what everybody says."""

    rank: int = 0
    size: int = 1

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        """The one row there is."""
        return [[float(number) for number in numbers]]

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """The one text there is."""
        return [data]

    def all_reduce(self, tensor: Tensor) -> None:
        """It is the sum already."""

    def send(self, tensor: Tensor, to: int) -> None:
        """Nobody is there to send to."""
        raise AssertionError("a process alone sends nothing")

    def recv(self, tensor: Tensor, source: int) -> None:
        """Nobody is there to receive from."""
        raise AssertionError("a process alone receives nothing")

    def broadcast(self, tensor: Tensor) -> None:
        """It is that of rank 0 already."""

    def new_group(self) -> ProcessGroup:
        """Nobody is there to speak to."""
        return self

    def translate_errors(self) -> AbstractContextManager[None]:
        """Nobody is there to lose."""
        return nullcontext()


SINGLE_PROCESS = SingleProcess()


@dataclass(frozen=True)
class TorchProcessGroup:
    """Processes connected by torch.distributed: gloo on the CPU, nccl between GPUs."""

    rank: int
    size: int
    timeout: float  # seconds
    group: dist.ProcessGroup | None = None  # None: the one all were connected by

    def all_gather_floats(self, numbers: Sequence[float]) -> list[list[float]]:
        """Rows of float64, which nothing is lost in."""
        mine = torch.tensor(numbers, dtype=torch.float64)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        with self._in_contact():
            dist.all_gather(rows, mine, group=self.group)
        return [row.tolist() for row in rows]

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """Filled up to the longest on the way."""
        lengths = [int(length) for (length,) in self.all_gather_floats([len(data)])]
        mine = torch.frombuffer(bytearray(data.ljust(max(*lengths, 1), b"\0")), dtype=torch.uint8)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        with self._in_contact():
            dist.all_gather(rows, mine, group=self.group)
        return [bytes(row.numpy())[:length] for row, length in zip(rows, lengths, strict=True)]

    def all_reduce(self, tensor: Tensor) -> None:
        """In an order that the library chooses; the same bits for everybody."""
        with self._in_contact():
            dist.all_reduce(tensor, group=self.group)

    def send(self, tensor: Tensor, to: int) -> None:
        """Return when it may be changed again."""
        with self._in_contact():
            dist.send(tensor, to, group=self.group)

    def recv(self, tensor: Tensor, source: int) -> None:
        """Return when it is there."""
        with self._in_contact():
            dist.recv(tensor, source, group=self.group)

    def broadcast(self, tensor: Tensor) -> None:
        """Bit for bit."""
        with self._in_contact():
            dist.broadcast(tensor, 0, group=self.group)

    def new_group(self) -> "TorchProcessGroup":
        """Between the memories of the machines: all say this together, nobody in a thread."""
        with self._in_contact():
            group = dist.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout))
        return replace(self, group=group)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Inside, torch itself exchanges tensors: a process it lost is told as everywhere."""
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, dist.DistError) and "gloo" not in str(error):
                raise
            raise self._lost() from error

    @contextmanager
    def _in_contact(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise self._lost() from error

    def _lost(self) -> ProcessLostError:
        return ProcessLostError(
            f"process {self.rank} of 0 to {self.size - 1} lost contact: another one ended, or "
            f"did not answer for {self.timeout:g} s (training.timeout); go on from the newest "
            "checkpoint with jumok train --resume and the run's folder"
        )


class PeerError(JumokError):
    """Something went wrong with another process, which says what."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("another process of this training says why it ended")
        self.exit_code = exit_code


@contextmanager
def init_process_group(device: torch.device, timeout: float) -> Iterator[ProcessGroup]:
    """The processes that torchrun started, connected until the end; SINGLE_PROCESS where it did not.

    Raises InputError for a device whose tensors cannot be exchanged, ProcessLostError when the
    others do not come within `timeout` seconds. An PeerError leaves it as SystemExit.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield SINGLE_PROCESS
        return
    backends = {"cpu": "gloo", "cuda": "cpu:gloo,cuda:nccl"}
    if device.type not in backends:
        raise InputError(
            f"{size} processes cannot train together on {device.type}; give device=cpu, or start "
            "one process"
        )
    if device.type == "cuda":
        torch.cuda.set_device(device)
    processes = TorchProcessGroup(int(os.environ["RANK"]), size, timeout)
    patience = timedelta(seconds=timeout)
    with processes._in_contact():
        store, rank, _ = next(rendezvous("env://", timeout=patience))
        dist.init_process_group(
            backends[device.type],
            store=meet(store, rank, size, timeout),
            rank=rank,
            world_size=size,
            timeout=patience,
        )
    try:
        yield processes
    except PeerError as error:
        raise SystemExit(error.exit_code) from None
    finally:
        dist.destroy_process_group()


@contextmanager
def raise_together(processes: ProcessGroup) -> Iterator[None]:
    """Inside, each works for itself; what goes wrong with one ends all, and it alone says why.

    The error comes out where it happened, of several at the lowest rank; the others raise
    PeerError with its code. So it is also a meeting: nobody leaves before all are done.
    """
    wrong: Exception | None = None
    try:
        yield
    except ProcessLostError:
        raise
    except Exception as error:
        wrong = error
    code = 0
    if wrong is not None and not isinstance(wrong, PeerError):
        code = wrong.exit_code if isinstance(wrong, JumokError) else 1
    codes = [int(row[0]) for row in processes.all_gather_floats([code])]
    speaker = next((rank for rank, code in enumerate(codes) if code), None)
    if wrong is not None and speaker == processes.rank:
        raise wrong
    if speaker is not None:
        raise PeerError(codes[speaker])


def all_reduce_max(processes: ProcessGroup, numbers: Sequence[float]) -> list[float]:
    """The largest that any process gave, of each."""
    return [max(column) for column in zip(*processes.all_gather_floats(numbers), strict=True)]


@contextmanager
def report_errors_once() -> Iterator[None]:
    """Before processes are connected: of an error that all make, one a machine says the words."""
    try:
        yield
    except JumokError as error:
        if os.environ.get("LOCAL_RANK", "0") != "0":
            raise SystemExit(error.exit_code) from None
        raise


def is_main_process() -> bool:
    """Whether this is the process that writes files and speaks: rank 0, or the only one."""
    return os.environ.get("RANK", "0") == "0"


def is_elastic() -> bool:
    """Whether torchrun says these words again (`--max-restarts`) after a process was lost."""
    return os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0"


def microbatches_of_rank(rank: int, size: int, n: int) -> range:
    """Which of the n batches of a step are a process's own: neighbours, as many for each.

    >>> [list(microbatches_of_rank(rank, 3, 4)) for rank in range(3)]
    [[0], [1], [2, 3]]
    """
    return range(rank * n // size, (rank + 1) * n // size)


def check_world_size(size: int, accumulate: int) -> None:
    """Raises InputError when a step has fewer batches than there are processes."""
    if size > accumulate:
        raise InputError(
            f"{size} processes came, and a step has training.gradient_accumulation_steps = {accumulate} to share; "
            f"set training.gradient_accumulation_steps to {size} or a multiple of it"
            f"{f', or start {accumulate}' if accumulate > 1 else ''}"
        )
