"""The [training] table of a recipe: length, optimization, precision, checkpoints."""

from dataclasses import dataclass, field
from typing import Literal

from jumok.config_io import check_choices, check_range
from jumok.errors import InputError
from jumok.nn.lora import LoraConfig
from jumok.training.optimizers import OPTIMIZERS
from jumok.training.schedules import SCHEDULES

WARMUP_STEPS = (400, 10)  # the defaults: from scratch, and of fine-tuning


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Training ends at the first of `steps`, `epochs` and `minutes` that is reached.

    With minutes alone, a learning rate that falls to 0 follows the clock: it reaches 0 at the end
    on a machine of any speed, but no two runs are bit-identical.

    `sharding` places the model on several processes and does not change the result: "none" is data
    parallelism; with "full" each process holds a part of every weight (`parallel/fsdp.py`). "full"
    excludes `strict` and `compile`, which need whole models, and Muon, which needs whole matrices;
    a single process ignores `sharding`.

    `method` is what is learned from a pretrained model: "linear" the output layer alone, which is
    logistic or ridge regression of the frozen vectors; "fine-tune" all weights; "auto" first the
    linear layer, then all weights from there, and the better of both is kept (`linear_models.py`).
    """

    method: Literal["fine-tune", "linear", "auto"] = "fine-tune"  # auto: linear, then fine-tune
    steps: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    batch_tokens: int = 4096  # padded tokens of one microbatch
    gradient_accumulation_steps: int = 1  # microbatches a step, shared by all processes
    optimizer: str = "adamw"  # or "muon", of the matrices of the layers, or of an extension
    learning_rate: float = 1e-3  # the peak
    schedule: str = "inverse_sqrt"  # or "cosine", "linear", "constant", or of an extension
    warmup_steps: int = WARMUP_STEPS[0]  # a default is at most half of the training
    weight_decay: float = 0.01  # of matrices; not of biases and norms
    beta1: float = 0.9
    beta2: float = 0.98  # section 5.3
    clip_norm: float = 1.0  # of all gradients together; 0: no clipping
    layer_decay: float = 1.0  # learning rate of each layer relative to the next; 1: all equal
    freeze: tuple[str, ...] = ()  # weights not trained: "embeddings", "layers.0-3", "encoder" ...
    lora: LoraConfig = field(default_factory=LoraConfig)  # rank = 8: train low-rank changes only
    class_weights: Literal["none", "balanced", "auto"] = "none"  # of the labels in the loss
    label_smoothing: float = 0.0  # 0.1 in section 5.4
    ema_decay: float = 0.0  # of the moving average of the weights; 0: none
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # bfloat16 where it is fast
    strict: bool = False  # the same bits for any number of cores and processes
    sharding: Literal["none", "full"] = "none"  # full: each process holds a part of the model
    activation_checkpointing: bool = False  # recompute activations: less memory, a third more time
    compile: bool = False  # torch.compile; if it fails, training continues without it
    evaluate_every: int = 0  # steps; 0: at the end of every epoch
    checkpoint_every: int = 0  # steps; 0: with every evaluation only
    on_nonfinite: Literal["stop", "skip"] = "stop"  # if a loss or a gradient is not finite
    spike_factor: float = 0.0  # a loss above this multiple of the mean loss counts too; 0: off
    keep_checkpoints: int = 2  # the newest ones, besides the best one
    patience: int = 0  # evaluations without a better score before stopping; 0: never stop early
    log_every: int = 20  # steps between two records in metrics.jsonl
    statistics: bool = False  # with each record: gradients, updates and entropies (statistics.py)
    timeout: float = 600.0  # seconds until a process that does not answer counts as lost

    def __post_init__(self) -> None:
        check_choices(self, "training")
        SCHEDULES.check(self.schedule)
        OPTIMIZERS.check(self.optimizer)
        ends = (self.steps, self.epochs, self.minutes)
        if self.method != "linear" and all(end is None for end in ends):
            raise InputError(
                "training.no_end",
                "training must have an end; set training.steps, training.epochs or "
                "training.minutes",
            )
        for name in ("steps", "epochs", "minutes"):
            if getattr(self, name) is not None:
                self._check(name, "(0, inf)")
        for name in ("batch_tokens", "gradient_accumulation_steps", "log_every"):
            self._check(name, "[1, inf)")
        for name in ("ema_decay", "label_smoothing", "beta1", "beta2"):
            self._check(name, "[0, 1)")
        for name in ("warmup_steps", "evaluate_every", "checkpoint_every", "patience",
                     "clip_norm", "weight_decay"):  # fmt: skip
            self._check(name, "[0, inf)")
        self._check("learning_rate", "(0, 10)", "; try 0.001")
        self._check("layer_decay", "(0, 1]")
        self._check("timeout", "(0, inf)")
        if self.spike_factor:
            self._check("spike_factor", "(1, inf)", "; 0 turns it off")
        self._check("keep_checkpoints", "[2, inf)")
        if self.sharding != "none":
            whole = [name for name in ("strict", "compile", "statistics") if getattr(self, name)]
            whole += ["lora"] if self.lora.rank else []
            whole += [] if OPTIMIZERS.get(self.optimizer).elementwise else ["optimizer"]
            if whole:
                raise InputError(
                    "training.not_with_sharding",
                    'training.{name} must be left out with training.sharding = "{sharding}": it '
                    'needs whole weights in every process; leave it out, or set "none"',
                    name=whole[0],
                    sharding=self.sharding,
                )
        if self.strict and self.compile:
            raise InputError(
                "training.compile_with_strict",
                "training.compile must be false with training.strict: compiled kernels round "
                "differently; set one of them to false",
            )

    def _check(self, name: str, interval: str, advice: str = "") -> None:
        check_range(f"training.{name}", getattr(self, name), interval, advice)

    def progress(self, step: int, epochs: float, seconds: float) -> float:
        """How much of the training is done, from 0 to 1; time counts only if nothing else is set.

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
