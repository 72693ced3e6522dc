"""The report on the data of a recipe, before a training or alone."""

from dataclasses import replace

from jumok.data.load import load_splits
from jumok.data.report import DataReport, data_report
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.pretrained.hub import find_model
from jumok.shipped import resolve_vocabulary
from jumok.tasks.inputs.lengths import lengths_of
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import Recipe
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
