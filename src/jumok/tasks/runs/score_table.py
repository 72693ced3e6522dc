"""The table of a paper: runs grouped by what differs in their recipes, scores over their seeds."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jumok.config_io import to_dict
from jumok.errors import InputError, Message
from jumok.evaluation.recipe_difference import recipe_difference
from jumok.tasks.pipeline.outputs import RunOutputs
from jumok.tasks.runs.compare import check_comparable, run_outputs
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.tasks.runs.load import load
from jumok.tasks.runs.run import Run
from jumok.tasks.runs.run_files import check_is_run
from jumok.terminal import counted, print_notice
from jumok.training.reporting.report import headline_metrics

SIGNIFICANT = 0.05
TEST_SET = "test set"  # a column where the runs have different ones


@dataclass(frozen=True)
class Score:
    """A metric of a group: mean and standard deviation over its runs (none for a single run).

    `best` is whether the group is better than every other one, by the test of `recipe_difference`.
    """

    mean: float
    std: float | None
    best: bool = False


@dataclass(frozen=True)
class Group:
    """Runs that differ only in the seed: the recipe values in which the groups differ, scores."""

    values: Mapping[str, str]
    runs: Sequence[Path]
    scores: Mapping[str, Score]


def score_table(folders: Sequence[Path], *, test: bool = False) -> list[Group]:
    """The finished runs as groups, with their scores on the test split from results.json.

    With `test` every model predicts the test split, to find the group that is certainly the best.
    Raises InputError for a folder that does not exist, and if no run is finished.
    """
    runs = [Run(folder) for folder in dict.fromkeys(folders)]
    for run in runs:
        if not run.folder.is_dir():
            check_is_run(run.folder)
        if not run.finished:
            print_notice(Message("run.left_out", "{run} is not finished: left out", run=run.folder))
    runs = [run for run in runs if run.finished]
    if not runs:
        raise InputError(
            "run.no_finished_runs",
            "at least one of the runs must be finished, got none; finish them with "
            "jumok train --resume RUN",
        )
    values = [_values(run) for run in runs]
    keys = dict.fromkeys(key for each in values for key in each)
    differing = [key for key in keys if len({each.get(key) for each in values}) > 1] or ["name"]
    groups: dict[tuple[str, ...], list[Run]] = {}
    for run, each in zip(runs, values, strict=True):
        groups.setdefault(tuple(each.get(key, "") for key in differing), []).append(run)
    found = [
        Group(
            dict(zip(differing, shown, strict=True)),
            [run.folder for run in members],
            _scores([run.results() for run in members]),
        )
        for shown, members in groups.items()
    ]
    return _mark_best(found) if test else found


def _values(run: Run) -> dict[str, str]:
    """Every value of a run's recipe but the seed, by its dotted key, and the test set."""
    recipe, results = run.recipe(), run.results()
    values: dict[str, str] = {}

    def add(tree: Mapping[str, Any], prefix: str) -> None:
        for key, value in tree.items():
            if isinstance(value, Mapping):
                add(value, f"{prefix}{key}.")
            else:
                values[f"{prefix}{key}"] = (
                    value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                )

    add(to_dict(replace(recipe, data=recipe.data.absolute())), "")
    values.pop("seed", None)
    for split in ("train", "dev", "test"):  # rows that `jumok.train` kept in the folder of each run
        if str(run.folder.absolute()) in values.get(f"data.{split}", ""):
            values[f"data.{split}"] = results.get("data_sha256", {}).get(split, "")[:12]
    return values | {TEST_SET: f"{results.get('split')}, {results.get('n')}"}


def _scores(results: Sequence[Mapping[str, Any]]) -> dict[str, Score]:
    """Mean and standard deviation of each metric that all results have."""
    found = {}
    for metric in headline_metrics():
        values = [each[metric] for each in results if isinstance(each.get(metric), int | float)]
        if len(values) == len(results):
            std = statistics.stdev(values) if len(values) > 1 else None
            found[metric] = Score(statistics.fmean(values), std)
    return found


def _mark_best(groups: Sequence[Group]) -> list[Group]:
    """The groups, with the best of each metric marked if it is better than every other one.

    None is marked if a group has a single run, or the task has no output for single rows.
    """
    if len(groups) < 2 or min(len(group.runs) for group in groups) < 2:
        print_notice(
            Message(
                "run.best_not_tested",
                "which group is best is not tested: that needs two groups or more, and two "
                "seeds or more of each",
            )
        )
        return list(groups)
    try:
        outputs = _outputs(groups)
    except InputError as error:
        print_notice(error)
        return list(groups)
    marked = [dict(group.scores) for group in groups]
    for metric in outputs[0][0].statistics:
        if not all(metric in scores for scores in marked):
            continue
        best = max(range(len(groups)), key=lambda i: marked[i][metric].mean)
        ours = [run.statistics[metric] for run in outputs[best]]
        others = [
            [run.statistics[metric] for run in runs]
            for number, runs in enumerate(outputs)
            if number != best
        ]
        if all(recipe_difference(theirs, ours).p < SIGNIFICANT for theirs in others):
            marked[best][metric] = replace(marked[best][metric], best=True)
    return [replace(group, scores=scores) for group, scores in zip(groups, marked, strict=True)]


def _outputs(groups: Sequence[Group]) -> list[list[RunOutputs]]:
    """What each run of each group does with the rows of the test set."""
    folders = [folder for group in groups for folder in group.runs]
    pipelines = {folder: load(folder) for folder in folders}
    check_comparable([*pipelines.values()])
    first = pipelines[folders[0]]
    split = Run(folders[0]).results()["split"]
    (table,) = evaluation_tables(first.recipe, split, first.labels).values()
    shown = counted(folders, "jumok: {n} of {total} runs", len(folders))
    outputs = {folder: run_outputs(pipelines[folder], table) for folder in shown}
    return [[outputs[folder] for folder in group.runs] for group in groups]
