"""Evaluate a pipeline on a table, and find the tables that a recipe is evaluated on."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from jumok.config_io import to_dict
from jumok.data.config import find_corpus
from jumok.data.load import load_splits
from jumok.data.splits import is_test
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.tasks.pipeline.outputs import EvaluationResult
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe
from jumok.terminal import print_notice


@torch.inference_mode()
def evaluate(pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
    """The scores of a model on the rows of a table, in float32.

    Raises InputError for a table without rows, and for an imported model without a head for texts.
    """
    if not len(table):
        raise InputError(
            "run.no_rows", "{split} must have rows, got none; name a file with some", split=split
        )
    pipeline.check_supported()
    result = pipeline.task.evaluate(pipeline, table, split)
    kernel = result.kernel or pipeline.kernel
    return replace(result, scores=result.scores | {"kernel": to_dict(kernel)})


def report_bad_rows(tables: Iterable[Table]) -> None:
    """Print the errors of rows that a recipe skips to stderr."""
    for bad_rows in {str(table.bad_rows): table.bad_rows for table in tables}.values():
        if bad_rows.count:
            print_notice(bad_rows.listed)


def evaluation_tables(
    recipe: Recipe, split: str | None = None, labels: Sequence[str] = ()
) -> dict[str, Table]:
    """One split of the recipe's data by its name, or every test set.

    With `labels`, those of the model, the cells of a user's files are checked against them, even if
    the training file has changed. Raises InputError when the data have no such split, or no test
    set.
    """
    data, columns = recipe.data, recipe.columns
    names = ["test"] if split is None else [split]
    if split is None and data.corpus:
        corpus = find_corpus(data.corpus)
        names = [name for name in (*corpus.splits, *corpus.generated) if is_test(name)]
    names = names or ["test"]
    splits = load_splits(data, columns, names, labels)
    if not set(names) <= splits.tables.keys():
        splits = load_splits(data, columns, labels=labels)  # the error lists those that exist
    return {name: splits[name] for name in names}
