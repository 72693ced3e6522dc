"""How many rows of the data a model cannot read whole.

Shapes: n rows.
"""

import numpy as np
from numpy.typing import NDArray

from jumok.data.report import Lengths
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.data.token_cache import encode_cached
from jumok.tasks.inputs.special_tokens import length_limit
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.registry import get_task
from jumok.text.ragged import Ragged


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
