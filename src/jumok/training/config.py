"""How long, how fast and how carefully to train: the [training] table of a recipe."""

import math
from dataclasses import dataclass
from typing import Literal

from jumok.errors import InputError
from jumok.training.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Training ends at the first of `steps`, `epochs` and `minutes` that is reached.

    With minutes alone a learning rate that falls to 0 follows the clock: the training ends as it
    should on a machine of any speed, but no two trainings take the same steps, bit for bit.

    `sharding` says who of several processes holds what, and nothing of what is learnt: "none" is
    data parallelism, with "full" each holds a part of every weight (`sharding.py`). It does not go
    with `strict` and `compile`, which need whole models; a process alone holds all either way.
    """

    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    batch_tokens: int = 4096  # padded tokens of one batch
    gradient_accumulation_steps: int = (
        1  # batches a step, shared by all processes; the loss is of all their units
    )
    learning_rate: float = 1e-3  # at its highest
    schedule: Schedule = "inverse_sqrt"
    warmup_steps: int = 400
    weight_decay: float = 0.01  # of matrices; biases and norms are left alone
    beta1: float = 0.9
    beta2: float = 0.98  # section 5.3
    clip_norm: float = 1.0  # of all gradients together; 0: no clipping
    layer_decay: float = 1.0  # each layer learns at so much of the next one's rate; 1: all alike
    freeze: tuple[str, ...] = ()  # what does not learn: "embeddings", "layers.0-3", "encoder" ...
    label_smoothing: float = 0.0  # 0.1 in section 5.4
    ema_decay: float = 0.0  # decay of the running average of the weights; 0: none
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 where the machine has it
    strict: bool = False  # the same bits on any number of cores and with any number of processes
    sharding: Literal["none", "full"] = "none"  # full: each process holds a part of the model
    activation_checkpointing: bool = (
        False  # layers keep their input alone: less memory, a third more time
    )
    compile: bool = False  # torch.compile; where it fails, training goes on without it
    evaluate_every: int = 0  # steps; 0: at the end of every epoch
    checkpoint_every: int = 0  # steps; 0: with every evaluation only
    on_nonfinite: Literal["stop", "skip"] = "stop"  # when a loss or a gradient is not finite
    spike_factor: float = (
        0.0  # a loss so many times the mean before it is a bad step too; 0: none is
    )
    keep_checkpoints: int = 2  # newest checkpoints kept, the best one besides
    patience: int = 0  # evaluations without a better score before stopping; 0: never stop early
    log_every: int = 20  # steps between two lines of metrics.jsonl
    timeout: float = 600.0  # seconds after which a process that does not answer is lost

    def __post_init__(self) -> None:
        if self.steps is None and self.epochs is None and self.minutes is None:
            raise InputError("no end was given; set training.steps, training.epochs or .minutes")
        for name in ("steps", "epochs", "minutes"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(
                    f"training.{name} {value} is no time; give more than 0, less than infinity"
                )
        for name in ("batch_tokens", "accumulate", "log_every"):
            if getattr(self, name) < 1:
                raise InputError(f"training.{name} {getattr(self, name)}: give 1 or more")
        for name in ("ema", "label_smoothing", "beta1", "beta2"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise InputError(f"training.{name} {getattr(self, name)}: give 0 or more, below 1")
        for name in ("warmup_steps", "evaluate_every", "checkpoint_every", "patience"):
            if getattr(self, name) < 0:
                raise InputError(f"training.{name} {getattr(self, name)}: give 0 or more")
        if not 0 < self.learning_rate < 10:
            raise InputError(f"training.learning_rate {self.learning_rate}: give e.g. 0.001")
        if not 0.0 < self.layer_decay <= 1.0:
            raise InputError(
                f"training.layer_decay {self.layer_decay}: give more than 0, at most 1"
            )
        for name in ("clip_norm", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"training.{name} {getattr(self, name)}: give 0 or more")
        for name in ("strict", "compile"):
            if self.sharding != "none" and getattr(self, name):
                raise InputError(
                    f"training.{name} needs a whole model in every process, and training.sharding "
                    f'= "{self.sharding}" leaves each a part; set one of them to false or "none"'
                )
        if self.strict and self.compile:
            raise InputError(
                "training.strict promises the same bits everywhere, and training.compile makes "
                "kernels that round otherwise; set one of them to false"
            )
        if not 0 < self.timeout < math.inf:
            raise InputError(f"training.timeout {self.timeout}: give more than 0 seconds")
        if self.spike_factor and not 1 < self.spike_factor < math.inf:
            raise InputError(
                f"training.spike_factor {self.spike_factor}: give more than 1, or 0 for none"
            )
        if self.keep_checkpoints < 2:
            raise InputError(
                f"training.keep_checkpoints {self.keep_checkpoints} leaves no second checkpoint; keep 2"
            )

    def progress(self, step: int, epochs: float, seconds: float) -> float:
        """How much of the training is done, from 0 to 1; time counts where nothing else does.

        >>> TrainingConfig(minutes=3).progress(step=500, epochs=0.5, seconds=90)
        0.5
        """
        parts = [0.0]
        if self.steps is not None:
            parts.append(step / self.steps)
        if self.epochs is not None:
            parts.append(epochs / self.epochs)
        if self.minutes is not None and self.steps is None and self.epochs is None:
            parts.append(seconds / (60 * self.minutes))
        return min(max(parts), 1.0)
