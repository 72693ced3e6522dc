"""Train a recipe: setup, training, the final evaluation on the test sets, and the report."""

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.device import find_device, peak_memory_bytes, tune_threads, versions
from jumok.errors import InputError
from jumok.models.weights import named_weights
from jumok.nn.lora import lora_tensors, merge_lora
from jumok.processes import (
    ProcessGroup,
    check_world_size,
    init_process_group,
    is_elastic,
    raise_together,
)
from jumok.tasks.pipeline.outputs import EvaluationResult
from jumok.tasks.recipe.auto_size import with_size
from jumok.tasks.recipe.recipe import Recipe, candidate_recipes
from jumok.tasks.registry import get_task
from jumok.tasks.runs.check_data import report_on
from jumok.tasks.runs.evaluate import evaluate, report_bad_rows
from jumok.tasks.runs.new_model import build_model
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.setup import (
    add_adapters,
    fit_first,
    initialize_weights,
    prepare_training,
)
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.terminal import print_notice
from jumok.training.callbacks import Callback
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.lock import run_lock
from jumok.training.reporting.metrics import LogRecord, MetricsLog
from jumok.training.reporting.report import write_report
from jumok.training.state import TrainerState
from jumok.training.trainer import Trainer

if TYPE_CHECKING:  # imported where a model is initialized, or a linear one is fitted
    from jumok.tasks.runs.initialize_from import LoadReport
    from jumok.tasks.shared.linear_head import LinearHead

FINE_TUNED_ROWS = 500  # with fewer the linear layer is better unless dev clearly says otherwise


@dataclass(frozen=True)
class TrainingResult:
    """A finished run and the contents of its `results.json`."""

    run: Run
    results: dict[str, Any]


def train(recipe: Recipe, folder: Path, callbacks: Sequence[Callback] = ()) -> TrainingResult:
    """Train a new run in `folder`; with torchrun every process calls this.

    Raises InputError when the folder has a run, or for bad data or a vocabulary or device that is
    not available; then the folder is not created. Under `torchrun --max-restarts`, which repeats
    the same command after a lost process, the existing run is resumed.
    """
    start_time = time.monotonic()
    tune_threads()
    device = find_device(recipe.device)  # raises before the data are read
    with init_process_group(device, recipe.training.timeout) as processes, ExitStack() as stack:
        if _already_started(recipe, Run(folder), processes):
            return _resume(Run(folder), recipe, device, processes, stack, start_time, callbacks)
        with raise_together(processes):
            check_world_size(processes.size, recipe.training.gradient_accumulation_steps)
            if processes.rank == 0:
                started = _start_run(recipe, folder, device, stack)
        with raise_together(processes):
            if processes.rank > 0:
                started = _join_run(Run.open(folder), device, initialize=True)
        return _train(started, device, processes, None, start_time, callbacks)


def resume(folder: Path, callbacks: Sequence[Callback] = ()) -> TrainingResult:
    """Resume the run in `folder` from its newest valid checkpoint, or from the start.

    The number of processes may differ. For a finished run its results are returned. Raises
    CheckpointError when every checkpoint is damaged, InputError while another process trains the
    run, and for a finished run whose recipe was changed since.
    """
    start_time = time.monotonic()
    run = Run.open(folder)
    recipe = run.recipe()
    if run.finished:
        results = run.results()
        if "averaged_steps" in results:
            raise InputError(
                "run.average_not_resumable",
                "{folder} must be a training run, got an average of checkpoints; resume the run "
                "that it was made from",
                folder=folder,
            )
        _check_unchanged(run)
        return TrainingResult(run, results)
    tune_threads()
    device = find_device(recipe.device)
    with init_process_group(device, recipe.training.timeout) as processes, ExitStack() as stack:
        return _resume(run, recipe, device, processes, stack, start_time, callbacks)


def _check_unchanged(run: Run) -> None:
    """Raise InputError for a finished run whose recipe.toml differs from that of its training."""
    newest = CheckpointStore(run.folder).last(1)
    if newest and newest[0].metadata.get("recipe") != run.recipe_fingerprint():
        raise InputError(
            "run.finished_recipe_changed",
            "{folder} must have the recipe that it was trained with, got another one in "
            "recipe.toml; its learning rate has come to its end, so that more steps are a new "
            "run from these weights: jumok train {recipe} model.init={folder} --out FOLDER",
            folder=run.folder,
            recipe=run.recipe_path,
        )


def _already_started(recipe: Recipe, run: Run, processes: ProcessGroup) -> bool:
    """Whether the same command has created the run before: rank 0 decides for all."""
    exists = is_elastic() and run.recipe_path.exists() and has_recipe(run, recipe)
    return bool(processes.all_gather_floats([exists])[0][0])


