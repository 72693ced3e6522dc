"""From a recipe to a finished run: vocabulary, model, training, and the test scored once."""

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumok.data.load import load_splits
from jumok.data.splits import Splits
from jumok.device import find_device, peak_memory_bytes, versions
from jumok.errors import InputError
from jumok.models.weights import named_weights
from jumok.processes import (
    ProcessGroup,
    check_world_size,
    init_process_group,
    is_elastic,
    raise_together,
)
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.task import EvaluationResult
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.registry import get_task
from jumok.tasks.runs.evaluate import evaluate, report_bad_rows
from jumok.tasks.runs.initialize_from import LoadReport
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.setup import build_job, build_model, initialize_weights, prepare_training
from jumok.training.checkpoints.checkpoint import Checkpoint
from jumok.training.checkpoints.store import CheckpointStore
from jumok.training.job import TrainingJob
from jumok.training.lock import run_lock
from jumok.training.reporting.metrics import MetricsLog
from jumok.training.reporting.report import write_report
from jumok.training.state import TrainerState
from jumok.training.trainer import Trainer


@dataclass(frozen=True)
class TrainingResult:
    """A finished run and what `results.json` says of it."""

    run: Run
    results: dict[str, Any]


def train(recipe: Recipe, folder: Path) -> TrainingResult:
    """Train anew in `folder`; of many processes (torchrun) every one calls this.

    Raises InputError when a run is there already, or for what cannot be trained: bad data, a
    vocabulary or a device that cannot be had. Then nothing was made in the folder. Under
    `torchrun --max-restarts`, which says the same words again after a loss, the run that is there
    is gone on with.
    """
    begin = time.monotonic()
    device = find_device(recipe.device)  # refuses one that is not here before the data are read
    with init_process_group(device, recipe.training.timeout) as processes, ExitStack() as held:
        if _already_started(recipe, Run(folder), processes):
            return _resume(Run(folder), recipe, device, processes, held, begin)
        with raise_together(processes):
            check_world_size(processes.size, recipe.training.gradient_accumulation_steps)
            if processes.rank == 0:
                begun = _start_run(recipe, folder, device, held)
        with raise_together(processes):
            if processes.rank > 0:
                begun = _join_run(Run.open(folder), device, begins=True)
        return _train(begun, device, processes, None, begin)


def resume(folder: Path) -> TrainingResult:
    """Go on with the run in `folder` from its newest sound checkpoint, or from the start.

    With any number of processes, whatever it was before. A finished run is answered with its
    results. Raises CheckpointError when every checkpoint is damaged, InputError while another
    training is under way there.
    """
    begin = time.monotonic()
    run = Run.open(folder)
    recipe = run.recipe()
    if run.finished:
        results = run.results()
        if "averaged_steps" in results:
            raise InputError(
                f"{folder} is a mean of checkpoints and has none of its own; go on with the run "
                "it was made of"
            )
        return TrainingResult(run, results)
    device = find_device(recipe.device)
    with init_process_group(device, recipe.training.timeout) as processes, ExitStack() as held:
        return _resume(run, recipe, device, processes, held, begin)


def _already_started(recipe: Recipe, run: Run, processes: ProcessGroup) -> bool:
    """Whether to go on with what the same words began: as rank 0 sees it, before it makes it."""
    there = is_elastic() and run.recipe_path.exists() and run.recipe() == recipe
    return bool(processes.all_gather_floats([there])[0][0])


def _resume(
    run: Run,
    recipe: Recipe,
    device: torch.device,
    processes: ProcessGroup,
    held: ExitStack,
    begin: float,
) -> TrainingResult:
    """Go on from the newest checkpoint; a finished run has its results already."""
    if processes.all_gather_floats([run.finished])[0][0]:
        return TrainingResult(run, run.results())
    with raise_together(processes):
        check_world_size(processes.size, recipe.training.gradient_accumulation_steps)
        if processes.rank == 0:
            held.enter_context(run_lock(run.folder))
    with raise_together(processes):
        checkpoint = CheckpointStore(run.folder, recipe.training.keep_checkpoints).newest()
        begun = _join_run(run, device, begins=checkpoint is None)
    with raise_together(processes):
        if checkpoint is None and processes.rank == 0:
            _report_initialization(run, begun.load_report)
    return _train(begun, device, processes, checkpoint, begin)


@dataclass(frozen=True)
class _StartedRun:
    """A run, and all that its training begins with or goes on with."""

    run: Run
    recipe: Recipe
    splits: Splits
    model: nn.Module
    load_report: LoadReport | None
    job: TrainingJob[Any] | None = None  # made already


def _start_run(recipe: Recipe, folder: Path, device: torch.device, held: ExitStack) -> _StartedRun:
    """A new run in `folder`, which is locked as long as `held` is open."""
    Run(folder).check_absent()
    new = prepare_training(recipe, device)
    held.enter_context(run_lock(folder))
    run = Run.create(folder, recipe, new.vocabularies)
    _report_initialization(run, new.load_report)
    return _StartedRun(run, recipe, new.splits, new.model, new.load_report, new.job)


