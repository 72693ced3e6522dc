"""The training loop: batches in, a little less loss each step, the best weights kept.

    for batches of a step:
        loss, divided by the real units of the whole step; gradients; clip; AdamW; average
        now and then: report, evaluate on the development split, commit a checkpoint

A resumed training goes on bit for bit: what is random at a step follows from (seed, step), the
order of the data from (seed, epoch), and everything else is in the checkpoint.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from jumok.data.loader import Epoch, Loader, Position
from jumok.errors import CheckpointError, NonFiniteError
from jumok.models.weights import load_weights, weights_of
from jumok.training.average import WeightAverage
from jumok.training.better import is_better
from jumok.training.checkpoint import Checkpoint, CheckpointStore
from jumok.training.config import TrainingConfig
from jumok.training.history import History
from jumok.training.machine import (
    be_strict,
    choose_precision,
    release_memory,
    tune_memory,
)
from jumok.training.nonfinite import first_nonfinite
from jumok.training.optimizer import Optimizer
from jumok.training.precision import in_precision
from jumok.training.progress import ProgressLine, Speed
from jumok.training.randomness import seed_step
from jumok.training.schedules import learning_rate_share
from jumok.training.signals import Stop, graceful


class Batch(Protocol):
    """Whatever a job computes its loss of."""

    @property
    def tokens(self) -> int:
        """How many real tokens are in it: what speed is counted in."""

    @property
    def units(self) -> int:
        """How many texts or real target tokens its loss is the sum of."""


B = TypeVar("B", bound=Batch)


@dataclass(frozen=True)
class DevScore:
    """What an evaluation on the development split found."""

    loss: float
    score: float
    metric: str


class Job(Protocol[B]):
    """What there is to learn: a model, data in epochs, a loss and a score."""

    @property
    def model(self) -> nn.Module:
        """What learns."""

    def epoch(self, number: int) -> Epoch[B]:
        """The batches of an epoch: a pure function of its number."""

    def loss(self, batch: B) -> Tensor:
        """The loss of a batch, summed over its units: ()."""

    def evaluate(self) -> DevScore:
        """The score on the development split, in eval mode without gradients."""


@dataclass(frozen=True)
class Progress:
    """Where a training stands: all a checkpoint holds besides tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_step: int = 0
    best_step_before: int = 0  # kept until the next commit, should the newest be damaged
    best_score: float = math.nan  # no score yet: any is better
    evaluations_since_best: int = 0
    seconds: float = 0.0
    ended: str = ""  # why the training is over; empty while it goes on

    @property
    def best_steps(self) -> tuple[int, int]:
        """The steps whose checkpoints must stay."""
        return self.best_step, self.best_step_before

    def facts(self) -> dict[str, Any]:
        """As JSON; a score that is not there yet is null."""
        return asdict(self) | {
            "best_score": self.best_score if math.isfinite(self.best_score) else None
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Progress":
        """What `facts` wrote."""
        best = facts["best_score"]
        return cls(**{**facts, "best_score": math.nan if best is None else best})


class Trainer(Generic[B]):
    """Trains the model of a job in a run folder, from the start or from a checkpoint."""

    def __init__(
        self,
        job: Job[B],
        config: TrainingConfig,
        folder: Path,
        *,
        seed: int,
        device: torch.device,
        facts: Mapping[str, Any],
        resume: Checkpoint | None = None,
    ) -> None:
        self.job, self.config, self.folder, self.seed = job, config, folder, seed
        self.device = device
        self.facts = dict(facts)
        self.parameters = weights_of(job.model)
        self.optimizer = Optimizer(self.parameters, config)
        self.average = WeightAverage(self.parameters, config.ema)
        self.store = CheckpointStore(folder, config.keep)
        self.dtype = choose_precision(config.precision, device)
        self.progress = Progress()
        self.rejected = resume.rejected if resume is not None else ()
        if resume is not None:
            self._restore(resume)
        self.loader = Loader(job.epoch, Position(self.progress.epoch, self.progress.batch))
        self.history = History(folder, resumed_step=self.progress.step)
        self.seconds_before = self.progress.seconds  # of training before a resume
        self.speed = Speed(self.seconds_before)
        self.tokens_per_second = 0.0
        self.compiling = config.compile  # until a first step shows that it works

    def fit(self) -> Progress:
        """Train until the end, then leave the best weights in the model.

        Raises NonFiniteError (the step is not taken) and Interrupted (after a commit).
        """
        tune_memory()
        if self.config.strict:
            be_strict()
        if self.config.compile:
            for part in self._towers():
                part.compile()
        share = self._share(self.progress.step)
        with graceful() as stop, ProgressLine(share) as line:
            for bad in self.rejected:
                line.say(f"{bad.path} is damaged and left alone: {bad.reason}")
            batches = iter(self.loader)
            while not self.progress.ended:
                epoch = self.progress.epoch
                loss = self._step(batches, line)
                self._after_step(loss, self.progress.epoch > epoch, line, stop)
        self._load_best()
        return self.progress

    def _step(self, batches: Iterator[B], line: ProgressLine) -> float:
        """One step of the optimizer over `accumulate` batches; the mean loss of a unit."""
        step = self.progress.step + 1
        parts = [next(batches) for _ in range(self.config.accumulate)]
        self.job.model.train()
        try:
            loss = self._gradients(step, parts)
        except RuntimeError as error:
            if not self.compiling:
                raise
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            line.say(f"torch.compile failed ({why}); going on without it")
            for part in self._towers():
                part._compiled_call_impl = None
            loss = self._gradients(step, parts)
        self.compiling = False
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        norm = nn.utils.get_total_norm(gradients)
        if not (math.isfinite(loss) and math.isfinite(norm.item())):
            self._refuse(step, parts)
        if self.config.clip_norm:
            nn.utils.clip_grads_with_norm_(self.parameters.values(), self.config.clip_norm, norm)
        self.learning_rate = self.config.learning_rate * learning_rate_share(
            self.config.schedule, step, self.config.warmup_steps, self._share(step - 1)
        )
        self.optimizer.step(self.learning_rate)
        self.average.update(step)
        self.speed.count(sum(part.tokens for part in parts))
        position = self.loader.position
        self.progress = replace(
            self.progress,
            step=step,
            epoch=position.epoch,
            batch=position.batch,
            seconds=self.speed.seconds,
        )
        return loss

    def _gradients(self, step: int, parts: list[B]) -> float:
        """Find the gradients of the mean over the real units of all parts; that mean."""
        seed_step(self.seed, step)
        self.optimizer.forget()
        units = max(sum(part.units for part in parts), 1)
        total = 0.0
        for part in parts:
            with self._precision():
                loss = self.job.loss(part) / units
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        return total

    def _after_step(self, loss: float, epoch_ended: bool, line: ProgressLine, stop: Stop) -> None:
        """Report, evaluate, commit, end: whatever is due after this step."""
        config, step = self.config, self.progress.step
        share = self._share(step)
        out_of_time = config.minutes is not None and self.speed.seconds >= 60 * config.minutes
        over = share >= 1.0 or out_of_time
        if step % config.report_every == 0 or over:
            self.tokens_per_second = self.speed.read()
            self._report(loss)
            release_memory()
        line.show(share, step, loss, self.tokens_per_second)
        every = config.evaluate_every
        evaluated = over or (step % every == 0 if every else epoch_ended)
        if evaluated:
            self._evaluate(line)
            if config.patience and self.progress.evaluations_since_best >= config.patience:
                self._end("patience")
        if over:
            self._end("minutes" if out_of_time else "done")
        saving = bool(config.checkpoint_every) and step % config.checkpoint_every == 0
        asked = stop.requested is not None
        if evaluated or saving or asked:
            self._commit()
        if asked:
            raise stop.interruption(step, self.folder)

    def _towers(self) -> list[nn.Module]:
        """What to compile: a job may call the parts of its model one by one."""
        return list(self.job.model.children()) or [self.job.model]

    def _precision(self) -> AbstractContextManager[None]:
        return in_precision(self.job.model, self.device, self.dtype)

    def _share(self, step: int) -> float:
        """How much of the training is done after so many steps, from 0 to 1."""
        return self.config.progress(step, self.loader.epochs_done, self.speed.seconds)

    def _end(self, why: str) -> None:
        self.progress = replace(self.progress, ended=self.progress.ended or why)

    def _report(self, loss: float) -> None:
        self.history.write(
            {
                "kind": "train",
                "step": self.progress.step,
                "epoch": round(self.loader.epochs_done, 4),
                "loss": loss,
                "learning_rate": self.learning_rate,
                "tokens_per_second": round(self.tokens_per_second, 1),
                "seconds": round(self.speed.seconds, 3),
            }
        )

    def _evaluate(self, line: ProgressLine) -> None:
        """Score the (averaged) weights on the development split; remember the best."""
        self.tokens_per_second = self.tokens_per_second or self.speed.read()
        self.job.model.eval()
        with (
            self.average.in_place(),
            torch.inference_mode(),
            self._precision(),
        ):
            dev = self.job.evaluate()
        better = is_better(dev.metric, dev.score, self.progress.best_score)
        self.progress = replace(
            self.progress,
            best_step=self.progress.step if better else self.progress.best_step,
            best_step_before=self.progress.best_step,
            best_score=dev.score if better else self.progress.best_score,
            evaluations_since_best=0 if better else self.progress.evaluations_since_best + 1,
        )
        epochs = self.loader.epochs_done
        self.history.write(
            {
                "kind": "dev",
                "step": self.progress.step,
                "epoch": round(epochs, 4),
                "loss": dev.loss,
                "score": dev.score,
                "metric": dev.metric,
                "seconds": round(self.speed.seconds, 3),
            }
        )
        score = f"{dev.metric} {dev.score:.4f}"
        line.say(
            f"epoch {epochs:.2f}  step {self.progress.step}  dev loss {dev.loss:.4f}  {score}"
            f"{'  best so far' if better else ''}  "
            f"{self.tokens_per_second:,.0f} tokens/s  {self.speed.seconds:,.0f} s",
            score,
        )
        self.speed.read()  # the seconds of an evaluation are not training

    def _commit(self) -> None:
        states: dict[str, dict[str, Tensor]] = {
            "model": {name: p.detach() for name, p in self.parameters.items()},
            "optimizer": self.optimizer.state(),
        }
        if self.average.values:
            states["average"] = self.average.values
        facts = self.facts | {"progress": self.progress.facts()}
        self.store.commit(self.progress.step, states, facts, protect=self.progress.best_steps)

    def _restore(self, checkpoint: Checkpoint) -> None:
        for key, value in self.facts.items():
            if checkpoint.facts.get(key) != value:
                raise CheckpointError(
                    f"{checkpoint.path}: its {key} is {checkpoint.facts.get(key)!r}, the run's "
                    f"{value!r}; they do not belong together: train anew in another folder"
                )
        states = checkpoint.load()
        load_weights(self.job.model, states["model"])
        self.optimizer.load(states["optimizer"])
        self.average.load(states.get("average", {}))
        facts = checkpoint.facts["progress"]
        assert isinstance(facts, Mapping)  # we wrote it, and its sum was right
        self.progress = Progress.from_facts(facts)

    def _load_best(self) -> None:
        """The weights of the best evaluation into the model, from that step's checkpoint."""
        best = self.store.checkpoint(self.progress.best_step).load()
        load_weights(self.job.model, best.get("average", best["model"]))

    def _refuse(self, step: int, parts: list[B]) -> None:
        seed_step(self.seed, step)
        with self._precision():
            where = first_nonfinite(self.job.model, lambda: [self.job.loss(p) for p in parts])
        raise NonFiniteError(
            f"step {step}: the loss or a gradient is not finite, first in {where}; the step was "
            "not taken; train anew with a lower training.learning_rate or a longer "
            "training.warmup_steps"
        )