def has_recipe(run: Run, recipe: Recipe) -> bool:
    """Whether this is the recipe of the run, wherever relative paths of its data begin.

    What the data and the machine have decided may differ: the candidate, the class weights, the
    metric and the size.
    """
    found = run.recipe()
    weights, metric = found.training.class_weights, found.metric
    for each in candidate_recipes(recipe):
        if each.model.size == "auto":
            each = with_size(each, found.model.n_layers, found.model.d_model)
        if each.training.class_weights == "auto":
            training = replace(each.training, class_weights=weights)
            each = replace(each, training=training, metric=each.metric or metric)
        if _located(each) == _located(found):
            return True
    return False


def _located(recipe: Recipe) -> Recipe:
    """A recipe with absolute paths of its data."""
    return replace(recipe, data=recipe.data.absolute())


def _resume(
    run: Run,
    recipe: Recipe,
    device: torch.device,
    processes: ProcessGroup,
    stack: ExitStack,
    start_time: float,
    callbacks: Sequence[Callback],
) -> TrainingResult:
    """Resume from the newest checkpoint; return the results of a finished run."""
    if processes.all_gather_floats([run.finished])[0][0]:
        return TrainingResult(run, run.results())
    with raise_together(processes):
        check_world_size(processes.size, recipe.training.gradient_accumulation_steps)
        if processes.rank == 0:
            stack.enter_context(run_lock(run.folder))
    with raise_together(processes):
        checkpoint = CheckpointStore(run.folder, recipe.training.keep_checkpoints).newest()
        started = _join_run(run, device, initialize=checkpoint is None)
    with raise_together(processes):
        if checkpoint is None and processes.rank == 0:
            _report_initialization(run, started.load_report)
    return _train(started, device, processes, checkpoint, start_time, callbacks)


@dataclass(frozen=True)
class _StartedRun:
    """A run and everything its training starts or resumes with."""

    run: Run
    recipe: Recipe
    splits: Splits
    model: nn.Module
    load_report: "LoadReport | None"
    job: RecipeJob[Any] | None = None  # where it is built already
    linear: "LinearHead | None" = None


def _start_run(recipe: Recipe, folder: Path, device: torch.device, stack: ExitStack) -> _StartedRun:
    """Create a run in `folder`, which is locked until `stack` is closed."""
    Run(folder).check_absent(resumable=True)
    setup = prepare_training(recipe, device)
    stack.enter_context(run_lock(folder))
    run = Run.create(folder, setup.recipe, setup.tokenizers)
    _report_initialization(run, setup.load_report)
    return _StartedRun(
        run,
        setup.recipe,
        setup.splits,
        setup.model,
        setup.load_report,
        setup.job,
        setup.linear,
    )


def _join_run(run: Run, device: torch.device, *, initialize: bool) -> _StartedRun:
    """Open an existing run, and `initialize` its weights from `model.init`.

    A run that resumes from a checkpoint does not need `model.init`, which may be deleted.
    """
    recipe = run.recipe()
    splits = load_splits(recipe.data, recipe.columns)
    recipe = recipe.with_vocabulary(*run.tokenizers().sizes)
    model = build_model(recipe, splits.labels, device)
    load_report = initialize_weights(recipe, model, splits.labels) if initialize else None
    add_adapters(recipe, model)
    return _StartedRun(run, recipe, splits, model, load_report)


def _train(
    started: _StartedRun,
    device: torch.device,
    processes: ProcessGroup,
    checkpoint: Checkpoint | None,
    start_time: float,
    callbacks: Sequence[Callback],
) -> TrainingResult:
    """Train, evaluate and write all files; `start_time` is that of the command, in seconds."""
    run, splits, model = started.run, started.splits, started.model
    tokenizers = run.tokenizers()
    recipe = started.recipe.with_vocabulary(*tokenizers.sizes)
    if processes.rank == 0:
        report_bad_rows(splits.tables.values())
        if not recipe.data.corpus:
            for message in report_on(splits, recipe, tokenizers).messages():
                print_notice(message)
    metadata = {
        "recipe": run.recipe_fingerprint(),
        **tokenizers.fingerprints,
        "data": _fingerprint(splits, recipe.data.pieces),
        "labels": json.dumps(splits.labels, ensure_ascii=False),  # of a checkpoint that is loaded
    }
    _check_same_metadata(metadata, checkpoint, processes)
    with raise_together(processes):
        job = started.job or get_task(recipe.task).job(recipe)(
            recipe, model, tokenizers, splits, device
        )
        linear = started.linear
        if checkpoint is None:
            job.initialize()
            if started.job is None:
                linear = fit_first(job)
    with raise_together(processes):
        trainer = Trainer(
            job,
            recipe.training,
            run.folder,
            seed=recipe.seed,
            device=device,
            metadata=metadata,
            resume=checkpoint,
            processes=processes,
            callbacks=callbacks,
            evaluates_start=bool(recipe.model.init),
            start_margin=_start_margin(recipe, len(splits.train)),
            seconds_before=0.0 if linear is None else linear.seconds,
        )
    state = trainer.fit()
    with raise_together(processes):
        if processes.rank == 0:
            run.save_adapter(lora_tensors(model))
    merge_lora(model)
    pipeline = get_task(recipe.task).pipeline(
        model,
        tokenizers.source,
        recipe,
        splits.labels,
        device,
        tokenizers.target,
        processes=processes,
        in_training=True,
    )
    with raise_together(processes):
        if processes.rank == 0:
            run.save_model(model, recipe.task, recipe.model, splits.labels, tokenizers.checksums)
    with raise_together(processes):  # not the block above: all processes take part in this one
        evaluated = [evaluate(pipeline, splits[name], name) for name in splits.tests or ("dev",)]
    seconds_before = 0.0 if checkpoint is None else trainer.seconds_before
    seconds = seconds_before + time.monotonic() - start_time
    results = _results(recipe, model, state, evaluated, seconds, trainer.metrics.records) | {
        "skipped_rows": {name: table.bad_rows.count for name, table in splits.tables.items()},
        "data_sha256": {name: t.sha256 for name, t in splits.tables.items() if t.sha256},
        **run.initialized_from(),
    }
    with raise_together(processes):
        if processes.rank == 0:
            _write_report(run, recipe, trainer.metrics, results, evaluated[0], splits.labels)
            run.write_json(run.results_path, results)  # last: a run with results is finished
    return TrainingResult(run, results)