def _join_run(run: Run, device: torch.device, *, begins: bool) -> _StartedRun:
    """A run that is there already; with the weights it begins from where it has none of its own.

    Those may be gone when it goes on from a checkpoint.
    """
    recipe = run.recipe()
    splits = load_splits(recipe.data, get_task(recipe).columns(recipe))
    model = build_model(recipe, run.vocabularies(), splits.labels, device)
    taken = initialize_weights(recipe, model, splits.labels) if begins else None
    return _StartedRun(run, recipe, splits, model, taken)


def _train(
    begun: _StartedRun,
    device: torch.device,
    processes: ProcessGroup,
    checkpoint: Checkpoint | None,
    begin: float,
) -> TrainingResult:
    """Train, score and write it all down; `begin` is when the command began, in seconds."""
    run, splits, model = begun.run, begun.splits, begun.model
    if processes.rank == 0:
        report_bad_rows(splits.tables.values())
    vocabularies = run.vocabularies()
    recipe = vocabularies.apply_to(begun.recipe)
    facts = {
        "recipe": run.recipe_fingerprint(),
        **vocabularies.fingerprints,
        "data": _fingerprint(splits, recipe.data.pieces),
    }
    _check_same_metadata(facts, checkpoint, processes)
    with raise_together(processes):
        job = begun.job or build_job(recipe, model, vocabularies, splits, device)
    with raise_together(processes):
        trainer = Trainer(
            job,
            recipe.training,
            run.folder,
            seed=recipe.seed,
            device=device,
            metadata=facts,
            resume=checkpoint,
            processes=processes,
        )
    progress = trainer.fit()
    source, target = vocabularies.source, vocabularies.target
    loaded = Pipeline(model, source, recipe, splits.labels, device, target, processes=processes)
    with raise_together(processes):
        if processes.rank == 0:
            run.save_model(model, recipe, splits.labels, vocabularies.checksums)
    with raise_together(processes):  # apart, as all exchange what they score
        scored = [evaluate(loaded, splits[name], name) for name in splits.tests or ("dev",)]
    before = 0.0 if checkpoint is None else trainer.seconds_before
    seconds = before + time.monotonic() - begin
    results = _results(recipe, model, progress, scored, seconds) | {
        "skipped_rows": {name: table.bad_rows.count for name, table in splits.tables.items()},
        **run.initialized_from(),
    }
    with raise_together(processes):
        if processes.rank == 0:
            _write_report(run, recipe, trainer.metrics, results, scored[0], splits.labels)
            run.write_json(run.results_path, results)  # last: a run with results is finished
    return TrainingResult(run, results)


def _check_same_metadata(
    facts: Mapping[str, str], checkpoint: Checkpoint | None, processes: ProcessGroup
) -> None:
    """Raises InputError when two processes do not see the same data, run or checkpoints."""
    step = 0 if checkpoint is None else checkpoint.step
    seen = processes.all_gather_bytes(json.dumps([facts, step], sort_keys=True).encode())
    with raise_together(processes):
        if len(set(seen)) > 1:
            raise InputError(
                "the processes do not see the same data and checkpoints; give all machines the "
                "same files and a run's folder that they share"
            )


def _report_initialization(run: Run, taken: LoadReport | None) -> None:
    """What was taken from another run: on stderr, and in the run for its results."""
    if taken is not None:
        print(taken, file=sys.stderr)
        run.write_text(run.initialization_path, f"{taken}\n")


def _fingerprint(splits: Splits, pieces: bool) -> str:
    """A checksum of every row, so that a resumed training learns from the same data."""
    total = hashlib.sha256()
    for name, table in splits.tables.items():
        total.update(f"{name} {len(table)}\n".encode())
        for column in table.column_names:
            if pieces and column == "text":
                cells: Iterable[str] = map("\1".join, table.pieces(column))
            elif column == "score":
                cells = map(repr, table.numbers(column))
            else:
                cells = table.column(column)
            for cell in cells:
                total.update(cell.encode())
                total.update(b"\0")
    return total.hexdigest()


def _results(
    recipe: Recipe,
    model: nn.Module,
    progress: TrainerState,
    scored: list[EvaluationResult],
    seconds: float,
) -> dict[str, Any]:
    first, *others = [part.scores for part in scored]
    return {
        "name": recipe.name,
        **first,
        "others": others,
        "dev": {
            "metric": recipe.selection_metric,
            "score": progress.to_dict()["best_score"],  # null where nobody knows it
            "step": progress.best_step,
        },
        "seed": recipe.seed,
        "steps": progress.step,
        "ended": progress.ended,
        "skipped_steps": progress.skipped,
        "parameters": sum(p.numel() for p in named_weights(model).values()),
        "training_seconds": round(progress.seconds, 1),
        "wall_seconds": round(seconds, 1),
        "peak_memory_bytes": peak_memory_bytes(),
        "versions": versions(),
    }


def _write_report(
    run: Run,
    recipe: Recipe,
    history: MetricsLog,
    results: dict[str, Any],
    scored: EvaluationResult,
    labels: tuple[str, ...],
) -> None:
    history.write_summaries(recipe.name)
    write_report(
        run.folder,
        title=recipe.name,
        history=history.records,
        results=results,
        recipe_toml=recipe.to_toml(),
        confusion=scored.confusion,
        labels=labels if scored.confusion else (),
        mistakes=scored.mistakes,
        examples=scored.examples,
    )
