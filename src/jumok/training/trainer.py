"""The training loop.

    fit                       until steps, epochs, minutes or patience end the training:
        train_step                one optimizer step
            accumulate_gradients      forward and backward over the microbatches of the step
                forward_backward_step     one microbatch
            clip; AdamW or Muon; moving average
        log; evaluate; save_checkpoint, when they are due

The loss of a microbatch is divided by the targets of the whole step. A resumed training is
bit-identical to an uninterrupted one: random numbers follow from (seed, step, microbatch), the
order of the data from (seed, epoch), and everything else is in the checkpoint. Several processes
share the microbatches of a step, so the result does not depend on how many there are
(`parallel/`); all of them take the same decisions, and rank 0 writes the metrics.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor, nn

from jumok.allocator import release_memory, tune_allocator
from jumok.data.resumable_loader import LoaderState, ResumableLoader
from jumok.device import resolve_dtype, set_deterministic
from jumok.errors import InputError, Message, StorageError
from jumok.language import translate
from jumok.native.training import CpuTrainingKernel, cpu_training_kernel
from jumok.nn.training_kernel import use_training_kernel
from jumok.processes import (
    SINGLE_PROCESS,
    ProcessGroup,
    all_reduce_max,
    microbatches_of_rank,
    raise_together,
)
from jumok.seeding import set_step_seed
from jumok.training.bad_steps import (
    StepFailure,
    diagnose,
    find_first_nonfinite,
    first_reported,
    skip_or_stop,
)
from jumok.training.callbacks import Callback, CallbackCalls, TrainingStatus
from jumok.training.checkpoints.async_writer import AsyncCheckpointWriter
from jumok.training.checkpoints.best import best_valid, missing_best_warning
from jumok.training.checkpoints.checkpoint import Checkpoint, check_same_run
from jumok.training.checkpoints.contents import (
    check_optimizer,
    check_states,
    check_tensors,
    read_progress,
    unusable,
)
from jumok.training.checkpoints.store import CheckpointStore, States
from jumok.training.config import WARMUP_STEPS, TrainingConfig
from jumok.training.ema import EMA
from jumok.training.job import BatchT, DevResult, TrainingJob
from jumok.training.mixed_precision import autocast_model
from jumok.training.optimizer import Optimizer
from jumok.training.parallel.data_parallel import DataParallel, ParallelStrategy
from jumok.training.reporting.metrics import LogRecord, MetricsLog
from jumok.training.reporting.progress_bar import ProgressBar, Throughput
from jumok.training.schedules import lr_multiplier
from jumok.training.signals import StopRequest, handle_signals
from jumok.training.state import EndReason, TrainerState


class Trainer(Generic[BatchT]):
    """Trains the model of a job in a run folder, from the start or from a checkpoint.

    Each process of a group has its own trainer, of the same job with the same weights.
    """

    def __init__(
        self,
        job: TrainingJob[BatchT],
        config: TrainingConfig,
        folder: Path,
        *,
        seed: int,
        device: torch.device,
        metadata: Mapping[str, Any],
        resume: Checkpoint | None = None,
        processes: ProcessGroup = SINGLE_PROCESS,
        callbacks: Sequence[Callback] = (),
        evaluates_start: bool = False,
        start_margin: float = 0.0,
        seconds_before: float = 0.0,
    ) -> None:
        """`evaluates_start`: whether the weights are pretrained, and may remain the best.

        The first step that replaces them may be worse by `start_margin` standard errors of the dev
        score; a negative one must be better by as many. With any but 0 a later step may be worse by
        one standard error than the kept one: the scores of few dev rows are noisy, and the last
        steps have the lowest learning rates. `seconds_before` have passed with the pretrained
        weights, and count as seconds of the training.
        """
        self.job, self.config, self.folder, self.seed = job, config, folder, seed
        self.device, self.processes = device, processes
        self.callbacks = CallbackCalls(callbacks, folder)
        self.loss = math.nan  # of the last step
        self.dev: DevResult | None = None  # the last evaluation
        n_microbatches = config.gradient_accumulation_steps
        self.microbatches = microbatches_of_rank(processes.rank, processes.size, n_microbatches)
        self.metadata = dict(metadata)
        self.dtype = resolve_dtype(config.precision, device)
        self.store = CheckpointStore(folder, config.keep_checkpoints)
        # The strategy communicates first: what may fail on a single process comes after it.
        self.strategy = self._make_strategy()
        self.checkpoint_writer = AsyncCheckpointWriter(
            self.store, copy=not self.strategy.is_sharded
        )
        self.parameters = self.strategy.parameters
        self.optimizer = Optimizer(self.parameters, config)
        self.ema = EMA(self.parameters, config.ema_decay)
        self.state = TrainerState(seconds=seconds_before)
        self.evaluates_start = evaluates_start and resume is None
        self.start_margin = start_margin
        self.invalid_checkpoints = resume.invalid if resume is not None else ()
        if resume is not None:
            self._restore(resume)
        self.loader = ResumableLoader(job.epoch, LoaderState(self.state.epoch, self.state.batch))
        if resume is not None:
            self._check_position(resume)
        self.metrics = MetricsLog(folder, resumed_step=self.state.step, enabled=processes.rank == 0)
        self.seconds_before = self.state.seconds  # of training before a resume
        self.throughput = Throughput(self.seconds_before)
        self.seconds = self.seconds_before  # by the clock of rank 0
        self.tokens_per_second = 0.0
        self.learning_rate = 0.0  # of the last step
        self.warmup_steps = config.warmup_steps
        self.compiling = False  # compiled, but no step has shown yet that it works
        self.write_error: StorageError | None = None  # of the metrics; raised at the next commit
        self.statistics: Mapping[str, float] = {}  # of the last step, where they are due
        self._in_train_mode = False  # model.train() walks over all modules: not at every step

    def _make_strategy(self) -> ParallelStrategy[BatchT]:
        """Data parallelism, or fully sharded data parallelism of several processes."""
        job, config, processes = self.job, self.config, self.processes
        n = config.gradient_accumulation_steps
        if config.sharding == "none" or processes.size == 1:
            return DataParallel(job.model, job.loss, processes, n, strict=config.strict)
        from jumok.training.parallel.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(
            job.model, job.loss, processes, n, device=self.device, dtype=self.dtype
        )

    def fit(self) -> TrainerState:
        """Train until the end, then load the best weights into the model.

        Raises NonFiniteError (the step is not applied) and Interrupted (after a checkpoint).
        """
        tune_allocator()
        if self.config.strict:
            set_deterministic()
        progress = self._progress(self.state.step)
        with (
            handle_signals() as stop,
            ProgressBar(progress, quiet=self.processes.rank > 0) as self.bar,
            self._activation_checkpointing(),
            use_training_kernel(self._kernel()),
            self.checkpoint_writer,
        ):
            if self.config.compile:
                self._compile()
            self._warn_invalid_checkpoints()
            self._set_warmup()
            if self.evaluates_start:
                self._evaluate_start()
            first = self.state.step + 1
            while not self.state.ended:
                epoch = self.state.epoch
                loss = self.train_step()
                if self.state.step == first and self.processes.rank == 0:
                    self.checkpoint_writer.allocate(self._state_dicts())
                self._after_step(loss, self.state.epoch > epoch, stop)
            self._report_best()
            # A signal may have arrived while waiting for the last commit.
            [signal] = all_reduce_max(self.processes, [stop.requested or 0])
            self._raise_if_stopped(signal, stop)
        self._load_best()
        return self.state

    def _kernel(self) -> CpuTrainingKernel | None:
        """The functions in C++, for whole models on the CPU."""
        usable = self.device.type == "cpu" and not self.strategy.is_sharded
        return cpu_training_kernel() if usable else None

    def _activation_checkpointing(self) -> AbstractContextManager[None]:
        """The context in which layers recompute their activations, if the recipe sets it."""
        if not self.config.activation_checkpointing:
            return nullcontext()
        from jumok.training.activation_checkpointing import activation_checkpointing

        return activation_checkpointing(self.job.model)

    def _set_warmup(self) -> None:
        """Shorten a default warm-up to half of a short training; log one that was set longer."""
        config = self.config
        ends = [] if config.steps is None else [config.steps]
        if config.epochs is not None:
            first = self.loader.epoch if self.state.epoch == 0 else self.job.epoch(0)
            per_step = config.gradient_accumulation_steps
            ends.append(math.ceil(config.epochs * len(first) / per_step))
        if ends and config.warmup_steps in WARMUP_STEPS:
            self.warmup_steps = min(config.warmup_steps, min(ends) // 2)
        elif not self.state.step and ends and config.warmup_steps > min(ends):
            self.bar.log(
                Message(
                    "training.long_warmup",
                    "training.warmup_steps is {warmup:,}, more than the {steps:,} steps of this "
                    "training, whose learning rate stays below training.learning_rate; set it "
                    "to {fewer:,}",
                    warmup=config.warmup_steps,
                    steps=min(ends),
                    fewer=min(ends) // 10,
                )
            )

    def _evaluate_start(self) -> None:
        """Score the weights that the training begins with, and keep them in a checkpoint."""
        config = self.config
        self.seconds = self.throughput.seconds
        self.evaluate()
        self._call("on_evaluation")
        out_of_time = config.minutes is not None and self.throughput.seconds >= 60 * config.minutes
        [late] = all_reduce_max(self.processes, [out_of_time])
        if config.method == "linear":
            self._end("done")
        elif late and config.method == "auto":
            self._end("minutes")
            self.bar.log(
                Message(
                    "training.no_time_to_fine_tune",
                    "fine-tuning is left out: {seconds:,.0f} s have passed of {minutes:g} minutes",
                    seconds=self.throughput.seconds,
                    minutes=config.minutes,
                )
            )
        self._commit(signal=0)

    def _report_best(self) -> None:
        """Log the score of the start and the best one, and which weights are kept."""
        rows = {int(r["step"] or 0): r for r in self.metrics.records if r["kind"] == "dev"}
        start, best = rows.get(0), rows.get(self.state.best_step)
        if start is None or best is None or not self.state.step:
            return
        metric, score = str(start["metric"]), float(start["score"] or math.nan)
        seconds = float(start["seconds"] or 0.0)
        if best is start:
            message = Message(
                "training.start_is_kept",
                "{metric} on dev: {score:.4f} at the start ({seconds:,.0f} s), not clearly better "
                "at any step ({later:,.0f} s); the weights of the start are kept",
                metric=metric,
                score=score,
                seconds=seconds,
                later=self.seconds,
            )
        elif self.start_margin and score > (kept := float(best["score"] or math.nan)):
            message = Message(
                "training.tuned_is_kept",
                "{metric} on dev: {score:.4f} at the start ({seconds:,.0f} s), {best:.4f} at step "
                "{step:,} ({later:,.0f} s in all), whose weights are kept: later weights replace "
                "earlier ones unless they are worse by the standard error of the dev rows",
                metric=metric,
                score=score,
                seconds=seconds,
                best=kept,
                step=self.state.best_step,
                later=self.seconds,
            )
        else:
            message = Message(
                "training.start_and_best",
                "{metric} on dev: {score:.4f} at the start ({seconds:,.0f} s), {best:.4f} at step "
                "{step:,} ({later:,.0f} s in all), whose weights are kept",
                metric=metric,
                score=score,
                seconds=seconds,
                later=self.seconds,
                best=float(best["score"] or math.nan),
                step=self.state.best_step,
            )
        self.bar.log(message)

    def train_step(self) -> float:
        """One step of the optimizer; the mean loss of a target."""
        step = self.state.step + 1
        progress = self._progress(step - 1)  # before the batches of this step are taken
        taken = self.loader.next_batches(self.microbatches, self.config.gradient_accumulation_steps)
        batches = dict(zip(self.microbatches, taken, strict=True))
        counts = [sum(batch.n_targets for batch in taken), sum(batch.tokens for batch in taken)]
        rows = self.processes.all_gather_floats(counts)
        n_targets, tokens = (int(sum(column)) for column in zip(*rows, strict=True))
        if not self._in_train_mode:
            self.job.model.train()
            self._in_train_mode = True
        losses = self.accumulate_gradients(step, batches, max(n_targets, 1))
        norm = self.strategy.gradient_norm()
        loss = self._sync_step(losses, norm)
        self.learning_rate = self.config.learning_rate * lr_multiplier(
            self.config.schedule, step, self.warmup_steps, progress
        )
        failure = diagnose(loss, norm.item(), self.state, self.config.spike_factor)
        self.statistics = {}
        if failure is None and self.config.statistics and step % self.config.log_every == 0:
            self._apply_with_statistics(step, loss, norm, batches)
        elif failure is None:
            self._apply_step(step, loss, norm)
        else:
            self._skip_step(step, batches, failure)
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

    def accumulate_gradients(
        self, step: int, batches: Mapping[int, BatchT], n_targets: int
    ) -> list[float]:
        """Compute the gradients of a step; return the losses of this process's microbatches."""
        self.strategy.zero_grad()
        losses = []
        with self.processes.translate_errors():
            for index, batch in batches.items():
                losses.append(self.forward_backward_step(step, index, batch, n_targets))
                self.strategy.collect_gradients()
            for _ in range(self.strategy.n_idle_microbatches):  # divided by infinity: gradients 0
                index, batch = list(batches.items())[-1]
                self.forward_backward_step(step, index, batch, math.inf)
        self.strategy.reduce_gradients()
        return losses

    def forward_backward_step(
        self, step: int, index: int, batch: BatchT, n_targets: float
    ) -> float:
        """Add the gradients of one microbatch; its part of the mean loss of the step."""
        try:
            loss = self._loss(step, index, batch) / n_targets
            loss.backward()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            if not self.compiling:
                raise
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            self.bar.log(
                Message(
                    "training.compile_failed",
                    "torch.compile failed ({reason}); training continues without it",
                    reason=reason,
                )
            )
            self._undo_compile()
            self.strategy.zero_grad()  # the backward pass may have added some already
            return self.forward_backward_step(step, index, batch, n_targets)
        self.compiling = False
        return loss.item()

    def _loss(self, step: int, index: int, batch: BatchT) -> Tensor:
        """The loss of one microbatch, summed over its targets: ()."""
        set_step_seed(self.seed, step, index)
        with self._autocast():
            return self.strategy.loss(batch)

    def _autocast(self) -> AbstractContextManager[None]:
        return autocast_model(self.job.model, self.device, self.dtype)

    def _sync_step(self, losses: list[float], norm: Tensor) -> float:
        """Agree with all processes on a step, so that they take the same decisions.

        Returns the loss of the step, summed in the order of its microbatches; `norm` and the clock
        become those of rank 0.
        """
        most = -(-self.config.gradient_accumulation_steps // self.processes.size)
        padded = losses + [0.0] * (most - len(losses))
        rows = self.processes.all_gather_floats([norm.item(), self.throughput.seconds, *padded])
        norm.fill_(rows[0][0])
        self.seconds = rows[0][1]
        return sum(loss for row in rows for loss in row[2:])

    def _apply_step(self, step: int, loss: float, norm: Tensor) -> None:
        """Clip the gradients, whose norm is given; update the weights and their average."""
        self.checkpoint_writer.wait_for_staging()
        self.optimizer.step(
            self.learning_rate,
            clip_norm=self.config.clip_norm,
            norm=norm,
            ema=self.ema,
            number=step,
        )
        self.state = self.state.after_step(loss)

    def _apply_with_statistics(
        self, step: int, loss: float, norm: Tensor, batches: Mapping[int, BatchT]
    ) -> None:
        """The same, and read what the step did; the weights are those without statistics."""
        from jumok.training.statistics import StepStatistics, head_entropies  # few trainings

        measured = StepStatistics(self.parameters)
        self._apply_step(step, loss, norm)
        index, batch = next(iter(batches.items()))
        entropies = head_entropies(self.job.model, lambda: self._loss(step, index, batch))
        self.statistics = measured.after_update() | entropies

    def _skip_step(self, step: int, batches: Mapping[int, BatchT], failure: StepFailure) -> None:
        """Dump the batches of a step that is not applied. May raise NonFiniteError."""
        if not failure.finite:
            with self.strategy.unsharded():
                where = find_first_nonfinite(
                    self.job.model,
                    lambda: [self._loss(step, *item) for item in batches.items()],
                    self.parameters,
                )
            failure = failure.located(first_reported(where, self.processes))
        self.state = self.state.after_skip()
        warning = skip_or_stop(
            self.folder,
            step,
            batches,
            failure,
            self.state.skipped_in_a_row,
            self.processes,
            stop=self.config.on_nonfinite == "stop",
        )
        self.bar.log(warning)

    def _after_step(self, loss: float, epoch_ended: bool, stop: StopRequest) -> None:
        """Log, evaluate, save a checkpoint and end the training, as far as they are due."""
        config, step = self.config, self.state.step
        progress = self._progress(step)
        self.loss = loss
        self._call("on_step")
        stopped = self._callback_stopped()
        out_of_time = config.minutes is not None and self.seconds >= 60 * config.minutes
        finished = progress >= 1.0 or out_of_time or stopped
        every = config.evaluate_every
        evaluated = finished or (step % every == 0 if every else epoch_ended)
        if step % config.log_every == 0 or evaluated:  # an epoch may be shorter than log_every
            self.tokens_per_second = self.throughput.read()
            self._log_step(loss)
            release_memory()
        self.bar.update(progress, step, loss, self.tokens_per_second)
        if evaluated:
            self.evaluate()
            if config.patience and self.state.evaluations_since_best >= config.patience:
                self._end("patience")
            self._call("on_evaluation")
            if self._callback_stopped():
                finished = stopped = True
        if finished:
            self._end("minutes" if out_of_time else "callback" if stopped else "done")
        saving = bool(config.checkpoint_every) and step % config.checkpoint_every == 0
        failing = self.checkpoint_writer.failed or self.write_error is not None
        failing = failing or self.callbacks.failure is not None
        signal, failed = all_reduce_max(self.processes, [stop.requested or 0, failing])
        if evaluated or saving or signal or failed:
            self._commit(signal)
        self._raise_if_stopped(signal, stop)

    def _commit(self, signal: float) -> None:
        """Write a checkpoint of this step; wait for it where the training ends."""
        states = self.strategy.gather(self._state_dicts())  # by all, before one of them fails
        with raise_together(self.processes):
            if self.write_error is not None:
                raise self.write_error
            self.save_checkpoint(states)
            self._call("on_checkpoint")
            if self.state.ended:
                self._call("on_end")
            if signal or self.state.ended or self.callbacks.failure is not None:
                self.checkpoint_writer.wait()
            if self.callbacks.failure is not None:
                raise self.callbacks.failure

    def _call(self, moment: str) -> None:
        """Call the callbacks, in the first process only."""
        if self.callbacks and self.processes.rank == 0:
            self.callbacks.call(moment, self._status())
            self._in_train_mode = False  # a callback may have called status.model.eval()

    def _callback_stopped(self) -> bool:
        """Whether a callback has stopped the training; the same in all processes."""
        if not self.callbacks:
            return False
        return bool(all_reduce_max(self.processes, [self.callbacks.stopped])[0])

    def _status(self) -> TrainingStatus:
        state, dev = self.state, self.dev
        return TrainingStatus(
            folder=self.folder,
            step=state.step,
            epoch=self.loader.epoch_progress,
            progress=self._progress(state.step),
            loss=self.loss,
            learning_rate=self.learning_rate,
            tokens_per_second=self.tokens_per_second,
            seconds=self.seconds,
            metric=dev.metric if dev else "",
            score=dev.score if dev else None,
            dev_loss=dev.loss if dev else None,
            best_step=state.best_step,
            ended=state.ended,
            stop=self.callbacks.stop,
            log=self.bar.log,
            model=self.job.model,
            optimizer=self._optimizer_copy,
            statistics=self.statistics,
        )

    def _optimizer_copy(self) -> dict[str, Tensor]:
        """The state of the optimizer in tensors of their own, which a callback may change."""
        return {name: value.detach().clone() for name, value in self.optimizer.state().items()}

    def _raise_if_stopped(self, signal: float, stop: StopRequest) -> None:
        """Raises Interrupted when any process received a signal; the checkpoint is written."""
        if signal:
            stop.requested = int(signal)
            with raise_together(self.processes):
                raise stop.interruption(self.state.step, self.folder)

    def _progress(self, step: int) -> float:
        """How much of the training is done after `step` steps, from 0 to 1."""
        return self.config.progress(step, self.loader.epoch_progress, self.seconds)

    def _end(self, reason: EndReason) -> None:
        self.state = replace(self.state, ended=self.state.ended or reason)

    def _log_step(self, loss: float) -> None:
        record: LogRecord = {
            "kind": "train",
            "step": self.state.step,
            "epoch": round(self.loader.epoch_progress, 4),
            "loss": loss,
            "learning_rate": self.learning_rate,
            "tokens_per_second": round(self.tokens_per_second, 1),
            "seconds": round(self.throughput.seconds, 3),
        }
        self._write_metrics(record)
        if self.statistics:
            at = {name: record[name] for name in ("step", "epoch", "seconds")}
            self._write_metrics({"kind": "statistics", **at, **self.statistics})

    def _write_metrics(self, record: LogRecord) -> None:
        """Write a record; all processes raise its error together, before the next commit."""
        try:
            self.metrics.write(record)
        except StorageError as error:
            self.write_error = error

    def evaluate(self) -> None:
        """Score the (averaged) weights on the development split; record the best step."""
        self.job.model.eval()
        self._in_train_mode = False
        with self.strategy.with_ema(self.ema), torch.inference_mode(), self._autocast():
            dev = self.job.evaluate(self.processes)
        dev_loss, dev_score = self.processes.all_gather_floats([dev.loss, dev.score])[0]
        dev = self.dev = replace(dev, loss=dev_loss, score=dev_score)
        best_is_start = self.state.step > 0 and self.state.best_step == 0
        n_errors = self.start_margin if best_is_start else float(self.start_margin != 0)
        self.state = self.state.after_eval(dev.metric, dev.score, n_errors * dev.standard_error)
        step, epochs = self.state.step, self.loader.epoch_progress
        record: LogRecord = {
            "kind": "dev",
            "step": step,
            "epoch": round(epochs, 4),
            "loss": dev.loss,
            "score": dev.score,
            "metric": dev.metric,
            "seconds": round(self.throughput.seconds, 3),
        }
        self._write_metrics(record)
        score = f"{dev.metric} {dev.score:.4f}"
        values = epochs, step, dev.loss, score
        best = ""
        if self.state.best_step == step:  # with a margin its score may be below an earlier one
            best = translate("  kept" if self.start_margin and step else "  best so far")
        speed = self.tokens_per_second, self.throughput.seconds
        template = "epoch {:.2f}  step {}  dev loss {:.4f}  {}{}  {:,.0f} tokens/s  {:,.0f} s"
        self.bar.log(translate(template, *values, best, *speed), score)
        self.throughput.read()  # the seconds of an evaluation do not count

    def save_checkpoint(self, states: States) -> None:
        """Begin to write a checkpoint of these tensors. Raises the error of the previous one."""
        self.metrics.sync()  # a resumed training does not write the records up to this step again
        if self.processes.rank > 0:
            return
        state = self.state
        metadata = self.metadata | {"progress": state.to_dict()}
        best = (state.best_step, state.best_step_before)  # the latter if the newest is damaged
        self.checkpoint_writer.commit(state.step, states, metadata, protect=best)

    def _state_dicts(self) -> dict[str, dict[str, Tensor]]:
        """The part of this process of a checkpoint's tensors, by state and name."""
        states: dict[str, dict[str, Tensor]] = {
            "model": {name: p.detach() for name, p in self.parameters.items()},
            "optimizer": self.optimizer.state(),
        }
        if self.ema.values:
            states["average"] = self.ema.values
        return states

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Load weights, optimizer, average and state."""
        check_same_run(checkpoint, self.metadata)
        with unusable(checkpoint.path):
            averaged = ["average"] if self.ema.values else []
            check_states(checkpoint, ["model", "optimizer", *averaged])
            accumulated = self.config.gradient_accumulation_steps
            self.state = read_progress(checkpoint, accumulated)
            states = {s: self.strategy.local(checkpoint.state(s)) for s in checkpoint.states}
            check_tensors("model", states["model"], self.parameters)
            check_tensors("average", states.get("average", {}), self.ema.values)
            trainable = {n: p for n, p in self.parameters.items() if p.requires_grad}
            applied_steps = self.state.step - self.state.skipped
            parts = {name: kind.parts for name, kind in self.optimizer.kind_of.items()}
            check_optimizer(states["optimizer"], trainable, parts, applied_steps)
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(states["model"][name])
        self.optimizer.load(states["optimizer"])
        self.ema.load(states.get("average", {}))

    def _check_position(self, checkpoint: Checkpoint) -> None:
        """Raise CheckpointError unless the epoch has the batch to continue with."""
        batch = self.state.batch
        if batch and batch >= (n := len(self.loader.epoch)):
            with unusable(checkpoint.path):
                raise InputError(
                    "training.progress_batch",
                    "progress.batch must be below the {n:,} of its epoch, got {batch:,}",
                    n=n,
                    batch=batch,
                )

    def _warn_invalid_checkpoints(self) -> None:
        """Log the checkpoints that cannot be used when a training resumes."""
        for invalid in self.invalid_checkpoints:
            self.bar.log(
                Message(
                    "training.checkpoint_ignored",
                    "{path} is damaged and ignored: {reason}",
                    path=invalid.path,
                    reason=invalid.reason,
                )
            )
        step, scored = self.state.best_step, not math.isnan(self.state.best_score)
        if self.processes.rank == 0 and scored and step != self.state.step:
            warning = missing_best_warning(self.store, step)
            if warning:
                self.bar.log(warning)

    def _load_best(self) -> None:
        """Load the weights of the best evaluation from the checkpoint of that step.

        If that checkpoint is damaged, the best of the valid ones is loaded.
        """
        step, score = self.state.best_step, self.state.best_score
        with raise_together(self.processes):
            if self.processes.rank == 0:
                records = self.metrics.records
                step, score, reason = best_valid(self.store, step, score, self.metadata, records)
                if reason:
                    self.bar.log(reason)
        row = self.processes.all_gather_floats([step, score])[0]
        step, score = int(row[0]), row[1]
        with raise_together(self.processes):
            best = self.store.checkpoint(step)
            check_same_run(best, self.metadata)  # another one may have been copied into the folder
        self.state = replace(self.state, best_step=step, best_score=score)
        self.strategy.load_best(best)

    def _compile(self) -> None:
        """Compile the children of the model: a job may call the parts of its model separately."""
        for module in self._compiled_modules():
            module.compile()
        self.compiling = True

    def _undo_compile(self) -> None:
        """Revert `Module.compile`, for which torch has no public function."""
        for module in self._compiled_modules():
            module._compiled_call_impl = None
        self.compiling = False

    def _compiled_modules(self) -> list[nn.Module]:
        return list(self.job.model.children()) or [self.job.model]
