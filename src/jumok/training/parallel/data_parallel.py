"""How the processes of a run share one model: the interface, and data parallelism.

The trainer calls a `ParallelStrategy` for the weights to update, for the reduction of gradients,
for the whole model in evaluation, and for the tensors of checkpoints. With `DataParallel` every
process holds the whole model; with `FullyShardedDataParallel` (`fsdp.py`) each holds a part of
every weight.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Generic, Protocol, TypeVar

from torch import Tensor, nn

from jumok.models.weights import load_weights, named_weights
from jumok.processes import ProcessGroup
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import States
from jumok.training.ema import EMA
from jumok.training.fused_adamw import gradient_norm

BatchT = TypeVar("BatchT", contravariant=True)


class ParallelStrategy(Protocol[BatchT]):
    """How one process takes part in the training of a model.

    A step calls `zero_grad`, then for each microbatch of this process `loss`, the backward pass
    and `collect_gradients`, then `reduce_gradients`.
    """

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The weights that this process updates, or its part of them, by the model's names."""

    @property
    def is_sharded(self) -> bool:
        """Whether `parameters` are a part of the weights, and `gather` copies."""

    @property
    def n_idle_microbatches(self) -> int:
        """How many more backward passes this process must join, each with zero gradients."""

    def loss(self, batch: BatchT) -> Tensor:
        """The loss of a batch: ()."""

    def zero_grad(self) -> None:
        """Drop all gradients before a step."""

    def collect_gradients(self) -> None:
        """Take in the gradients of one microbatch after its backward pass."""

    def reduce_gradients(self) -> None:
        """Sum the gradients of the step over all processes, into `parameters`."""

    def gradient_norm(self) -> Tensor:
        """The norm of all gradients of the model: ()."""

    def unsharded(self) -> AbstractContextManager[None]:
        """Context in which every module has its whole weights and can be called by itself."""

    def with_ema(self, ema: EMA) -> AbstractContextManager[None]:
        """Context in which the model has the averaged weights, if there are any."""

    def gather(self, states: States) -> States:
        """The whole tensors of these states of `parameters` on rank 0; a collective."""

    def local(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The part of this process, from the whole tensors of a state."""

    def load_best(self, best: Checkpoint) -> None:
        """Load the averaged weights of a checkpoint, or its weights, into the whole model."""


class DataParallel(Generic[BatchT]):
    """Every process holds the whole model.

    With `strict` the gradients of n microbatches a step are summed in a fixed tree.
    """

    n_idle_microbatches = 0
    is_sharded = False

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[BatchT], Tensor],
        processes: ProcessGroup,
        n_microbatches: int,
        *,
        strict: bool,
    ) -> None:
        self.model, self.loss, self.processes = model, loss, processes
        self.n_microbatches, self.strict = n_microbatches, strict
        self.parameters = named_weights(model)
        self._tree: Iterator[None] | None = None

    def zero_grad(self) -> None:
        """Drop all gradients; with `strict`, begin a new tree."""
        weights = self.parameters.values()
        for parameter in weights:
            parameter.grad = None
        if self.strict:
            from jumok.training.parallel.all_reduce import deterministic_tree_reduce

            self._tree = deterministic_tree_reduce(weights, self.n_microbatches, self.processes)

    def collect_gradients(self) -> None:
        """With `strict`, move them into the tree; otherwise they accumulate in the weights."""
        if self._tree is not None:
            next(self._tree)

    def reduce_gradients(self) -> None:
        """Sum over the tree, or all-reduce the accumulated gradients."""
        if self._tree is not None:
            for _ in self._tree:
                raise AssertionError("more microbatches than backward passes")
        elif self.processes.size > 1:
            from jumok.training.parallel.all_reduce import all_reduce_gradients

            all_reduce_gradients(self.parameters.values(), self.processes)

    def gradient_norm(self) -> Tensor:
        """The norm of the reduced gradients, the same on every rank."""
        return gradient_norm([p.grad for p in self.parameters.values() if p.grad is not None])

    def unsharded(self) -> AbstractContextManager[None]:
        """The model is always whole."""
        return nullcontext()

    def with_ema(self, ema: EMA) -> AbstractContextManager[None]:
        """Swap the weights with their averages, without a copy."""
        return ema.swap()

    def gather(self, states: States) -> States:
        """The tensors are whole already."""
        return states

    def local(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """All of them."""
        return dict(tensors)

    def load_best(self, best: Checkpoint) -> None:
        """Load by the names of the weights."""
        states: Mapping[str, Mapping[str, Tensor]] = best.load()
        load_weights(self.model, states.get("average", states["model"]))
