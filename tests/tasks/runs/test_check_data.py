"""The report on the data of a recipe: which rows its model truncates."""

from dataclasses import replace
from pathlib import Path

import pytest

from jumok.data.load import load_splits
from jumok.data.report import Lengths
from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.tokenizer_pair import TokenizerPair
from jumok.tasks.recipe.recipe import Recipe, load_recipe, recipe_of_file
from jumok.tasks.recipe.tables import VocabularyRecipe
from jumok.tasks.runs.check_data import check_data, lengths_of
from jumok.text.sentencepiece import SentencePieceTokenizer

TEXTS = ["가" * n for n in range(1, 30)]


@pytest.fixture(scope="module")
def tokenizer() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(TEXTS, VocabularyRecipe(size=40, kind="char"))


def with_length(recipe: Recipe, max_length: int) -> Recipe:
    return replace(recipe, model=replace(recipe.model, max_length=max_length))


@pytest.mark.parametrize("paired", [False, True], ids=["texts", "pairs"])
def test_the_rows_that_the_encoder_truncates(
    tokenizer: SentencePieceTokenizer, paired: bool
) -> None:
    columns = {"text": TEXTS, "label": ["1"] * len(TEXTS)} | ({"pair": TEXTS} if paired else {})
    table = Table.from_columns(columns)
    settings = ["data.pair=pair"] if paired else []
    recipe = with_length(recipe_of_file("a.tsv", "classification", settings), 20)
    found = lengths_of(Splits({"train": table}), recipe, TokenizerPair(tokenizer, tokenizer))
    whole = TextEncoder(tokenizer, 1_000).encode_table(table)
    assert found == Lengths(20, {"train": sum(len(row) > 20 for row in whole)})
    assert 0 < found.longer["train"] < len(TEXTS)


def test_the_rows_of_which_either_side_is_truncated(tokenizer: SentencePieceTokenizer) -> None:
    table = Table.from_columns({"source": TEXTS, "target": TEXTS[::-1]})
    recipe = with_length(recipe_of_file("a.tsv", "sequence_to_sequence"), 20)
    found = lengths_of(Splits({"train": table}), recipe, TokenizerPair(tokenizer, tokenizer))
    encode = Seq2SeqEncoder(tokenizer, tokenizer, 1_000)
    sources, targets = encode.pairs(table)
    longer = [len(s) > 20 or len(t) > 21 for s, t in zip(sources, targets, strict=True)]  # [BOS]
    assert found == Lengths(20, {"train": sum(longer)})
    assert 0 < sum(longer) < len(TEXTS)


def test_windows_truncate_nothing(tokenizer: SentencePieceTokenizer) -> None:
    splits = Splits({"train": Table.from_columns({"text": TEXTS})})
    recipe = with_length(recipe_of_file("a.txt", "language_modeling"), 20)
    assert lengths_of(splits, recipe, TokenizerPair(tokenizer, tokenizer)) is None


def test_a_file_is_read_as_its_training_reads_it(tmp_path: Path) -> None:
    """The shipped vocabulary decides the lengths; the dev rows are those of the training."""
    path = tmp_path / "own.tsv"
    rows = [f"{n} 번째 글\t{n % 2}" for n in range(40)] + ["긴 글 " * 400 + "\t1", "\t0"]
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "own.toml").write_text(
        f'task = "classification"\n[data]\ntrain = "{path}"\n[training]\nepochs = 1\n'
    )
    of_file, tables = check_data(recipe_of_file(str(path), "classification"))
    assert of_file == check_data(load_recipe(str(tmp_path / "own.toml")))[0]
    assert of_file.lengths is not None
    assert sum(of_file.lengths.longer.values()) == 1
    assert [row.line for row in tables["train"].bad_rows.first] == [43]
    trained = load_splits(
        recipe_of_file(str(path), "classification", ["data.on_bad_rows=skip"]).data
    )
    assert list(tables["dev"].column("text")) == list(trained.dev.column("text"))
