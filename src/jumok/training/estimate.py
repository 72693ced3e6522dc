"""What a training will cost, before it begins: some steps are taken on weights nobody keeps."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from jumok.device import resolve_dtype, tune_allocator
from jumok.models.weights import named_weights
from jumok.nn.layer import TransformerLayer
from jumok.training.activation_checkpointing import activation_checkpointing
from jumok.training.config import TrainingConfig
from jumok.training.ema_decay import EMA
from jumok.training.job import Batch, TrainingJob
from jumok.training.mixed_precision import autocast_model
from jumok.training.optimizer import Optimizer

B = TypeVar("B", bound=Batch)

LOOKED_AT = 64  # batches whose tokens are counted, from all over the epoch
TAKEN = 8  # of them, steps that are timed


@dataclass(frozen=True)
class Cost:
    """Bytes, tokens and seconds of a training; evaluations and the final test are not in it.

    `activation_bytes` are those that the costliest batch of an epoch keeps for its gradients.
    """

    parameters: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int  # both moments, and the running average if there is one
    activation_bytes: int
    copy_bytes: int  # of all that a checkpoint holds, while it is written
    outside_bytes: int  # of the weights that are in no layer: embeddings, norms, heads
    layer_bytes: int  # of the weights of the largest layer
    tokens_per_epoch: int
    steps: int
    tokens_per_second: float
    seconds: float

    @property
    def bytes(self) -> int:
        """All of them at once: what a training holds beside its data and torch itself."""
        held = self.weight_bytes + self.gradient_bytes + self.optimizer_bytes
        return held + self.activation_bytes + self.copy_bytes

    def bytes_per_rank(self, processes: int) -> int:
        """What each of so many processes holds with `training.sharding = "full"`.

        While it takes a step: its part of everything, what is in no layer whole with its
        gradients, two layers (one computes, one is on its way) and the gradients of one, and the
        activations. While it evaluates: its part and all weights. The more of the two counts.
        """
        part = self.weight_bytes + self.optimizer_bytes + self.copy_bytes
        gathered = 2 * self.outside_bytes + 3 * self.layer_bytes
        step = (part + self.gradient_bytes) // processes + gathered + self.activation_bytes
        return max(step, part // processes + self.weight_bytes)


def estimate(job: TrainingJob[B], config: TrainingConfig, device: torch.device) -> Cost:
    """Measure some steps of the first epoch. The weights of the job's model change.

    The speed is that of this machine as busy as it is now.
    """
    tune_allocator()
    parameters = named_weights(job.model)
    optimizer = Optimizer(parameters, config)
    average = EMA(parameters, config.ema_decay)
    dtype = resolve_dtype(config.precision, device)
    job.model.train()
    epoch = job.epoch(0)
    looked_at = [epoch[i] for i in _spread(len(epoch), LOOKED_AT)]
    tokens = len(epoch) * sum(batch.tokens for batch in looked_at) / len(looked_at)
    largest = max(looked_at, key=lambda batch: batch.tokens)

    def step(batch: B) -> None:
        with (
            autocast_model(job.model, device, dtype),
            activation_checkpointing(job.model, wanted=config.activation_checkpointing),
        ):
            loss = job.loss(batch) / max(batch.n_targets, 1)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step(0.0)
        average.update(1)

    activations = _kept_for_gradients(lambda: step(largest), parameters)
    batches = [looked_at[i] for i in _spread(len(looked_at), TAKEN)]
    step(batches[0])  # kernels are chosen, memory is asked for
    begin = time.perf_counter()
    for batch in batches:
        step(batch)
    speed = sum(batch.tokens for batch in batches) / (time.perf_counter() - begin)
    n = sum(p.numel() for p in parameters.values())
    size = sum(_bytes(p) for p in parameters.values())
    learning = sum(_bytes(p) for p in parameters.values() if p.requires_grad)
    layers = [
        sum(_bytes(p) for p in module.parameters())
        for module in job.model.modules()
        if isinstance(module, TransformerLayer)
    ]
    steps, seconds = _length(config, len(epoch), tokens, speed)
    states = 2 * learning + (size if config.ema_decay else 0)
    return Cost(
        parameters=n,
        weight_bytes=size,
        gradient_bytes=learning,
        optimizer_bytes=states,
        activation_bytes=activations,
        copy_bytes=size + states if device.type == "cpu" else 0,  # it lies on the CPU
        outside_bytes=size - sum(layers),
        layer_bytes=max(layers, default=0),
        tokens_per_epoch=round(tokens),
        steps=steps,
        tokens_per_second=speed,
        seconds=seconds,
    )


def _spread(n: int, most: int) -> list[int]:
    """At most so many of the numbers 0 to n - 1, evenly spread, the first and the last of them.

    >>> _spread(10, 4), _spread(2, 4)
    ([0, 3, 6, 9], [0, 1])
    """
    most = min(n, most)
    return [round(i * (n - 1) / max(most - 1, 1)) for i in range(most)]


def _length(config: TrainingConfig, batches: int, tokens: float, speed: float) -> tuple[int, float]:
    """Steps, and seconds of them, until the first end that the config names."""
    second_a_step = tokens / batches * config.gradient_accumulation_steps / speed
    ends = [math.inf if config.steps is None else float(config.steps)]
    if config.epochs is not None:
        ends.append(config.epochs * batches / config.gradient_accumulation_steps)
    if config.minutes is not None:
        ends.append(60 * config.minutes / second_a_step)
    steps = math.ceil(min(ends))
    return steps, steps * second_a_step


def _kept_for_gradients(step: Callable[[], None], parameters: dict[str, torch.nn.Parameter]) -> int:
    """The bytes that autograd keeps during a step, each storage once, weights aside."""
    weights = {p.untyped_storage().data_ptr() for p in parameters.values()}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    return sum(kept.values())


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
