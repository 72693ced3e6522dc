"""The report on the data of a recipe, before a training or alone.

Shapes: n rows.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from jumok.data.load import load_splits
from jumok.data.report import DataReport, Lengths, data_report
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.pretrained.hub import find_model
from jumok.shipped import resolve_vocabulary
from jumok.tasks.inputs.special_tokens import length_limit
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.registry import get_task
from jumok.text.ragged import Ragged
from jumok.text.sentencepiece import SentencePieceTokenizer


def report_on(splits: Splits, recipe: Recipe, tokenizers: TokenizerPair | None) -> DataReport:
    """The report on splits that are read; lengths are known with the tokenizers of the model."""
    lengths = None if tokenizers is None else lengths_of(splits, recipe, tokenizers)
    return data_report(splits, recipe.data, lengths)


def check_data(recipe: Recipe) -> tuple[DataReport, dict[str, Table]]:
    """The report on the data of a recipe, and its tables without the rows that cannot be used.

    Raises InputError for data that cannot be read at all, as a training does.
    """
    splits = load_splits(replace(recipe.data, on_bad_rows="skip"), recipe.columns)
    return report_on(splits, recipe, _existing_tokenizers(recipe)), dict(splits.tables)


def _existing_tokenizers(recipe: Recipe) -> TokenizerPair | None:
    """The tokenizers that the recipe names; None if the training makes them."""
    if recipe.model.init:
        from jumok.tasks.runs.initialize_from import load_tokenizers

        return load_tokenizers(find_model(recipe.model.init))
    table = recipe.vocabulary
    if not table.file or not (table.joint or table.target_file):
        return None
    source = SentencePieceTokenizer.load(resolve_vocabulary(table.file))
    if table.joint:
        return TokenizerPair(source, source)
    return TokenizerPair(source, SentencePieceTokenizer.load(resolve_vocabulary(table.target_file)))


def lengths_of(splits: Splits, recipe: Recipe, tokenizers: TokenizerPair) -> Lengths | None:
    """The rows of each split that are truncated; None if the task reads windows, or pieces."""
    if not get_task(recipe.task).truncates or recipe.data.pieces:
        return None
    longer = {
        name: int(_is_longer(table, recipe, tokenizers).sum())
        for name, table in splits.tables.items()
    }
    return Lengths(length_limit(tokenizers.source, recipe.model.max_length), longer)


def _is_longer(table: Table, recipe: Recipe, tokenizers: TokenizerPair) -> NDArray[np.bool_]:
    """Whether a text of each row, or both texts of a pair, have too many tokens, (n,)."""
    names = [name for name in ("text", "pair", "source", "target") if name in table.column_names]
    joined = recipe.reads_pairs
    empty = Ragged.from_lists([[]])
    found: list[tuple[NDArray[np.int64], int]] = []  # lengths (n,), and how many tokens fit
    for name in names:
        tokenizer = tokenizers.target if name == "target" else tokenizers.source
        limit = length_limit(tokenizer, recipe.model.max_length)
        row = get_task(recipe.task).add_special_tokens(
            tokenizer, empty, empty if joined else None, limit
        )
        n_free = limit - int(row.lengths[0])  # without the special tokens
        found.append((encode_cached(table.column(name), tokenizer).lengths, n_free))
    if joined:
        found = [(np.sum([lengths for lengths, _ in found], axis=0), found[0][1])]
    longer: NDArray[np.bool_] = np.any([lengths > n_free for lengths, n_free in found], axis=0)
    return longer
