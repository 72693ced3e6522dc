"""The training loop: batches in, a little less loss each step, the best weights kept.

    for batches of a step:
        loss, divided by the real units of the whole step; gradients; clip; AdamW; average
        now and then: report, evaluate on the development split, commit a checkpoint

A resumed training goes on bit for bit: what is random in a batch follows from (seed, step, its
number in the step), the order of the data from (seed, epoch), and everything else is in the
checkpoint. Several processes share the batches of each step, so what is learnt does not depend on
how many there are (`distributed_gradients.py`); all decide alike, and the first one writes.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn

from jumok.data.loader import Loader, Position
from jumok.errors import CheckpointError, StorageError
from jumok.training.average import WeightAverage
from jumok.training.bad_steps import Trouble, refused, running_mean, trouble_of
from jumok.training.behind import CommitsBehind
from jumok.training.best import best_sound, fault_of
from jumok.training.better import is_better
from jumok.training.checkpoint import Checkpoint
from jumok.training.checkpoint_store import CheckpointStore
from jumok.training.config import TrainingConfig
from jumok.training.distributed import ALONE, Processes, shards_of, together
from jumok.training.held import Copies, Held
from jumok.training.history import History, Record
from jumok.training.job import B, Job
from jumok.training.machine import (
    be_strict,
    choose_precision,
    release_memory,
    tune_memory,
)
from jumok.training.nonfinite import first_nonfinite, first_said
from jumok.training.optimizer import Optimizer
from jumok.training.precision import in_precision
from jumok.training.progress import ProgressLine, Speed
from jumok.training.randomness import seed_step
from jumok.training.recompute import recomputing
from jumok.training.schedules import learning_rate_share
from jumok.training.signals import Stop, graceful
from jumok.training.standing import Progress


class Trainer(Generic[B]):
    """Trains the model of a job in a run folder, from the start or from a checkpoint.

    Each of many `processes` has a trainer of its own, of the same job with the same weights.
    """

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
        processes: Processes = ALONE,
    ) -> None:
        self.job, self.config, self.folder, self.seed = job, config, folder, seed
        self.device, self.processes = device, processes
        self.shards = shards_of(processes.rank, processes.size, config.accumulate)
        self.facts = dict(facts)
        self.dtype = choose_precision(config.precision, device)
        self.store = CheckpointStore(folder, config.keep)
        self.held = self._hold()  # here processes meet; what one alone may fail with comes after
        self.commits = CommitsBehind(self.held.commits_to(self.store))
        self.parameters = self.held.parameters
        self.optimizer = Optimizer(self.parameters, config)
        self.average = WeightAverage(self.parameters, config.ema)
        self.progress = Progress()
        self.rejected = resume.rejected if resume is not None else ()
        if resume is not None:
            self._restore(resume)
        self.loader = Loader(job.epoch, Position(self.progress.epoch, self.progress.batch))
        first = processes.rank == 0
        self.history = History(folder, resumed_step=self.progress.step, kept=first)
        self.seconds_before = self.progress.seconds  # of training before a resume
        self.speed = Speed(self.seconds_before)
        self.seconds = self.seconds_before  # by the clock of rank 0
        self.tokens_per_second = 0.0
        self.compiling = config.compile  # until a first batch shows that it works
        self.learning = False  # whether the model was told so since it was last asked
        self.unwritten: StorageError | None = None  # a report that could not be kept, and why

    def _hold(self) -> Held[B]:
        """All of the model, or this process's part of it."""
        job, processes = self.job, self.processes
        if self.config.sharding == "none" or processes.size == 1:
            return Copies(job.model, job.loss, processes, strict=self.config.strict)
        from jumok.training.sharding import Shards

        return Shards(job.model, job.loss, processes, device=self.device, dtype=self.dtype)

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
        with (
            graceful() as stop,
            ProgressLine(share, quiet=self.processes.rank > 0) as line,
            recomputing(self.job.model, wanted=self.config.recompute),
            self.commits,
        ):
            for bad in self.rejected:
                line.say(f"{bad.path} is damaged and left alone: {bad.reason}")
            self._tell_lost_best(line)
            first = self.progress.step + 1
            while not self.progress.ended:
                epoch = self.progress.epoch
                loss = self._step(line)
                if self.progress.step == first and self.held.writes:
                    self.commits.prepare(self._states())
                self._after_step(loss, self.progress.epoch > epoch, line, stop)
            [asked] = self._most([stop.requested or 0])  # while the last commit was waited for
            self._stop(asked, stop)
        self._load_best(line)
        return self.progress

    def _step(self, line: ProgressLine) -> float:
        """One step of the optimizer over `accumulate` batches; the mean loss of a unit."""
        step = self.progress.step + 1
        share = self._share(step - 1)  # before the batches of this step are taken
        made = self.loader.take(self.shards, self.config.accumulate)
        parts = dict(zip(self.shards, made, strict=True))
        counted = [sum(part.units for part in made), sum(part.tokens for part in made)]
        units, tokens = (int(sum(n)) for n in zip(*self.processes.exchange(counted), strict=True))
        if not self.learning:
            self.job.model.train()
            self.learning = True
        losses = self._gradients(step, parts, max(units, 1), line)
        norm = self.held.norm()
        loss = self._agree(losses, norm)
        self.learning_rate = self.config.learning_rate * learning_rate_share(
            self.config.schedule, step, self.config.warmup_steps, share
        )
        trouble = trouble_of(loss, norm.item(), self.progress, self.config.spike)
        if trouble is not None:
            self._refuse(step, parts, trouble, line)
        else:
            self._learn(step, loss, norm)
        self.speed.count(tokens)
        position = self.loader.position
        self.progress = replace(
            self.progress,
            step=step,
            epoch=position.epoch,
            batch=position.batch,
            seconds=self.seconds,
        )
        return loss

    def _agree(self, losses: list[float], norm: Tensor) -> float:
        """The loss of the step, summed in the order of its batches; the norm and clock of rank 0.

        So that all processes decide alike.
        """
        most = -(-self.config.accumulate // self.processes.size)  # batches of one process
        filled = losses + [0.0] * (most - len(losses))
        rows = self.processes.exchange([norm.item(), self.speed.seconds, *filled])
        norm.fill_(rows[0][0])
        self.seconds = rows[0][1]
        return sum(loss for row in rows for loss in row[2:])

    def _learn(self, step: int, loss: float, norm: Tensor) -> None:
        """Take the step: clip the gradients, of this norm; AdamW; the average."""
        if self.config.clip_norm:
            nn.utils.clip_grads_with_norm_(self.parameters.values(), self.config.clip_norm, norm)
        self.commits.wait_for_copy()
        self.optimizer.step(self.learning_rate)
        self.average.update(step)
        mean = running_mean(self.progress.mean_loss, loss)
        self.progress = replace(self.progress, mean_loss=mean, skipped_in_a_row=0)

    def _refuse(
        self, step: int, parts: Mapping[int, B], trouble: Trouble, line: ProgressLine
    ) -> None:
        """Write out the batches of a step that is not taken; go on, or raise NonFiniteError."""
        if not trouble.finite:
            with self.held.plain():
                where = first_nonfinite(
                    self.job.model,
                    lambda: [self._loss(step, shard, part) for shard, part in parts.items()],
                    self.parameters,
                )
            trouble = trouble.first_in(first_said(where, self.processes))
        in_a_row = self.progress.skipped_in_a_row + 1
        stop = self.config.on_bad_step == "stop"
        line.say(refused(self.folder, step, parts, trouble, in_a_row, self.processes, stop=stop))
        self.progress = replace(
            self.progress, skipped=self.progress.skipped + 1, skipped_in_a_row=in_a_row
        )

    def _gradients(
        self, step: int, parts: Mapping[int, B], units: int, line: ProgressLine
    ) -> list[float]:
        """Find the gradients of the whole step; the losses of this process's part of it."""
        losses: list[float] = []

        def find(shard: int, *, idle: bool = False) -> None:
            if idle:
                self._backward(step, shard, parts[shard], math.inf, line)
            else:
                losses.append(self._backward(step, shard, parts[shard], units, line))

        self.optimizer.forget()
        self.held.gradients(self.shards, self.config.accumulate, find)
        return losses

    def _backward(self, step: int, shard: int, part: B, units: float, line: ProgressLine) -> float:
        """Add the gradients of one batch of a step of so many units, in which it counts by them."""
        try:
            loss = self._loss(step, shard, part) / units
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if not self.compiling:
                raise
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            line.say(f"torch.compile failed ({why}); going on without it")
            for tower in self._towers():
                tower._compiled_call_impl = None
            self.compiling = False
            self.optimizer.forget()  # half of those of the first batch
            return self._backward(step, shard, part, units, line)
        self.compiling = False
        return loss.item()

    def _loss(self, step: int, shard: int, part: B) -> Tensor:
        """The loss of one batch of a step: ()."""
        seed_step(self.seed, step, shard)
        with self._precision():
            return self.held.loss(part)

    def _after_step(self, loss: float, epoch_ended: bool, line: ProgressLine, stop: Stop) -> None:
        """Report, evaluate, commit, end: whatever is due after this step."""
        config, step = self.config, self.progress.step
        share = self._share(step)
        out_of_time = config.minutes is not None and self.seconds >= 60 * config.minutes
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
        wrong = self.commits.failed or self.unwritten is not None
        asked, failed = self._most([stop.requested or 0, wrong])
        if evaluated or saving or asked or failed:
            with together(self.processes):
                if self.unwritten is not None:
                    raise self.unwritten
                self._commit()
                if asked or self.progress.ended:
                    self.commits.wait()
        self._stop(asked, stop)

    def _most(self, flags: Sequence[int]) -> list[int]:
        """The largest that any process gave, of each."""
        return [int(max(column)) for column in zip(*self.processes.exchange(flags), strict=True)]

    def _stop(self, asked: int, stop: Stop) -> None:
        """Raises Interrupted where this or another process was asked to: all is committed."""
        if asked:
            stop.requested = asked
            with together(self.processes):
                raise stop.interruption(self.progress.step, self.folder)

    def _towers(self) -> list[nn.Module]:
        """What to compile: a job may call the parts of its model one by one."""
        return list(self.job.model.children()) or [self.job.model]

    def _precision(self) -> AbstractContextManager[None]:
        return in_precision(self.job.model, self.device, self.dtype)

    def _share(self, step: int) -> float:
        """How much of the training is done after so many steps, from 0 to 1."""
        return self.config.progress(step, self.loader.epochs_done, self.seconds)

    def _end(self, why: str) -> None:
        self.progress = replace(self.progress, ended=self.progress.ended or why)

    def _write(self, report: Record) -> None:
        """Keep a report; where that fails all end together, when they next meet."""
        try:
            self.history.write(report)
        except StorageError as error:
            self.unwritten = error

    def _report(self, loss: float) -> None:
        self._write(
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
        self.learning = False
        with (
            self.held.averaged(self.average),
            torch.inference_mode(),
            self._precision(),
        ):
            dev = self.job.evaluate(self.processes)
        dev_loss, dev_score = self.processes.exchange([dev.loss, dev.score])[0]
        dev = replace(dev, loss=dev_loss, score=dev_score)
        better = is_better(dev.metric, dev.score, self.progress.best_score)
        self.progress = replace(
            self.progress,
            best_step=self.progress.step if better else self.progress.best_step,
            best_step_before=self.progress.best_step,
            best_score=dev.score if better else self.progress.best_score,
            evaluations_since_best=0 if better else self.progress.evaluations_since_best + 1,
        )
        epochs = self.loader.epochs_done
        self._write(
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
        """Begin to write a checkpoint: the first process of what all have, or each its part.

        Raises what the one before failed with.
        """
        self.history.sync()  # after a power cut nobody writes again what is before this step
        if not self.held.writes:
            return
        facts = self.facts | {"progress": self.progress.facts()}
        step, best = self.progress.step, self.progress.best_steps
        self.commits.commit(step, self._states(), facts, protect=best)

    def _states(self) -> dict[str, dict[str, Tensor]]:
        """All the tensors that a checkpoint holds."""
        states: dict[str, dict[str, Tensor]] = {
            "model": {name: p.detach() for name, p in self.parameters.items()},
            "optimizer": self.optimizer.state(),
        }
        if self.average.values:
            states["average"] = self.average.values
        return states

    def _restore(self, checkpoint: Checkpoint) -> None:
        self._refuse_another_run_s(checkpoint)
        states = self.held.read(checkpoint)
        self.optimizer.load(states["optimizer"])
        self.average.load(states.get("average", {}))
        facts = checkpoint.facts["progress"]
        assert isinstance(facts, Mapping)  # we wrote it, and its sum was right
        self.progress = Progress.from_facts(facts)

    def _tell_lost_best(self, line: ProgressLine) -> None:
        """At once, as a sound copy may be at hand now."""
        step = self.progress.best_step
        if self.processes.rank > 0 or step in (0, self.progress.step):
            return
        fault = fault_of(self.store, step)
        if fault:
            line.say(
                f"step-{step}, the best so far, cannot be used ({fault}); copy a sound one back "
                "before the training ends, or it is left out"
            )

    def _load_best(self, line: ProgressLine) -> None:
        """The weights of the best evaluation into the model, from that step's checkpoint.

        Where that is damaged, from the best of those that are sound.
        """
        progress = self.progress
        chosen = progress.best_step, progress.best_score
        with together(self.processes):
            if self.processes.rank == 0:
                chosen = self._best_there(line)
        step, score = self.processes.exchange(chosen)[0]
        with together(self.processes):
            best = self.store.checkpoint(int(step))
            self._refuse_another_run_s(best)  # it may have come into the folder meanwhile
        self.progress = replace(progress, best_step=int(step), best_score=score)
        self.held.finish(best)

    def _best_there(self, line: ProgressLine) -> tuple[int, float]:
        """The step of the best checkpoint that can be used, and its score."""
        lost = self.progress.best_step, self.progress.best_score
        step, score, why = best_sound(self.store, *lost, self.facts, self.history.records)
        if why:
            line.say(why)
        return step, score

    def _refuse_another_run_s(self, checkpoint: Checkpoint) -> None:
        """Raises CheckpointError for a checkpoint of another run."""
        for key, value in self.facts.items():
            if checkpoint.facts.get(key) != value:
                raise CheckpointError(
                    f"{checkpoint.path}: its {key} is {checkpoint.facts.get(key)!r}, the run's "
                    f"{value!r}; they do not belong together: move it away to go on from an "
                    "older one, or train anew in another folder"
                )
