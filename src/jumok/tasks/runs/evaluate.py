"""How good a loaded model is on a table, and which tables a recipe is scored on."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from jumok.data.corpora.registry import corpus_by_name
from jumok.data.load import load_splits
from jumok.data.splits import is_test
from jumok.data.table import Table
from jumok.errors import InputError
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.pipeline.task import EvaluationResult
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.registry import get_task


@torch.inference_mode()
def evaluate(loaded: Pipeline, table: Table, split: str) -> EvaluationResult:
    """The scores of a model on the rows of a table, in float32.

    Raises InputError when there are none, and for an imported model that answers no texts.
    """
    if not len(table):
        raise InputError(f"{split} has no rows to score; name a file with some")
    loaded.check_supported()
    return loaded.task.evaluate(loaded, table, split)


def report_bad_rows(tables: Iterable[Table]) -> None:
    """What was wrong with rows that a recipe skips, on stderr."""
    for words in {str(table.bad_rows): None for table in tables}:
        if words:
            print(words, file=sys.stderr)


def evaluation_tables(
    recipe: Recipe, split: str | None = None, labels: Sequence[str] = ()
) -> dict[str, Table]:
    """One split of the recipe's data by its name, or every test set.

    `labels` are the names that the model knows: the cells of one's own files are read by them,
    whatever has become of the training file since. Raises InputError when the data have no such
    split, or no test set.
    """
    data, columns = recipe.data, get_task(recipe).columns(recipe)
    if labels and not data.corpus:
        data = replace(data, labels=tuple(labels))
    names = ["test"] if split is None else [split]
    if split is None and data.corpus:
        corpus = corpus_by_name(data.corpus)
        names = [name for name in (*corpus.splits, *corpus.generated) if is_test(name)]
    names = names or ["test"]
    splits = load_splits(data, columns, only=names)
    if not set(names) <= splits.tables.keys():
        splits = load_splits(data, columns)  # so that those there are can be named
    return {name: splits[name] for name in names}
