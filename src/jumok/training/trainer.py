"""The training loop: batches in, a little less loss each step, the best weights kept.

    for batches of a step:
        loss, divided by the real units of the whole step; gradients; clip; AdamW; average
        now and then: report, evaluate on the development split, commit a checkpoint

A resumed training goes on bit for bit: what is random in a batch follows from (seed, step, its
number in the step), the order of the data from (seed, epoch), and everything else is in the
checkpoint. Several processes share the batches of each step, so what is learnt does not depend on
how many there are (`distributed_gradients.py`); all decide alike, and the first one writes.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn

from jumok.data.resumable_loader import LoaderState, ResumableLoader
from jumok.device import (
    release_memory,
    resolve_dtype,
    set_deterministic,
    tune_allocator,
)
from jumok.errors import StorageError
from jumok.processes import (
    SINGLE_PROCESS,
    ProcessGroup,
    all_reduce_max,
    microbatches_of_rank,
    raise_together,
)
from jumok.training.activation_checkpointing import activation_checkpointing
from jumok.training.backward import StepGradients
from jumok.training.bad_steps import Trouble, refused, trouble_of
from jumok.training.checkpoints.async_writer import AsyncCheckpointWriter
from jumok.training.checkpoints.best import best_sound, tell_lost
from jumok.training.checkpoints.checkpoint import Checkpoint, check_same_run
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.config import TrainingConfig
from jumok.training.ema_decay import EMA
from jumok.training.job import B, TrainingJob
from jumok.training.mixed_precision import autocast_model
from jumok.training.nonfinite import find_first_nonfinite, first_said
from jumok.training.optimizer import Optimizer
from jumok.training.parallel.data_parallel import DataParallel, ParallelStrategy
from jumok.training.reporting.metrics import LogRecord, MetricsLog, dev_record, train_record
from jumok.training.reporting.progress_bar import ProgressBar, Throughput
from jumok.training.schedules import lr_multiplier
from jumok.training.signals import StopRequest, handle_signals
from jumok.training.state import TrainerState


class Trainer(Generic[B]):
    """Trains the model of a job in a run folder, from the start or from a checkpoint.

    Each of many `processes` has a trainer of its own, of the same job with the same weights.
    """

    def __init__(
        self,
        job: TrainingJob[B],
        config: TrainingConfig,
        folder: Path,
        *,
        seed: int,
        device: torch.device,
        metadata: Mapping[str, Any],
        resume: Checkpoint | None = None,
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.job, self.config, self.folder, self.seed = job, config, folder, seed
        self.device, self.processes = device, processes
        self.microbatches = microbatches_of_rank(
            processes.rank, processes.size, config.gradient_accumulation_steps
        )
        self.facts = dict(metadata)
        self.dtype = resolve_dtype(config.precision, device)
        self.store = CheckpointStore(folder, config.keep_checkpoints)
        self.strategy = (
            self._make_strategy()
        )  # here processes meet; what one alone may fail with comes after
        self.checkpoint_writer = AsyncCheckpointWriter(self.strategy.checkpoint_writer(self.store))
        self.parameters = self.strategy.parameters
        self.optimizer = Optimizer(self.parameters, config)
        self.ema = EMA(self.parameters, config.ema_decay)
        self.state = TrainerState()
        self.invalid_checkpoints = resume.rejected if resume is not None else ()
        if resume is not None:
            self._restore(resume)
        self.loader = ResumableLoader(job.epoch, LoaderState(self.state.epoch, self.state.batch))
        first = processes.rank == 0
        self.metrics = MetricsLog(folder, resumed_step=self.state.step, enabled=first)
        self.seconds_before = self.state.seconds  # of training before a resume
        self.throughput = Throughput(self.seconds_before)
        self.seconds = self.seconds_before  # by the clock of rank 0
        self.tokens_per_second = 0.0
        self.learning_rate = 0.0  # of the last step
        self.learning = False  # whether the model was told so since it was last asked
        self.write_error: StorageError | None = None  # a report that could not be kept, and why

    def _make_strategy(self) -> ParallelStrategy[B]:
        """All of the model, or this process's part of it."""
        job, processes = self.job, self.processes
        if self.config.sharding == "none" or processes.size == 1:
            return DataParallel(job.model, job.loss, processes, strict=self.config.strict)
        from jumok.training.parallel.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(
            job.model, job.loss, processes, device=self.device, dtype=self.dtype
        )

    def fit(self) -> TrainerState:
        """Train until the end, then leave the best weights in the model.

        Raises NonFiniteError (the step is not taken) and Interrupted (after a commit).
        """
        tune_allocator()
        if self.config.strict:
            set_deterministic()
        share = self._progress(self.state.step)
        with (
            handle_signals() as stop,
            ProgressBar(share, quiet=self.processes.rank > 0) as line,
            activation_checkpointing(self.job.model, wanted=self.config.activation_checkpointing),
            self.checkpoint_writer,
        ):
            self.gradients = StepGradients(
                self.job,
                self.strategy,
                self.config,
                self.microbatches,
                seed=self.seed,
                device=self.device,
                dtype=self.dtype,
                say=line.log,
            )
            self._warn_invalid_checkpoints(line)
            first = self.state.step + 1
            while not self.state.ended:
                epoch = self.state.epoch
                loss = self.train_step(line)
                if self.state.step == first and self.strategy.is_writer:
                    self.checkpoint_writer.allocate(self._states())
                self._after_step(loss, self.state.epoch > epoch, line, stop)
            # while the last commit was waited for
            [asked] = all_reduce_max(self.processes, [stop.requested or 0])
            self._stop(asked, stop)
        self._load_best(line)
        return self.state

    def train_step(self, line: ProgressBar) -> float:
        """One step of the optimizer over `accumulate` batches; the mean loss of a unit."""
        step = self.state.step + 1
        share = self._progress(step - 1)  # before the batches of this step are taken
        made = self.loader.next_batches(self.microbatches, self.config.gradient_accumulation_steps)
        parts = dict(zip(self.microbatches, made, strict=True))
        counted = [sum(part.n_targets for part in made), sum(part.tokens for part in made)]
        units, tokens = (
            int(sum(n)) for n in zip(*self.processes.all_gather_floats(counted), strict=True)
        )
        if not self.learning:
            self.job.model.train()
            self.learning = True
        losses = self.gradients.find(step, parts, max(units, 1))
        norm = self.strategy.gradient_norm()
        loss = self._sync_step(losses, norm)
        self.learning_rate = self.config.learning_rate * lr_multiplier(
            self.config.schedule, step, self.config.warmup_steps, share
        )
        trouble = trouble_of(loss, norm.item(), self.state, self.config.spike_factor)
        if trouble is not None:
            self._skip_step(step, parts, trouble, line)
        else:
            self._apply_step(step, loss, norm)
        self.throughput.count(tokens)
        position = self.loader.state
        self.state = replace(
            self.state,
            step=step,
            epoch=position.epoch,
            batch=position.batch,
            seconds=self.seconds,
        )
        return loss

    def _sync_step(self, losses: list[float], norm: Tensor) -> float:
        """The loss of the step, summed in the order of its batches; the norm and clock of rank 0.

        So that all processes decide alike.
        """
        most = -(
            -self.config.gradient_accumulation_steps // self.processes.size
        )  # batches of one process
        filled = losses + [0.0] * (most - len(losses))
        rows = self.processes.all_gather_floats([norm.item(), self.throughput.seconds, *filled])
        norm.fill_(rows[0][0])
        self.seconds = rows[0][1]
        return sum(loss for row in rows for loss in row[2:])

    def _apply_step(self, step: int, loss: float, norm: Tensor) -> None:
        """Take the step: clip the gradients, of this norm; AdamW; the average."""
        if self.config.clip_norm:
            nn.utils.clip_grads_with_norm_(self.parameters.values(), self.config.clip_norm, norm)
        self.checkpoint_writer.wait_for_staging()
        self.optimizer.step(self.learning_rate)
        self.ema.update(step)
        self.state = self.state.after_step(loss)

    def _skip_step(
        self, step: int, parts: Mapping[int, B], trouble: Trouble, line: ProgressBar
    ) -> None:
        """Write out the batches of a step that is not taken; go on, or raise NonFiniteError."""
        if not trouble.finite:
            with self.strategy.unsharded():
                where = find_first_nonfinite(
                    self.job.model,
                    lambda: [self.gradients.loss(step, *part) for part in parts.items()],
                    self.parameters,
                )
            trouble = trouble.first_in(first_said(where, self.processes))
        self.state = self.state.after_skip()
        in_a_row = self.state.skipped_in_a_row
        stop = self.config.on_nonfinite == "stop"
        line.log(refused(self.folder, step, parts, trouble, in_a_row, self.processes, stop=stop))

    def _after_step(
        self, loss: float, epoch_ended: bool, line: ProgressBar, stop: StopRequest
    ) -> None:
        """Report, evaluate, commit, end: whatever is due after this step."""
        config, step = self.config, self.state.step
        share = self._progress(step)
        out_of_time = config.minutes is not None and self.seconds >= 60 * config.minutes
        over = share >= 1.0 or out_of_time
        if step % config.log_every == 0 or over:
            self.tokens_per_second = self.throughput.read()
            self._log_step(loss)
            release_memory()
        line.update(share, step, loss, self.tokens_per_second)
        every = config.evaluate_every
        evaluated = over or (step % every == 0 if every else epoch_ended)
        if evaluated:
            self.evaluate(line)
            if config.patience and self.state.evaluations_since_best >= config.patience:
                self._end("patience")
        if over:
            self._end("minutes" if out_of_time else "done")
        saving = bool(config.checkpoint_every) and step % config.checkpoint_every == 0
        wrong = self.checkpoint_writer.failed or self.write_error is not None
        asked, failed = all_reduce_max(self.processes, [stop.requested or 0, wrong])
        if evaluated or saving or asked or failed:
            with raise_together(self.processes):
                if self.write_error is not None:
                    raise self.write_error
                self.save_checkpoint()
                if asked or self.state.ended:
                    self.checkpoint_writer.wait()
        self._stop(asked, stop)

    def _stop(self, asked: float, stop: StopRequest) -> None:
        """Raises Interrupted where this or another process was asked to: all is committed."""
        if asked:
            stop.requested = int(asked)
            with raise_together(self.processes):
                raise stop.interruption(self.state.step, self.folder)

    def _precision(self) -> AbstractContextManager[None]:
        return autocast_model(self.job.model, self.device, self.dtype)

    def _progress(self, step: int) -> float:
        """How much of the training is done after so many steps, from 0 to 1."""
        return self.config.progress(step, self.loader.epoch_progress, self.seconds)

    def _end(self, why: str) -> None:
        self.state = replace(self.state, ended=self.state.ended or why)

    def _write_metrics(self, report: LogRecord) -> None:
        """Keep a report; where that fails all end together, when they next meet."""
        try:
            self.metrics.write(report)
        except StorageError as error:
            self.write_error = error

    def _log_step(self, loss: float) -> None:
        record = train_record(
            step=self.state.step,
            epoch=self.loader.epoch_progress,
            loss=loss,
            learning_rate=self.learning_rate,
            tokens_per_second=self.tokens_per_second,
            seconds=self.throughput.seconds,
        )
        self._write_metrics(record)

    def evaluate(self, line: ProgressBar) -> None:
        """Score the (averaged) weights on the development split; remember the best."""
        self.tokens_per_second = self.tokens_per_second or self.throughput.read()
        self.job.model.eval()
        self.learning = False
        with (
            self.strategy.with_ema(self.ema),
            torch.inference_mode(),
            self._precision(),
        ):
            dev = self.job.evaluate(self.processes)
        dev_loss, dev_score = self.processes.all_gather_floats([dev.loss, dev.score])[0]
        dev = replace(dev, loss=dev_loss, score=dev_score)
        self.state = self.state.after_eval(dev.metric, dev.score)
        step, epochs = self.state.step, self.loader.epoch_progress
        record = dev_record(
            step=step,
            epoch=epochs,
            loss=dev.loss,
            score=dev.score,
            metric=dev.metric,
            seconds=self.throughput.seconds,
        )
        self._write_metrics(record)
        better = self.state.best_step == step
        score = f"{dev.metric} {dev.score:.4f}"
        line.log(
            f"epoch {epochs:.2f}  step {step}  dev loss {dev.loss:.4f}  {score}"
            f"{'  best so far' if better else ''}  "
            f"{self.tokens_per_second:,.0f} tokens/s  {self.throughput.seconds:,.0f} s",
            score,
        )
        self.throughput.read()  # the seconds of an evaluation are not training

    def save_checkpoint(self) -> None:
        """Begin to write a checkpoint: the first process of what all have, or each its part.

        Raises what the one before failed with.
        """
        self.metrics.sync()  # after a power cut nobody writes again what is before this step
        if not self.strategy.is_writer:
            return
        facts = self.facts | {"progress": self.state.to_dict()}
        step, best = self.state.step, self.state.best_steps
        self.checkpoint_writer.commit(step, self._states(), facts, protect=best)

    def _states(self) -> dict[str, dict[str, Tensor]]:
        """All the tensors that a checkpoint holds."""
        states: dict[str, dict[str, Tensor]] = {
            "model": {name: p.detach() for name, p in self.parameters.items()},
            "optimizer": self.optimizer.state(),
        }
        if self.ema.values:
            states["average"] = self.ema.values
        return states

    def _restore(self, checkpoint: Checkpoint) -> None:
        check_same_run(checkpoint, self.facts)
        states = self.strategy.load(checkpoint)
        self.optimizer.load(states["optimizer"])
        self.ema.load(states.get("average", {}))
        facts = checkpoint.metadata["progress"]
        assert isinstance(facts, Mapping)  # we wrote it, and its sum was right
        self.state = TrainerState.from_dict(facts)

    def _warn_invalid_checkpoints(self, line: ProgressBar) -> None:
        """The checkpoints that cannot be used, when a training goes on."""
        for bad in self.invalid_checkpoints:
            line.log(f"{bad.path} is damaged and left alone: {bad.reason}")
        step = self.state.best_step
        if self.processes.rank == 0 and step not in (0, self.state.step):
            lost = tell_lost(self.store, step)
            if lost:
                line.log(lost)

    def _load_best(self, line: ProgressBar) -> None:
        """The weights of the best evaluation into the model, from that step's checkpoint.

        Where that is damaged, from the best of those that are sound.
        """
        step, score = self.state.best_step, self.state.best_score
        with raise_together(self.processes):
            if self.processes.rank == 0:
                records = self.metrics.records
                step, score, why = best_sound(self.store, step, score, self.facts, records)
                if why:
                    line.log(why)
        row = self.processes.all_gather_floats([step, score])[0]
        step, score = int(row[0]), row[1]
        with raise_together(self.processes):
            best = self.store.checkpoint(step)
            check_same_run(best, self.facts)  # it may have come into the folder meanwhile
        self.state = replace(self.state, best_step=step, best_score=score)
        self.strategy.load_best(best)