def _check_same_metadata(
    metadata: Mapping[str, str], checkpoint: Checkpoint | None, processes: ProcessGroup
) -> None:
    """Raise InputError when two processes read different data, runs or checkpoints."""
    step = 0 if checkpoint is None else checkpoint.step
    seen = processes.all_gather_bytes(json.dumps([metadata, step], sort_keys=True).encode())
    with raise_together(processes):
        if len(set(seen)) > 1:
            raise InputError(
                "run.processes_read_different_data",
                "all processes must read the same data and checkpoints; give all machines the "
                "same files and a shared folder for the run",
            )


def _report_initialization(run: Run, load_report: "LoadReport | None") -> None:
    """Print the load report of `model.init`, and write it into the run for its results."""
    if load_report is not None:
        print_notice(load_report.message)
        run.write_text(run.initialization_path, f"{load_report}\n")


def _fingerprint(splits: Splits, pieces: bool) -> str:
    """A checksum of every row, so that a resumed training has the same data."""
    checksum = hashlib.sha256()
    for name, table in splits.tables.items():
        checksum.update(f"{name} {len(table)}\n".encode())
        for column in table.column_names:
            if pieces and column == "text":
                cells: Iterable[str] = map("\1".join, table.pieces(column))
            elif column == "score":
                cells = map(repr, table.numbers(column))
            else:
                cells = table.column(column)
            for cell in cells:
                checksum.update(cell.encode())
                checksum.update(b"\0")
    return checksum.hexdigest()


def _start_margin(recipe: Recipe, rows: int) -> float:
    """By how many standard errors of dev fine-tuning may be below the linear layer and be kept.

    The few dev rows of a small file decide by luck, so they only overrule what more rows
    show: on 2,500 others fine-tuning was better from 450 training rows on; with 180 it was
    better on one file, worse on another.
    """
    if recipe.training.method != "auto":
        return 0.0
    return 1.0 if rows >= FINE_TUNED_ROWS else -1.0


def _results(
    recipe: Recipe,
    model: nn.Module,
    state: TrainerState,
    evaluated: list[EvaluationResult],
    seconds: float,
    records: Sequence[LogRecord],
) -> dict[str, Any]:
    start = {
        f"start_{key}": record[key]
        for record in records
        if record["kind"] == "dev" and record["step"] == 0
        for key in ("score", "seconds")
    }
    linear = recipe.training.method != "fine-tune" and state.best_step == 0
    first, *others = [result.scores for result in evaluated]
    return {
        "name": recipe.name,
        **first,
        "others": others,
        "dev": {
            "metric": recipe.selection_metric,
            "score": state.to_dict()["best_score"],  # null without an evaluation
            "step": state.best_step,
            **start,  # of the pretrained weights, before the first step
        },
        "method": "linear" if linear else "fine-tune",
        "seed": recipe.seed,
        "steps": state.step,
        "ended": state.ended,
        "skipped_steps": state.skipped,
        "parameters": sum(p.numel() for p in named_weights(model).values()),
        "training_seconds": round(state.seconds, 1),
        "wall_seconds": round(seconds, 1),
        "peak_memory_bytes": peak_memory_bytes(),
        "versions": versions(),
    }


def _write_report(
    run: Run,
    recipe: Recipe,
    metrics: MetricsLog,
    results: dict[str, Any],
    evaluated: EvaluationResult,
    labels: tuple[str, ...],
) -> None:
    metrics.write_summaries(recipe.name)
    write_report(
        run.folder,
        title=recipe.name,
        history=metrics.records,
        results=results,
        recipe_toml=recipe.to_toml(),
        confusion=evaluated.confusion,
        labels=labels if evaluated.confusion else (),
        mistakes=evaluated.mistakes,
        examples=evaluated.examples,
    )
