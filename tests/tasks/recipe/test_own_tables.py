"""Tables of a recipe that a task from outside declares."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from jumok.config_io import to_dict
from jumok.errors import ConfigError, RecipeError
from jumok.registry import _REGISTERED, register
from jumok.tasks.classification import ClassificationTask
from jumok.tasks.recipe.recipe import Recipe, change_recipe, load_recipe, load_run_recipe
from tests.errors import raises


@dataclass(frozen=True)
class Margin:
    width: float = 1.0
    side: str = "both"


@register("jumok.tasks", "tests_margin")
class MarginTask(ClassificationTask):
    tables = (*ClassificationTask.tables, ("margin", Margin))


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(
        'name = "own"\ntask = "tests_margin"\n[training]\nsteps = 1\n[data]\ncorpus = "nsmc"\n'
        "[margin]\nwidth = 2\n"
    )
    return path


def test_a_table_of_the_task(recipe: Path, tmp_path: Path) -> None:
    found = load_recipe(str(recipe), {"margin.side": "left"})
    assert isinstance(found, Recipe)
    assert to_dict(found)["margin"] == {"width": 2.0, "side": "left"}
    changed = change_recipe(found, ["margin.width=3"])
    assert to_dict(changed)["margin"] == {"width": 3.0, "side": "left"}
    (tmp_path / "copy.toml").write_text(found.to_toml(), encoding="utf-8")
    assert load_run_recipe(tmp_path / "copy.toml") == found


def test_keys_and_values_are_checked(recipe: Path) -> None:
    with raises(ConfigError, "config.unknown_key") as caught:
        load_recipe(str(recipe), {"margin.widht": 1})
    assert "did you mean margin.width" in str(caught.value)
    with raises(ConfigError, "config.wrong_type"):
        load_recipe(str(recipe), {"margin.width": "wide"})


def test_the_table_is_unknown_to_other_tasks(recipe: Path) -> None:
    with raises(ConfigError, "config.unknown_key"):
        load_recipe(str(recipe), {"task": "classification"})


@pytest.mark.parametrize("table", [("data", Margin), ("margin", dict), ("a b", Margin)])
def test_an_unusable_table(
    table: tuple[str, type], recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(MarginTask):
        tables = (table,)

    monkeypatch.setitem(_REGISTERED, ("jumok.tasks", "tests_margin"), Broken)
    with raises(RecipeError, "task.unusable_table"):
        load_recipe(str(recipe))
