"""The gradients of one step: every batch forward and backward, compiled as long as that works."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Generic

import torch
from torch import Tensor, nn

from jumok.seeding import set_step_seed
from jumok.training.config import TrainingConfig
from jumok.training.job import B, TrainingJob
from jumok.training.mixed_precision import autocast_model
from jumok.training.parallel.data_parallel import ParallelStrategy


class StepGradients(Generic[B]):
    """Finds the gradients of a job's steps, of which this process has the batches `shards`."""

    def __init__(
        self,
        job: TrainingJob[B],
        held: ParallelStrategy[B],
        config: TrainingConfig,
        shards: Sequence[int],
        *,
        seed: int,
        device: torch.device,
        dtype: torch.dtype,
        say: Callable[[str], None],
    ) -> None:
        self.job, self.held, self.config, self.shards = job, held, config, shards
        self.seed, self.device, self.dtype, self.say = seed, device, dtype, say
        self.compiling = config.compile  # until a first batch shows that it works
        if self.compiling:
            for tower in self._towers():
                tower.compile()

    def find(self, step: int, parts: Mapping[int, B], units: int) -> list[float]:
        """Leave the gradients of a step of so many units; the losses of this process's batches."""
        losses: list[float] = []

        def find(shard: int, *, idle: bool = False) -> None:
            if idle:  # divided by infinity its gradients are all 0
                self._backward(step, shard, parts[shard], math.inf)
            else:
                losses.append(self._backward(step, shard, parts[shard], units))

        self._forget()
        self.held.gradients(self.shards, self.config.gradient_accumulation_steps, find)
        return losses

    def loss(self, step: int, shard: int, part: B) -> Tensor:
        """The loss of one batch of a step, summed over its units: ()."""
        set_step_seed(self.seed, step, shard)
        with autocast_model(self.job.model, self.device, self.dtype):
            return self.held.loss(part)

    def _backward(self, step: int, shard: int, part: B, units: float) -> float:
        """Add the gradients of one batch of a step of so many units; its share of the loss."""
        try:
            loss = self.loss(step, shard, part) / units
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if not self.compiling:
                raise
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.say(f"torch.compile failed ({why}); going on without it")
            self._stop_compiling()
            self._forget()  # half of those of the first batch
            return self._backward(step, shard, part, units)
        self.compiling = False
        return loss.item()

    def _stop_compiling(self) -> None:
        """Undo what `Module.compile` did, for which torch has no word."""
        for tower in self._towers():
            tower._compiled_call_impl = None
        self.compiling = False

    def _towers(self) -> list[nn.Module]:
        """What to compile: a job may call the parts of its model one by one."""
        return list(self.job.model.children()) or [self.job.model]

    def _forget(self) -> None:
        for parameter in self.held.parameters.values():
            parameter.grad = None
