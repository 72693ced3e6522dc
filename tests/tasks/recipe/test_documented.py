"""Every key of a recipe is documented."""

import dataclasses
from pathlib import Path

import pytest

from jumok.data.config import DataConfig
from jumok.decoding import DecodingConfig
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import (
    AugmentationConfig,
    DistillationConfig,
    MaskingConfig,
    ModelConfig,
    MultiLabelConfig,
    RegressionConfig,
    VocabularyRecipe,
    WindowConfig,
)
from jumok.training.config import TrainingConfig

DOCS = Path(__file__).parents[3] / "docs"
TABLES: dict[str, type] = {
    "data": DataConfig,
    "vocabulary": VocabularyRecipe,
    "model": ModelConfig,
    "augmentation": AugmentationConfig,
    "training": TrainingConfig,
    "decoding": DecodingConfig,
    "windows": WindowConfig,
    "masking": MaskingConfig,
    "distillation": DistillationConfig,
    "multi_label": MultiLabelConfig,
    "regression": RegressionConfig,
}


@pytest.mark.parametrize("table", [*TABLES, ""])
def test_every_key_is_documented(table: str) -> None:
    names = ("recipes", "data", "decoding")
    text = "".join((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in names)
    keys = [field.name for field in dataclasses.fields(TABLES.get(table, Recipe))]
    keys = [key for key in keys if table or key not in TABLES]
    told = [f"`{key}`" in text or f"`{key} = " in text or f"\n{key} = " in text for key in keys]
    assert [key for key, there in zip(keys, told, strict=True) if not there] == []
