"""What one process holds of a model that several train together.

The training loop asks it for the weights to change, for the gradients of a step, for the whole
model to look at, and for what to write and to read. `Copies` is data parallelism: everybody has
everything. `sharding.py` is the other way: everybody has a part.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, Protocol, TypeVar

from torch import Tensor, nn

from jumok.models.weights import load_weights, named_weights
from jumok.processes import ProcessGroup
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import CheckpointStore, CheckpointWriter
from jumok.training.ema_decay import EMA
from jumok.training.parallel.all_reduce import all_reduce_gradients, deterministic_tree_reduce

B = TypeVar("B", contravariant=True)


class Find(Protocol):
    """Add the gradients of one batch of a step; an idle one is gone through and counts nothing."""

    def __call__(self, shard: int, *, idle: bool = False) -> None:
        """`shard` is the number of the batch in its step."""


class ParallelStrategy(Protocol[B]):
    """The part of a training that lies in this process."""

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The weights, or parts of them, that this process changes, by their plain names."""

    @property
    def is_writer(self) -> bool:
        """Whether this process has files of every checkpoint to write."""

    def loss(self, batch: B) -> Tensor:
        """The loss of a batch: ()."""

    def gradients(self, shards: Sequence[int], n: int, find: Find) -> None:
        """The gradients of all n batches of a step, of which this process finds `shards`."""

    def gradient_norm(self) -> Tensor:
        """The norm of all gradients of the model together: ()."""

    def unsharded(self) -> AbstractContextManager[None]:
        """Inside, the modules have their whole weights, and may be called one without another."""

    def with_ema(self, average: EMA) -> AbstractContextManager[None]:
        """The same with the average for weights, where there is one."""

    def checkpoint_writer(self, store: CheckpointStore) -> CheckpointWriter:
        """Where this process commits what it holds."""

    def load(self, checkpoint: Checkpoint) -> dict[str, dict[str, Tensor]]:
        """What it goes on with, by state and name; the weights are taken already."""

    def load_best(self, best: Checkpoint) -> None:
        """Leave a checkpoint's average, or its weights, in the whole and plain model."""


class DataParallel(Generic[B]):
    """Every process holds all of the weights, and rank 0 writes them down."""

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[B], Tensor],
        processes: ProcessGroup,
        *,
        strict: bool,
    ) -> None:
        self.model, self.processes, self.strict = model, processes, strict
        self.loss = loss
        self.parameters = named_weights(model)
        self.is_writer = processes.rank == 0

    def gradients(self, shards: Sequence[int], n: int, find: Find) -> None:
        """Those of this process first, then the sum over all; or one tree over all batches."""
        weights = self.parameters.values()
        if self.strict:
            deterministic_tree_reduce(weights, n, self.processes, find)
        else:
            for shard in shards:
                find(shard)
            all_reduce_gradients(weights, self.processes)

    def gradient_norm(self) -> Tensor:
        """Of the gradients that are the same everywhere."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        return nn.utils.get_total_norm(gradients)

    def unsharded(self) -> AbstractContextManager[None]:
        """It always is."""
        return nullcontext()

    def with_ema(self, average: EMA) -> AbstractContextManager[None]:
        """By exchange: nothing is copied."""
        return average.swap()

    def checkpoint_writer(self, store: CheckpointStore) -> CheckpointWriter:
        """One file a state."""
        return store

    def load(self, checkpoint: Checkpoint) -> dict[str, dict[str, Tensor]]:
        """Everything."""
        states = checkpoint.load()
        load_weights(self.model, states["model"])
        return states

    def load_best(self, best: Checkpoint) -> None:
        """By the names of the weights."""
        states: Mapping[str, Mapping[str, Tensor]] = best.load()
        load_weights(self.model, states.get("average", states["model"]))
