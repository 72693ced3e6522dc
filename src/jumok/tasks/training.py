"""From a recipe to a finished run: vocabulary, model, training, and the test scored once."""

import hashlib
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from jumok.data.corpora import Splits, load_splits
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.models.weights import weights_of
from jumok.tasks.answering import Loaded
from jumok.tasks.beginning import Taken, begin_from, vocabularies_of
from jumok.tasks.kernels import Kernels
from jumok.tasks.known import task_of
from jumok.tasks.recipe import Recipe
from jumok.tasks.run import Run
from jumok.tasks.scoring import score
from jumok.tasks.sequence_to_sequence import SequenceToSequence
from jumok.tasks.task import Scored
from jumok.tasks.vocabularies import Vocabularies, learn
from jumok.training.checkpoint import Checkpoint, CheckpointStore
from jumok.training.depth import frozen
from jumok.training.history import History
from jumok.training.machine import find_device, peak_memory_bytes, versions
from jumok.training.randomness import seed_for
from jumok.training.report import write_report
from jumok.training.trainer import Job, Progress, Trainer


@dataclass(frozen=True)
class Finished:
    """A finished run and what `results.json` says of it."""

    run: Run
    results: dict[str, Any]


def train(recipe: Recipe, folder: Path) -> Finished:
    """Train anew in `folder`.

    Raises InputError when a run is there already, or for what cannot be trained: bad data, a
    vocabulary or a device that cannot be had. Then nothing was made in the folder.
    """
    begin = time.monotonic()
    Run(folder).refuse_existing()
    find_device(recipe.device)  # refuses one that is not here before the data are read
    Kernels(recipe.decoding).refuse_missing()  # not only when the test is scored
    splits = load_splits(recipe.data, task_of(recipe).columns(recipe))
    vocabularies = _new_vocabularies(recipe, splits.train)
    vocabularies.refuse(recipe)
    model = _new_model(recipe, vocabularies, splits.labels)
    frozen(weights_of(model), recipe.training.freeze)  # refuses words that mean no weight
    taken = _begin(recipe, model, splits.labels)
    run = Run.begin(folder, recipe, vocabularies)
    _tell_beginning(run, taken)
    return _train(run, recipe, splits, model, None, begin)


def resume(folder: Path) -> Finished:
    """Go on with the run in `folder` from its newest sound checkpoint, or from the start.

    A finished run is answered with its results. Raises CheckpointError when every checkpoint is
    damaged.
    """
    begin = time.monotonic()
    run = Run.existing(folder)
    recipe = run.recipe()
    if run.finished:
        results = run.results()
        if "averaged_steps" in results:
            raise InputError(
                f"{folder} is a mean of checkpoints and has none of its own; go on with the run "
                "it was made of"
            )
        return Finished(run, results)
    checkpoint = CheckpointStore(folder, recipe.training.keep).newest()
    splits = load_splits(recipe.data, task_of(recipe).columns(recipe))
    model = _new_model(recipe, run.vocabularies(), splits.labels)
    if checkpoint is None:
        _tell_beginning(run, _begin(recipe, model, splits.labels))
    return _train(run, recipe, splits, model, checkpoint, begin)


