"""Texts without a label, which a recipe adds to its training or trains on alone."""

from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.data.splits import TEXTS, Splits
from jumok.tasks.recipe.tables import DistillationConfig, SimilarityConfig


def unlabelled_texts(config: DistillationConfig | SimilarityConfig, splits: Splits) -> list[str]:
    """The texts of the table's corpus or file, without those of the splits and empty ones.

    Texts of pairs are those of both columns.
    """
    if not config.corpus and not config.texts:
        return []
    data = (
        DataConfig(corpus=config.corpus)
        if config.corpus
        else DataConfig(train=config.texts, dev=config.texts, format="lines")  # no row is held out
    )
    table = load_splits(data, TEXTS, only=["train"]).train
    known = [
        text
        for split in splits.tables.values()
        for column in split.column_names
        if column in ("text", "pair")
        for text in split.column(column)
    ]
    texts = list(table.without("text", known).without_empty("text").column("text"))
    return texts[: config.rows] if config.rows else texts
