"""Fully sharded data parallelism: each process holds a part of every weight.

Of W processes each holds a W-th of the rows of every weight, of its gradient, its two moments and
its moving average (Rajbhandari et al. 2020, "ZeRO", stage 3). Before a layer computes, its rows are
gathered from all processes; afterwards the gathered weight is freed; in the backward pass it is
gathered again, and each process keeps the summed gradient of its own rows.
`torch.distributed.fsdp.fully_shard` does this with hooks on every layer, and on the loss for the
weights outside of layers: embeddings, norms and heads.

The optimizer, clipping and the moving average use `parameters`: plain tensors that are this
process's rows and share the memory that the layers are gathered from. For a checkpoint, rank 0
gathers the whole tensors, so its files are those of one process.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from jumok.models.weights import named_weights
from jumok.nn.layer import TransformerLayer
from jumok.processes import ProcessGroup, microbatches_of_rank
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import States
from jumok.training.ema import EMA

BatchT = TypeVar("BatchT")


class FullyShardedDataParallel(Generic[BatchT]):
    """The rows of every weight that this process holds, and the model gathered from them.

    `dtype` is the type of the computation: weights are gathered in it, and gradients are summed in
    float32. All processes pass the same model and call the same methods in the same order.
    """

    is_sharded = True

    def __init__(
        self,
        model: nn.Module,
        loss: Callable[[BatchT], Tensor],
        processes: ProcessGroup,
        n_microbatches: int,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.model, self.processes = model, processes
        self._job_loss = loss
        n_rounds = -(-n_microbatches // processes.size)
        n_own = len(microbatches_of_rank(processes.rank, processes.size, n_microbatches))
        self.n_idle_microbatches = n_rounds - n_own  # layers are gathered from all processes
        self._mesh = init_device_mesh(device.type, (processes.size,))
        names = {id(p): name for name, p in named_weights(model).items()}
        self._slots = [  # (module, attribute, name of the weight)
            (module, attribute, names[id(p)])
            for module in model.modules()
            for attribute, p in module._parameters.items()
            if p is not None
        ]
        before = {module: set(vars(module)) for module in model.modules()}
        layers = [m for m in model.modules() if isinstance(m, TransformerLayer)]
        self._unsharded_layers = [_ModuleHooks.of(layer) for layer in layers]
        policy = MixedPrecisionPolicy(cast_forward_inputs=False)
        if dtype != torch.float32:
            policy = MixedPrecisionPolicy(dtype, torch.float32, cast_forward_inputs=False)
        self._loss_module: nn.Module = _LossModule(model, loss)
        sharded = [fully_shard(layer, mesh=self._mesh, mp_policy=policy) for layer in layers]
        for module in (*sharded, fully_shard(self._loss_module, mesh=self._mesh)):
            module.set_gradient_divide_factor(1.0)  # losses are divided by all targets of a step
            module.set_force_sum_reduction_for_comms(enable=True)  # gloo supports only sums
        self._sharded_layers = [_ModuleHooks.of(layer) for layer in layers]
        self._sharded: dict[str, DTensor] = {
            name: _as_dtensor(p) for name, p in named_weights(model).items()
        }
        self.parameters = {name: nn.Parameter(_local(p)) for name, p in self._sharded.items()}
        self._added = {module: vars(module).keys() - known for module, known in before.items()}
        self._is_unsharded = False

    def loss(self, batch: BatchT) -> Tensor:
        """The loss of the sharded model, or of the whole one inside `unsharded`."""
        loss = self._job_loss if self._is_unsharded else self._loss_module
        return loss(batch)

    def zero_grad(self) -> None:
        """Drop all gradients, and freeze the sharded weights that are frozen in `parameters`."""
        for name, parameter in self.parameters.items():
            parameter.grad = self._sharded[name].grad = None
            self._sharded[name].requires_grad_(parameter.requires_grad)

    def collect_gradients(self) -> None:
        """Nothing to do: gradients accumulate in the sharded weights."""

    def reduce_gradients(self) -> None:
        """Move the gradients, which the backward pass reduced, to `parameters`."""
        for name, sharded in self._sharded.items():
            local, parameter = _local(sharded), self.parameters[name]
            if local.data_ptr() != parameter.data_ptr():
                parameter.data = local  # torch 2.8 copies weights of uneven rows in the first pass
            gradient = sharded.grad
            parameter.grad = None if gradient is None else _local(_as_dtensor(gradient))
            sharded.grad = None

    def gradient_norm(self) -> Tensor:
        """The Euclidean norm of the gradients of all processes."""
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        local = nn.utils.get_total_norm(gradients)
        rows = self.processes.all_gather_floats([local.double().item() ** 2])
        return torch.tensor(math.sqrt(sum(row[0] for row in rows)), device=local.device)

    @contextmanager
    def unsharded(self) -> Iterator[None]:
        """Gather all weights in every process until the end of the context."""
        with self._unsharded_with(self.parameters):
            yield

    def with_ema(self, ema: EMA) -> AbstractContextManager[None]:
        """Gather the moving averages until the end of the context."""
        return self._unsharded_with(ema.values or self.parameters)

    @torch.no_grad()
    def gather(self, states: States) -> States:
        """Copies of the whole tensors on the CPU of rank 0, gathered one by one; none elsewhere."""
        whole: dict[str, dict[str, Tensor]] = {state: {} for state in states}
        with self.processes.translate_errors():
            for state, tensors in states.items():
                for key, value in tensors.items():
                    weight = key.rpartition(":")[2]  # the optimizer has several of each weight
                    tensor = self._gather(weight, value) if value.ndim else value
                    if self.processes.rank == 0:
                        whole[state][key] = tensor.to("cpu", copy=True)
        return whole

    def local(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The rows of this process; a scalar belongs to every process."""
        rank, size = self.processes.rank, self.processes.size
        return {
            name: (*tensor.chunk(size), *[tensor[:0]] * size)[rank].clone()
            if tensor.ndim
            else tensor
            for name, tensor in tensors.items()
        }

    def load_best(self, best: Checkpoint) -> None:
        """Load the best weights into an unsharded model, for good."""
        state = "average" if "average" in best.states else "model"
        tensors = best.state(state)
        device = next(iter(self.parameters.values())).device
        self._unshard({name: tensors[name].to(device) for name in self._sharded})
        for module, attributes in self._added.items():
            for attribute in attributes:
                delattr(module, attribute)  # so that the model can be copied again

    @contextmanager
    def _unsharded_with(self, values: Mapping[str, Tensor]) -> Iterator[None]:
        """Context in which the modules have these values, gathered from all, as weights."""
        with self.processes.translate_errors(), torch.no_grad():
            whole = {name: self._gather(name, value) for name, value in values.items()}
        self._unshard(whole)
        del whole
        try:
            yield
        finally:
            for hooks in self._sharded_layers:
                hooks.restore()
            for module, attribute, name in self._slots:
                module._parameters[attribute] = cast(nn.Parameter, self._sharded[name])
            self._is_unsharded = False

    def _gather(self, name: str, value: Tensor) -> Tensor:
        """The whole tensor of which `value` is this process's rows, laid out as the weight."""
        sharded = self._sharded[name]
        rows = DTensor.from_local(
            value.detach(),
            self._mesh,
            [Shard(0)],
            run_check=False,
            shape=sharded.shape,
            stride=sharded.stride(),
        )
        return rows.full_tensor()

    def _unshard(self, whole: Mapping[str, Tensor]) -> None:
        """Give the modules whole weights.

        `fully_shard` changes the class of each layer and adds hooks that gather its weights. Both
        would act on the whole weights, so they are replaced by those from before the sharding;
        `_unsharded_with` restores them at its end.
        """
        parameters = {
            name: nn.Parameter(value, requires_grad=self.parameters[name].requires_grad)
            for name, value in whole.items()
        }
        for module, attribute, name in self._slots:
            module._parameters[attribute] = parameters[name]
        for hooks in self._unsharded_layers:
            hooks.restore()
        self._is_unsharded = True


