"""Compare runs on the same rows: two recipes by their seeds, or two models.

With at least two runs a side the test counts the variance between seeds and is about the recipes;
else it is the paired bootstrap over rows, about these models alone.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from jumok.atomic_io import sha256_of, write_atomically
from jumok.config_io import to_dict
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.evaluation.bootstrap import Difference, paired_bootstrap
from jumok.evaluation.recipe_difference import recipe_difference
from jumok.tasks.pipeline.encoder_choice import with_packed_encoder
from jumok.tasks.pipeline.outputs import RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.runs.evaluate import evaluation_tables
from jumok.tasks.runs.int8_loss import RECORD, Int8Loss, Metric
from jumok.tasks.runs.run_files import MAX_WEIGHTS_BYTES


@dataclass(frozen=True)
class DifferentRow:
    """A row for which the first runs of two systems have different outputs."""

    row: int  # from 1
    text: str
    expected: str
    first: str
    second: str


@dataclass(frozen=True)
class Comparison:
    """Two systems: every metric with its certainty, and the rows on which they differ.

    `about` says whether the differences are about the recipes or only about these models. Rows
    that exactly one of them has right come first.
    """

    n: int
    about: Literal["recipes", "models"]
    metrics: Mapping[str, Difference]
    different: Sequence[DifferentRow]


def compare(first: Sequence[Pipeline], second: Sequence[Pipeline], table: Table) -> Comparison:
    """Compare two systems on the rows of a table; the runs of a system are its seeds.

    Raises InputError for a table without rows, for different tasks or labels, and for a task
    without outputs for single rows (language modeling).
    """
    pipelines = (*first, *second)
    check_comparable(pipelines)
    if not len(table):
        raise InputError(
            "run.no_rows_to_compare",
            "the rows to compare on must be at least one, got none; name another file",
        )
    ours = [run_outputs(pipeline, table) for pipeline in first]
    theirs = [run_outputs(pipeline, table) for pipeline in second]
    seeds = min(len(ours), len(theirs)) > 1
    return Comparison(
        len(table),
        "recipes" if seeds else "models",
        {
            metric: (recipe_difference if seeds else paired_bootstrap)(
                [run.statistics[metric] for run in ours], [run.statistics[metric] for run in theirs]
            )
            for metric in ours[0].statistics
        },
        different_rows(ours[0], theirs[0]),
    )


def measure_int8(pipeline: Pipeline) -> Int8Loss:
    """Compare int8 with float32 on the dev rows of a run, and keep the result in its folder.

    Raises InputError for a model that generates text, or whose encoder the kernel does not compute,
    for a model without a run, and for data without dev rows.
    """
    weights = pipeline.weights_path
    if pipeline.recipe.model.kind != "encoder" or weights is None:
        raise InputError(
            "run.int8_not_measured",
            "int8 is measured for runs of encoders, got a model of kind {kind}; for one that "
            "generates text set decoding.precision",
            kind=pipeline.recipe.model.kind,
        )
    first, second = with_packed_encoder(pipeline, "float32"), with_packed_encoder(pipeline, "int8")
    (table,) = evaluation_tables(pipeline.recipe, "dev", pipeline.labels).values()
    found = compare([first], [second], table)
    loss = Int8Loss(
        weights_sha256=sha256_of(weights, MAX_WEIGHTS_BYTES),
        rows=found.n,
        different=len(found.different),
        metrics=tuple(
            Metric(name=name, float32=value.first, int8=value.second)
            for name, value in found.metrics.items()
        ),
    )
    content = json.dumps(to_dict(loss), ensure_ascii=False, indent=2) + "\n"
    write_atomically(weights.with_name(RECORD), content.encode())
    return loss


def group_by_seed(recipes: Sequence[Recipe]) -> list[list[int]]:
    """The indices of the runs of each recipe: runs whose recipes differ only in the seed."""
    groups: dict[str, list[int]] = {}
    for index, recipe in enumerate(recipes):
        key = repr(replace(recipe, seed=0, data=recipe.data.absolute()))
        groups.setdefault(key, []).append(index)
    return list(groups.values())


def check_comparable(pipelines: Sequence[Pipeline]) -> None:
    """Raise InputError unless the runs have one task that can be compared, and the same labels."""
    first = pipelines[0]
    for other in pipelines[1:]:
        if other.recipe.task != first.recipe.task or {*other.labels} != {*first.labels}:
            raise InputError(
                "run.not_comparable",
                "the runs must have the same task and labels, got {task} with {labels} and "
                "{task_2} with {labels_2}",
                task=first.recipe.task,
                labels=", ".join(sorted(first.labels)[:10]) or "none",
                task_2=other.recipe.task,
                labels_2=", ".join(sorted(other.labels)[:10]) or "none",
            )
    if not first.task.compares_rows:
        raise InputError(
            "run.rows_not_comparable",
            "runs of the task {task} have no output for single rows to compare; use jumok evaluate",
            task=first.recipe.task,
        )


@torch.inference_mode()
def run_outputs(pipeline: Pipeline, table: Table) -> RunOutputs:
    """The outputs and statistics of a run for all rows of a table."""
    pipeline.check_supported()
    return pipeline.task.row_outputs(pipeline, table)


def different_rows(first: RunOutputs, second: RunOutputs) -> list[DifferentRow]:
    """The rows with different outputs; those that exactly one run has right come first."""
    rows = zip(first.texts, first.expected, first.outputs, second.outputs, strict=True)
    found = [
        DifferentRow(number, text, expected, one, other)
        for number, (text, expected, one, other) in enumerate(rows, 1)
        if one != other
    ]
    return sorted(found, key=lambda row: row.expected not in (row.first, row.second))
