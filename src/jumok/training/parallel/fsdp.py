"""Each process holds a part of every weight: fully sharded data parallelism, from outside.

Of W processes each has a W-th of the rows of every weight, of its gradient, its two moments and its
average (Rajbhandari et al. 2020, "ZeRO", stage 3). Before a layer computes, its rows are gathered
from all; after it they are forgotten; in the backward pass they are gathered again, and of the
gradients each process keeps the sum of its own rows. `torch.distributed.fsdp.fully_shard` does that
with hooks round every layer, and round the loss for what is no layer: embeddings, norms and heads.

The optimizer, the clipping, the average and the checkpoints see `parameters`: plain tensors that
are this process's rows, in the memory that the layers are gathered from.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from jumok.errors import CheckpointError
from jumok.models.weights import named_weights
from jumok.nn.layer import TransformerLayer
from jumok.processes import ProcessGroup
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.sharded import ShardedCheckpointWriter
from jumok.training.checkpoints.store import CheckpointStore, CheckpointWriter
from jumok.training.ema_decay import EMA
from jumok.training.parallel.data_parallel import Find

B = TypeVar("B")


class FullyShardedDataParallel(Generic[B]):
    """The rows of every weight that are this process's, and the model made of them.

    `dtype` is what layers compute in: their rows are gathered in it, and their gradients summed in
    float32. Everybody has made the same model; from here on it is one model, and all processes call
    the same methods together.
    """

    is_writer = True

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[B], Tensor],
        processes: ProcessGroup,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.model, self.processes = model, processes
        self._job_loss = loss
        self._mesh = init_device_mesh(device.type, (processes.size,))
        names = {id(p): name for name, p in named_weights(model).items()}
        self._places = [
            (module, word, names[id(p)])
            for module in model.modules()
            for word, p in module._parameters.items()
            if p is not None
        ]
        before = {module: set(vars(module)) for module in model.modules()}
        layers = [m for m in model.modules() if isinstance(m, TransformerLayer)]
        self._plain_layers = [_Outside.of(layer) for layer in layers]
        policy = MixedPrecisionPolicy(cast_forward_inputs=False)
        if dtype != torch.float32:
            policy = MixedPrecisionPolicy(dtype, torch.float32, cast_forward_inputs=False)
        self._whole_step: nn.Module = _Loss(model, loss)
        sharded = [fully_shard(layer, mesh=self._mesh, mp_policy=policy) for layer in layers]
        for module in (*sharded, fully_shard(self._whole_step, mesh=self._mesh)):
            module.set_gradient_divide_factor(1.0)  # losses are divided by the units of all
            module.set_force_sum_reduction_for_comms(enable=True)  # gloo knows no other
        self._sharded_layers = [_Outside.of(layer) for layer in layers]
        self._rows: dict[str, DTensor] = {n: _rows(p) for n, p in named_weights(model).items()}
        self.parameters = {name: nn.Parameter(_own(rows)) for name, rows in self._rows.items()}
        self._marks = {module: vars(module).keys() - known for module, known in before.items()}
        self._is_plain = False

    def loss(self, batch: B) -> Tensor:
        """Of the model as it is now."""
        loss = self._job_loss if self._is_plain else self._whole_step
        return loss(batch)

    def gradients(self, shards: Sequence[int], n: int, find: Find) -> None:
        """Everybody goes through as many batches: layers are gathered from all.

        Who has fewer than others goes through its last one again, which then counts nothing.
        """
        for name, rows in self._rows.items():
            rows.grad = None
            rows.requires_grad_(self.parameters[name].requires_grad)
        most = -(-n // self.processes.size)
        with self.processes.translate_errors():
            for shard in shards:
                find(shard)
            for _ in range(most - len(shards)):
                find(shards[-1], idle=True)
        for name, rows in self._rows.items():
            found = rows.grad
            self.parameters[name].grad = None if found is None else _own(_rows(found))
            rows.grad = None

    def gradient_norm(self) -> Tensor:
        """The root of everybody's squares."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        own = nn.utils.get_total_norm(gradients)
        squares = [row[0] for row in self.processes.all_gather_floats([own.double().item() ** 2])]
        return torch.tensor(math.sqrt(sum(squares)), device=own.device)

    @contextmanager
    def unsharded(self) -> Iterator[None]:
        """Each process has all weights as long as that."""
        with self._plain_with(self.parameters):
            yield

    def with_ema(self, average: EMA) -> AbstractContextManager[None]:
        """Gathered anew each time."""
        return self._plain_with(average.values or self.parameters)

    def checkpoint_writer(self, store: CheckpointStore) -> CheckpointWriter:
        """A file a state of each process, behind the back of the training."""
        return ShardedCheckpointWriter(store, self.processes.new_group())

    def load(self, checkpoint: Checkpoint) -> dict[str, dict[str, Tensor]]:
        """The rows of this process, of however many the checkpoint is."""
        part = (self.processes.rank, self.processes.size)
        states = {name: checkpoint.state(name, *part) for name in checkpoint.states}
        self._take(checkpoint, states["model"])
        return states

    @torch.no_grad()
    def _take(self, checkpoint: Checkpoint, rows: Mapping[str, Tensor]) -> None:
        """Copy these rows into the weights. Raises CheckpointError when they do not fit."""
        for name, parameter in self.parameters.items():
            mine = rows.get(name)
            if mine is None or mine.shape != parameter.shape:
                came = "nothing" if mine is None else f"{tuple(mine.shape)}"
                raise CheckpointError(
                    f"{checkpoint.path}: {came} came for {name}, wanted were "
                    f"{tuple(parameter.shape)}; it is of another model: train anew elsewhere"
                )
            parameter.copy_(mine)

    def load_best(self, best: Checkpoint) -> None:
        """For good: the model is as if nobody had shared it."""
        state = "average" if "average" in best.states else "model"
        found = best.state(state)
        device = next(iter(self.parameters.values())).device
        self._become_plain({name: found[name].to(device) for name in self._rows})
        for module, marks in self._marks.items():
            for mark in marks:
                delattr(module, mark)  # so that it can be copied again

    @contextmanager
    def _plain_with(self, values: Mapping[str, Tensor]) -> Iterator[None]:
        """Inside, the modules have these values for weights, gathered from all."""
        with self.processes.translate_errors(), torch.no_grad():
            whole = {name: self._gathered(name, value) for name, value in values.items()}
        self._become_plain(whole)
        del whole
        try:
            yield
        finally:
            for outside in self._sharded_layers:
                outside.put_back()
            for module, word, name in self._places:
                module._parameters[word] = cast(nn.Parameter, self._rows[name])
            self._is_plain = False

    def _gathered(self, name: str, value: Tensor) -> Tensor:
        """All rows of a weight, of which `value` are those of this process."""
        rows = self._rows[name]
        mine = DTensor.from_local(
            value.detach(),
            self._mesh,
            [Shard(0)],
            run_check=False,
            shape=rows.shape,
            stride=rows.stride(),
        )
        return mine.full_tensor()

    def _become_plain(self, whole: Mapping[str, Tensor]) -> None:
        """Give the modules whole weights, and take the hooks that would gather them."""
        parameters = {
            name: nn.Parameter(value, requires_grad=self.parameters[name].requires_grad)
            for name, value in whole.items()
        }
        for module, word, name in self._places:
            module._parameters[word] = parameters[name]
        for outside in self._plain_layers:
            outside.put_back()
        self._is_plain = True


class _Loss(nn.Module, Generic[B]):
    """The loss of a job as a module: what stands round all that the job does."""

    def __init__(self, model: nn.Module, loss: Callable[[B], Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: B) -> Tensor:
        """The loss of a batch: ()."""
        return self.loss(batch)


@dataclass(frozen=True)
class _Outside:
    """What stands round a module's own calculation: its class and its hooks."""

    module: nn.Module
    kind: type[nn.Module]
    hooks: dict[str, Any]

    @classmethod
    def of(cls, module: nn.Module) -> "_Outside":
        """As it is now."""
        hooks = {
            name: value.copy()
            for name, value in vars(module).items()
            if "_hooks" in name and isinstance(value, dict)
        }
        return cls(module, type(module), hooks)

    def put_back(self) -> None:
        """As it was then."""
        self.module.__class__ = self.kind
        vars(self.module).update({name: hooks.copy() for name, hooks in self.hooks.items()})


def _rows(parameter: Tensor) -> DTensor:
    assert isinstance(parameter, DTensor), "fully_shard makes every weight one"
    return parameter


@torch.no_grad()
def _own(rows: DTensor) -> Tensor:
    """Those of this process, in the same memory."""
    own: Tensor = rows.to_local()
    return own