class _LossModule(nn.Module, Generic[BatchT]):
    """The loss of a job as a module: the root that `fully_shard` hooks."""

    def __init__(self, model: nn.Module, loss: Callable[[BatchT], Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, batch: BatchT) -> Tensor:
        """The loss of a batch: ()."""
        return self.loss(batch)


@dataclass(frozen=True)
class _ModuleHooks:
    """The class and the hooks of a module at one moment."""

    module: nn.Module
    kind: type[nn.Module]
    hooks: dict[str, Any]

    @classmethod
    def of(cls, module: nn.Module) -> "_ModuleHooks":
        """Record them as they are now."""
        hooks = {
            name: value.copy()
            for name, value in vars(module).items()
            if "_hooks" in name and isinstance(value, dict)
        }
        return cls(module, type(module), hooks)

    def restore(self) -> None:
        """Give the module the recorded class and hooks."""
        self.module.__class__ = self.kind
        vars(self.module).update({name: hooks.copy() for name, hooks in self.hooks.items()})


def _as_dtensor(tensor: Tensor) -> DTensor:
    assert isinstance(tensor, DTensor), "fully_shard makes every weight a DTensor"
    return tensor


@torch.no_grad()
def _local(sharded: DTensor) -> Tensor:
    """The rows of this process, in the same memory."""
    local: Tensor = sharded.to_local()
    return local
