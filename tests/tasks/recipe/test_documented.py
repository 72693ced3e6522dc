"""Every key of a recipe is documented, and every documented recipe is valid."""

import dataclasses
import re
from pathlib import Path

import pytest

import jumok
from jumok.data.config import DataConfig
from jumok.decoding import DecodingConfig
from jumok.tasks.recipe.recipe import Recipe, load_recipe
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

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
GUIDE = DOCS / "site" / "pages" / "guides" / "build.md"


def _blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


RECIPES = [  # with a task: other blocks are single tables
    (str(page.relative_to(ROOT)), block)
    for page in sorted([*ROOT.glob("README*.md"), *DOCS.rglob("*.md")])
    for block in _blocks(page, "toml")
    if re.search("^task = ", block, re.MULTILINE)
]
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
    documented = [
        f"`{key}`" in text or f"`{key} = " in text or f"\n{key} = " in text for key in keys
    ]
    assert [key for key, there in zip(keys, documented, strict=True) if not there] == []


def test_recipes_are_found_in_both_languages() -> None:
    assert {page for page, _ in RECIPES} >= {
        "README.md",
        "README.ko.md",
        str(GUIDE.relative_to(ROOT)),
    }


@pytest.mark.parametrize(("page", "block"), RECIPES, ids=[page for page, _ in RECIPES])
def test_a_documented_recipe_loads(page: str, block: str, tmp_path: Path) -> None:
    path = tmp_path / "reviews.toml"
    path.write_text(block, encoding="utf-8")
    recipe = load_recipe(str(path))
    expected = {"sequence_to_sequence": "pairs.tsv", "language_modeling": "lines.txt"}
    assert recipe.data.train == expected.get(recipe.task, "train.tsv")


@pytest.mark.slow
def test_the_guide_trains_its_own_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files as the guide describes them, and with its rows in memory."""
    monkeypatch.chdir(tmp_path)
    (block,) = _blocks(GUIDE, "toml")
    Path("reviews.toml").write_text(block, encoding="utf-8")
    for name, n in (("train.tsv", 40), ("test.tsv", 5)):
        rows = "".join(f"영화 {i} 재미있어요\t5\n영화 {i} 지루해요\t1\n" for i in range(n))
        Path(name).write_text(f"review\tstars\n{rows}", encoding="utf-8")
    assert jumok.train("reviews.toml", out="runs/reviews").results["n"] == 10
    (python,) = _blocks(GUIDE, "python")
    exec(compile(python, GUIDE.name, "exec"), {})
    assert jumok.Run("runs/mine").results["n"] == 2