def _train(
    run: Run,
    recipe: Recipe,
    splits: Splits,
    model: nn.Module,
    checkpoint: Checkpoint | None,
    begin: float,
) -> Finished:
    """Train, score and write it all down; `begin` is when the command began, in seconds."""
    _tell_bad_rows(splits)
    device = find_device(recipe.device)
    vocabularies = run.vocabularies()
    recipe = vocabularies.fit(recipe)
    trainer = Trainer(
        _job(recipe, model, vocabularies, splits, device),
        recipe.training,
        run.folder,
        seed=recipe.seed,
        device=device,
        facts={
            "recipe": hashlib.sha256(recipe.to_toml().encode()).hexdigest(),
            **vocabularies.fingerprints,
            "data": _fingerprint(splits, recipe.data.pieces),
        },
        resume=checkpoint,
    )
    progress = trainer.fit()
    run.write_model(model, recipe, splits.labels, vocabularies.fingerprints)
    source, target = vocabularies.source, vocabularies.target
    loaded = Loaded(model, source, recipe, splits.labels, device, target)
    scored = [score(loaded, splits[name], name) for name in splits.tests or ("dev",)]
    before = 0.0 if checkpoint is None else trainer.seconds_before
    seconds = before + time.monotonic() - begin
    results = _results(recipe, model, progress, scored, seconds) | {
        "skipped_rows": {name: table.bad_rows.count for name, table in splits.tables.items()},
        **run.beginning(),
    }
    _publish(run, recipe, trainer.history, results, scored[0], splits.labels)
    run.write_json(run.results_path, results)  # last: a run with results is finished
    return Finished(run, results)


def _begin(recipe: Recipe, model: nn.Module, labels: tuple[str, ...]) -> Taken | None:
    """The weights of the run that a recipe begins from, if it names one."""
    if not recipe.model.init:
        return None
    return begin_from(Path(recipe.model.init), recipe, model, labels)


def _tell_beginning(run: Run, taken: Taken | None) -> None:
    """What was taken from another run: on stderr, and in the run for its results."""
    if taken is not None:
        print(taken, file=sys.stderr)
        run.write_text(run.beginning_path, f"{taken}\n")


def _tell_bad_rows(splits: Splits) -> None:
    """What was wrong with rows that a recipe skips, on stderr."""
    for words in {str(table.bad_rows): None for table in splits.tables.values()}:
        if words:
            print(words, file=sys.stderr)


def _new_vocabularies(recipe: Recipe, train: Table) -> Vocabularies:
    """Those of the run a recipe begins from, or those it names or has learnt."""
    if not recipe.model.init:
        return learn(recipe, train)
    found = vocabularies_of(Path(recipe.model.init))
    if found.joint != recipe.vocabulary.joint:
        raise InputError(
            f"{recipe.model.init} has {'one vocabulary' if found.joint else 'two vocabularies'}; "
            f"set vocabulary.joint = {'true' if found.joint else 'false'} to begin from it"
        )
    return found


def _job(
    recipe: Recipe,
    model: nn.Module,
    vocabularies: Vocabularies,
    splits: Splits,
    device: torch.device,
) -> Job[Any]:
    """What a trainer needs; one kind of task may write with a vocabulary of its own."""
    task = task_of(recipe)
    if isinstance(task, SequenceToSequence):
        return task.job(recipe, model, vocabularies.source, splits, device, vocabularies.target)
    return task.job(recipe, model, vocabularies.source, splits, device)


def _new_model(recipe: Recipe, vocabularies: Vocabularies, labels: tuple[str, ...]) -> nn.Module:
    """The model of a recipe on its device; its first weights follow from the seed."""
    device = find_device(recipe.device)
    torch.manual_seed(seed_for(recipe.seed, "weights"))
    config = vocabularies.fit(recipe).model
    return task_of(recipe).model(config, labels).to(device)


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
    recipe: Recipe, model: nn.Module, progress: Progress, scored: list[Scored], seconds: float
) -> dict[str, Any]:
    first, *others = [part.scores for part in scored]
    return {
        "name": recipe.name,
        **first,
        "others": others,
        "dev": {"metric": recipe.score, "score": progress.best_score, "step": progress.best_step},
        "seed": recipe.seed,
        "steps": progress.step,
        "ended": progress.ended,
        "parameters": sum(p.numel() for p in weights_of(model).values()),
        "training_seconds": round(progress.seconds, 1),
        "wall_seconds": round(seconds, 1),
        "peak_memory_bytes": peak_memory_bytes(),
        "versions": versions(),
    }


def _publish(
    run: Run,
    recipe: Recipe,
    history: History,
    results: dict[str, Any],
    scored: Scored,
    labels: tuple[str, ...],
) -> None:
    history.publish(recipe.name)
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
