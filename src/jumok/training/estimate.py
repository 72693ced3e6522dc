"""Estimate memory and time of a training from a few measured steps."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from jumok.allocator import tune_allocator
from jumok.device import resolve_dtype
from jumok.models.weights import named_weights
from jumok.native.training import cpu_training_kernel
from jumok.nn.layer import TransformerLayer
from jumok.nn.training_kernel import use_training_kernel
from jumok.training.activation_checkpointing import activation_checkpointing
from jumok.training.config import TrainingConfig
from jumok.training.ema import EMA
from jumok.training.job import BatchT, TrainingJob
from jumok.training.mixed_precision import autocast_model
from jumok.training.optimizer import Optimizer

SAMPLED_BATCHES = 64  # whose tokens are counted, evenly spread over the epoch
TIMED_STEPS = 8  # of some of them


@dataclass(frozen=True)
class Cost:
    """Bytes, tokens and seconds of a training, without evaluations and the final test.

    `activation_bytes` are the activations that the largest batch of an epoch saves for its backward
    pass.
    """

    parameters: int
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int  # both moments, and the moving average if enabled
    activation_bytes: int
    copy_bytes: int  # of everything in a checkpoint, while it is written
    outside_bytes: int  # of the weights outside of layers: embeddings, norms, heads
    layer_bytes: int  # of the weights of the largest layer
    tokens_per_epoch: int
    steps: int
    tokens_per_second: float
    seconds: float

    @property
    def bytes(self) -> int:
        """The sum: the memory of a training without its data and torch itself."""
        states = self.weight_bytes + self.gradient_bytes + self.optimizer_bytes
        return states + self.activation_bytes + self.copy_bytes

    def bytes_per_rank(self, processes: int) -> int:
        """The memory of each process with `training.sharding = "full"`.

        In a step: its part of everything, the weights outside of layers with their gradients, two
        gathered layers (one computes, the next is being gathered), the gradients of one, and the
        activations. In an evaluation: its part and all weights. The larger of the two counts.
        """
        part = self.weight_bytes + self.optimizer_bytes + self.copy_bytes
        gathered = 2 * self.outside_bytes + 3 * self.layer_bytes
        step = (part + self.gradient_bytes) // processes + gathered + self.activation_bytes
        return max(step, part // processes + self.weight_bytes)


def estimate(
    job: TrainingJob[BatchT],
    config: TrainingConfig,
    device: torch.device,
    timed_steps: int = TIMED_STEPS,
) -> Cost:
    """Time some steps of the first epoch. This changes the weights of the job's model.

    The speed is that of this machine under its current load.
    """
    tune_allocator()
    parameters = named_weights(job.model)
    optimizer = Optimizer(parameters, config)
    ema = EMA(parameters, config.ema_decay)
    dtype = resolve_dtype(config.precision, device)
    kernel = cpu_training_kernel() if device.type == "cpu" else None
    job.model.train()
    epoch = job.epoch(0)
    sampled = [epoch[i] for i in _spread(len(epoch), SAMPLED_BATCHES)]
    tokens = len(epoch) * sum(batch.tokens for batch in sampled) / len(sampled)
    largest = max(sampled, key=lambda batch: batch.tokens)

    def step(batch: BatchT) -> None:
        with (
            activation_checkpointing(job.model, enabled=config.activation_checkpointing),
            use_training_kernel(kernel),
        ):
            with autocast_model(job.model, device, dtype):
                loss = job.loss(batch) / max(batch.n_targets, 1)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step(0.0, ema=ema, number=1)

    activations = _saved_for_backward(lambda: step(largest), parameters)
    batches = [sampled[i] for i in _spread(len(sampled), timed_steps)]
    step(batches[0])  # warm-up: kernels are chosen, memory is allocated
    begin = time.perf_counter()
    for batch in batches:
        step(batch)
    speed = sum(batch.tokens for batch in batches) / (time.perf_counter() - begin)
    n = sum(p.numel() for p in parameters.values())
    size = sum(_bytes(p) for p in parameters.values())
    trainable = sum(_bytes(p) for p in parameters.values() if p.requires_grad)
    layers = [
        sum(_bytes(p) for p in module.parameters())
        for module in job.model.modules()
        if isinstance(module, TransformerLayer)
    ]
    steps, seconds = _length(config, len(epoch), tokens, speed)
    states = 2 * trainable + (size if config.ema_decay else 0)
    return Cost(
        parameters=n,
        weight_bytes=size,
        gradient_bytes=trainable,
        optimizer_bytes=states,
        activation_bytes=activations,
        copy_bytes=size + states if device.type == "cpu" else 0,  # the copy is on the CPU
        outside_bytes=size - sum(layers),
        layer_bytes=max(layers, default=0),
        tokens_per_epoch=round(tokens),
        steps=steps,
        tokens_per_second=speed,
        seconds=seconds,
    )


def _spread(n: int, count: int) -> list[int]:
    """At most `count` of the numbers 0 to n - 1, evenly spread from the first to the last.

    >>> _spread(10, 4), _spread(2, 4)
    ([0, 3, 6, 9], [0, 1])
    """
    count = min(n, count)
    return [round(i * (n - 1) / max(count - 1, 1)) for i in range(count)]


def _length(config: TrainingConfig, batches: int, tokens: float, speed: float) -> tuple[int, float]:
    """Steps and seconds until the first end that the config sets."""
    if config.method == "linear":
        return 0, 0.0
    seconds_per_step = tokens / batches * config.gradient_accumulation_steps / speed
    ends = [math.inf if config.steps is None else float(config.steps)]
    if config.epochs is not None:
        ends.append(config.epochs * batches / config.gradient_accumulation_steps)
    if config.minutes is not None:
        ends.append(60 * config.minutes / seconds_per_step)
    steps = math.ceil(min(ends))
    return steps, steps * seconds_per_step


def _saved_for_backward(step: Callable[[], None], parameters: dict[str, torch.nn.Parameter]) -> int:
    """The bytes that autograd saves during a step, each storage once, without weights."""
    weights = {p.untyped_storage().data_ptr() for p in parameters.values()}
    saved: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step()
    return sum(saved.values())


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
